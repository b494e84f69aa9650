//go:build !asan

package testplugin

// sanitizer are arguments for the compiler.
var sanitizer []string
