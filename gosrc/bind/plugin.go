package bind

import (
	"xla_go/gosrc/client"
	"xla_go/gosrc/client/current"
	"xla_go/gosrc/status"
)

// PluginDescription gives what the plugin says of itself as a JSON object: path, api_version,
// attributes and extensions.
func PluginDescription() (text string, err error) {
	defer guard(&err)
	c, err := current.Get()
	if err != nil {
		return "", err
	}
	d, ok := c.(client.PluginDescriber)
	if !ok {
		return "", status.Errorf(status.Unimplemented, "PluginDescription(): the client does not stand on a plugin")
	}
	told := d.DescribePlugin()
	return encode(map[string]any{
		"path": told.Path, "api_version": told.APIVersion, "attributes": told.Attributes, "extensions": append([]string{}, told.Extensions...),
	})
}
