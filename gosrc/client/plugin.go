package client

// PluginDescription is what a client's plugin says of itself.
type PluginDescription struct {
	// Path is the plugin's library.
	Path string
	// APIVersion is the version of the interface that it was built with, for example "0.106".
	APIVersion string
	// Attributes are of its own choice, for example "xla_version".
	Attributes map[string]any
	// Extensions are the names of what it has beside the common functions.
	Extensions []string
}

// PluginDescriber is a client that stands on a plugin, as those of pjrtclient and ifrtclient do.
type PluginDescriber interface {
	// DescribePlugin does not block.
	DescribePlugin() PluginDescription
}
