package pjrtclient_test

import (
	"testing"

	"xla_go/gosrc/client/internal/plugintest"
	"xla_go/gosrc/client/pjrtclient"
)

func TestFaults(t *testing.T) { plugintest.Faults(t, pjrtclient.New) }

func TestNever(t *testing.T) { plugintest.Never(t, "TestNever", pjrtclient.New) }
