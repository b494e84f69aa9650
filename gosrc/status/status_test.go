package status

import (
	"errors"
	"fmt"
	"testing"
)

func TestCodeSurvivesAnnotationAndWrapping(t *testing.T) {
	base := Errorf(ResourceExhausted, "out of memory allocating %d bytes", 12)
	wrapped := fmt.Errorf("execute: %w", Annotate(base, "step 3"))
	if got := CodeOf(wrapped); got != ResourceExhausted {
		t.Fatalf("CodeOf = %v, want RESOURCE_EXHAUSTED", got)
	}
	if got, want := Annotate(base, "step 3").Error(), "RESOURCE_EXHAUSTED: step 3: out of memory allocating 12 bytes"; got != want {
		t.Fatalf("Error() = %q, want %q", got, want)
	}
}

func TestCodeOfPlainErrorIsUnknown(t *testing.T) {
	if got := CodeOf(errors.New("x")); got != Unknown {
		t.Fatalf("CodeOf = %v", got)
	}
	if CodeOf(nil) != OK {
		t.Fatal("CodeOf(nil) is not OK")
	}
}

func TestEveryCodeHasItsName(t *testing.T) {
	for c := OK; c <= Unauthenticated; c++ {
		if c.String() == "" || c.String()[0] == 'C' && c != Cancelled {
			t.Errorf("code %d has name %q", c, c)
		}
	}
	if got := Code(99).String(); got != "CODE_99" {
		t.Errorf("unknown code prints %q", got)
	}
}
