package ifrtclient_test

import (
	"testing"

	"xla_go/gosrc/client/ifrtclient"
	"xla_go/gosrc/client/internal/plugintest"
)

func TestFaults(t *testing.T) { plugintest.Faults(t, ifrtclient.New) }

func TestNever(t *testing.T) { plugintest.Never(t, "TestNever", ifrtclient.New) }
