package hlo_test

import (
	"strings"
	"testing"

	"xla_go/gosrc/hlo"
	pb "xla_go/gosrc/hlo/proto"
	"xla_go/gosrc/status"
)

func TestSignaturesThatAreNotTheEntrys(t *testing.T) {
	if err := hlo.CheckSignature("compile", smallModule(t)); err != nil {
		t.Fatal(err)
	}
	entry := func(m *pb.HloModuleProto) *pb.HloComputationProto { return m.Computations[len(m.Computations)-1] }
	for words, damage := range map[string]func(m *pb.HloModuleProto){
		"entry computation is missing":  func(m *pb.HloModuleProto) { m.EntryComputationId = 99 },
		"1 parameters and the module 0": func(m *pb.HloModuleProto) { m.HostProgramShape.Parameters = nil },
		"result": func(m *pb.HloModuleProto) {
			m.HostProgramShape.Result.TupleShapes = m.HostProgramShape.Result.TupleShapes[:1]
		},
		"parameter 0 has another shape":    func(m *pb.HloModuleProto) { m.HostProgramShape.Parameters[0].Dimensions[0]++ },
		"is parameter 7 of 1":              func(m *pb.HloModuleProto) { entry(m).Instructions[0].ParameterNumber = 7 },
		"has another shape than the progr": func(m *pb.HloModuleProto) { entry(m).ProgramShape.Result = nil },
	} {
		m, err := hlo.Module(smallModule(t))
		if err != nil {
			t.Fatal(err)
		}
		damage(m)
		if err := hlo.CheckSignature("compile", encoded(t, m)); status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), words) {
			t.Errorf("expected InvalidArgument with %q, got %v", words, err)
		}
	}
}
