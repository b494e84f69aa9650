package env

import "testing"

func TestProcessEnvironmentIsTheDefault(t *testing.T) {
	t.Setenv("XLA_GO_ENV_TEST", "17")
	if got := Int("XLA_GO_ENV_TEST", 3); got != 17 {
		t.Errorf("Int = %d, want 17", got)
	}
}

func TestReplace(t *testing.T) {
	t.Setenv("XLA_GO_ENV_TEST", "17")
	t.Cleanup(func() { Replace(nil) })
	Replace(map[string]string{"A": "2", "B": "off", "C": "Yes", "D": " 0.5 ", "E": "", "F": "word"})
	if _, ok := Lookup("XLA_GO_ENV_TEST"); ok {
		t.Error("a replaced environment still shows the process's own")
	}
	if got := Int("A", 0); got != 2 {
		t.Errorf("Int(A) = %d, want 2", got)
	}
	if Bool("B", true) || !Bool("C", false) {
		t.Error("Bool does not read off and Yes")
	}
	if got := Float("D", 0); got != 0.5 {
		t.Errorf("Float(D) = %v, want 0.5", got)
	}
	if got := String("E", "fallback"); got != "" {
		t.Errorf("String of an empty variable = %q, want the empty text", got)
	}
	if Int("F", 7) != 7 || Float("E", 7) != 7 || !Bool("F", true) || Int("unset", 7) != 7 {
		t.Error("an unreadable value does not give the fallback")
	}
	Replace(nil)
	if got := Int("XLA_GO_ENV_TEST", 3); got != 17 {
		t.Errorf("after Replace(nil) Int = %d, want 17", got)
	}
}
