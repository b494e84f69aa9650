package hlo_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"xla_go/gosrc/client"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/stablehlo"
)

var update = flag.Bool("update", false, "write the golden files again")

// families holds one module per family of operations; together they use every operation.
var families = map[string]func(b *hlo.Builder) []hlo.Value{
	"constant":    constantFamily,
	"elementwise": elementwiseFamily,
	"shape":       shapeFamily,
	"reduce":      reduceFamily,
	"gather":      gatherFamily,
	"dot":         dotFamily,
	"convolution": convolutionFamily,
	"control":     controlFamily,
	"linalg":      linalgFamily,
	"random":      randomFamily,
	"collective":  collectiveFamily,
}

func buildFamily(t *testing.T, name string) []byte {
	t.Helper()
	b := hlo.NewBuilder(name)
	module, err := b.Build(families[name](b), []hlo.Donor{{Parameter: 0}})
	if err != nil {
		t.Fatal(err)
	}
	return module
}

func TestGoldenText(t *testing.T) {
	for name := range families {
		t.Run(name, func(t *testing.T) {
			got, err := hlo.Dump(buildFamily(t, name))
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name+".hlo.txt")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("the text differs from %s (go test -update writes it again); first difference:\n%s", path, firstDifference(got, string(want)))
			}
		})
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range g {
		if i >= len(w) || g[i] != w[i] {
			old := "(end)"
			if i < len(w) {
				old = w[i]
			}
			return "got  " + g[i] + "\nwant " + old
		}
	}
	return "got (end)\nwant " + w[len(g)]
}

// The compiler checks every shape that was inferred here against its own inference.
func TestEveryFamilyCompilesAndRuns(t *testing.T) {
	for name := range families {
		t.Run(name, func(t *testing.T) {
			module := buildFamily(t, name)
			m, err := hlo.Module(module)
			if err != nil {
				t.Fatal(err)
			}
			var shapes []shape.Shape
			for _, s := range m.HostProgramShape.Parameters {
				shapes = append(shapes, shape.Make(dtype.Dtype(s.ElementType), s.Dimensions...))
			}
			out := execute(t, module, inputsOf(shapes))
			if want := len(m.HostProgramShape.Result.TupleShapes); len(out) != want {
				t.Errorf("got %d outputs, want %d", len(out), want)
			}
			text, err := stablehlo.Readable(module)
			if err != nil {
				t.Fatal(err)
			}
			for i, bytes := range executeInstance(t, client.CompileInstance{MLIR: []byte(text)}, inputsOf(shapes)) {
				if string(bytes) != string(out[i]) {
					t.Errorf("output %d of the readable StableHLO differs from that of the module: %x, want %x\n%s", i, bytes, out[i], text)
				}
			}
		})
	}
}

func TestBytesAreDeterministic(t *testing.T) {
	for name := range families {
		if a, b := buildFamily(t, name), buildFamily(t, name); string(a) != string(b) {
			t.Errorf("%s: two builds differ", name)
		}
	}
}

// The bytes are written without the generated messages, so decode them through those: a wrong
// field number or type would be an unknown field or an error.
func TestEveryFieldIsInTheSchema(t *testing.T) {
	for name := range families {
		m, err := hlo.Module(buildFamily(t, name))
		if err != nil {
			t.Fatal(err)
		}
		unknown(t, name, m.ProtoReflect())
		again, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		b, err := hlo.Dump(again)
		if err != nil {
			t.Fatal(err)
		}
		if a, _ := hlo.Dump(buildFamily(t, name)); a != b {
			t.Errorf("%s: text changes after decoding and encoding: %s", name, firstDifference(a, b))
		}
	}
}

func unknown(t *testing.T, path string, m protoreflect.Message) {
	t.Helper()
	if u := m.GetUnknown(); len(u) > 0 {
		t.Errorf("%s: unknown bytes %x", path, u)
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.Kind() != protoreflect.MessageKind || f.IsMap() {
			return true
		}
		if f.IsList() {
			for i := range v.List().Len() {
				unknown(t, path+"."+string(f.Name()), v.List().Get(i).Message())
			}
		} else {
			unknown(t, path+"."+string(f.Name()), v.Message())
		}
		return true
	})
}
