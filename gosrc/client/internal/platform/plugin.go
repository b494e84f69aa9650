package platform

import (
	"fmt"

	"xla_go/gosrc/client"
)

// DescribePlugin gives what the plugin says of itself. Not blocking.
func (p *Platform) DescribePlugin() client.PluginDescription {
	plugin := p.PJRT.Plugin()
	major, minor := plugin.APIVersion()
	d := client.PluginDescription{Path: plugin.Path(), APIVersion: fmt.Sprintf("%d.%d", major, minor), Attributes: plugin.Attributes()}
	for _, e := range plugin.Extensions() {
		d.Extensions = append(d.Extensions, e.Name)
	}
	return d
}
