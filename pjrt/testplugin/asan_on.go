//go:build asan

package testplugin

// sanitizer are arguments for the compiler: under `go test -asan` the plugin is checked too.
var sanitizer = []string{"-fsanitize=address", "-fno-omit-frame-pointer"}
