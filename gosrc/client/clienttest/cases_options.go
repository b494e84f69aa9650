package clienttest

import (
	"strings"

	"xla_go/gosrc/client"
	"xla_go/gosrc/status"
)

// unknownCompileOption sets options of which the compiler does not know one: each compile says which, and
// nothing else is lost by it.
func unknownCompileOption(t *T, c client.Client) {
	k := compile(t, c, addProgram(f32(2)))
	defer k.Close()
	x := upload(t, c, f32(2), floats(3, 4))
	defer x.Close()
	before := c.HashCompilationEnvironment()
	options := map[string]string{"xla_llvm_disable_expensive_passes": "true", "no_such_option_anywhere": "1"}
	c.SetCustomCompileOptions(options)
	changed := c.HashCompilationEnvironment()
	delete(options, "no_such_option_anywhere") // the caller's own map by now
	program := client.CompileInstance{Name: "the_program", HLO: addProgram(f32(2)), CompilationDevice: c.GetDefaultDevice()}
	for range 2 {
		list, err := c.Compile([]client.CompileInstance{program})
		if err == nil {
			closeComputations(list)
			t.Skip("the compiler takes options that it does not know")
		}
		for _, word := range []string{"no_such_option_anywhere", "the_program"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("an unknown compile option: %v does not say %q", err, word)
			}
		}
		if code := status.CodeOf(err); code == status.Internal || code == status.Unknown {
			t.Errorf("an unknown compile option: %v, want a code that tells whose mistake it is", err)
		}
	}
	if c.HashCompilationEnvironment() != changed {
		t.Error("a failed compile changes the hash")
	}
	out := run(t, c, k, x, x)
	wantFloats(t, "a program that was compiled before", read(t, c, out[1]), 9, 16)
	closeAll(out...)
	c.SetCustomCompileOptions(options)
	again := must[[]client.Computation](t)(c.Compile([]client.CompileInstance{program}))
	out = run(t, c, again[0], x, x)
	wantFloats(t, "a program with the options that are known", read(t, c, out[0]), 6, 8)
	closeAll(out...)
	closeComputations(again)
	c.SetCustomCompileOptions(nil)
	if c.HashCompilationEnvironment() != before {
		t.Error("the hash does not come back with the options")
	}
}

func closeComputations(list []client.Computation) {
	for _, k := range list {
		k.Close()
	}
}
