package bind

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// FuzzIntegers: a list of numbers from Python is read as the numbers that it shows, or refused.
func FuzzIntegers(f *testing.F) {
	for _, text := range []string{"", "1,2,-3", " 1 , 2", "1,,2", "9223372036854775808", "1e3"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		numbers, err := integers("Fuzz", "numbers", text)
		if err != nil {
			return
		}
		parts := make([]string, len(numbers))
		for i, n := range numbers {
			parts[i] = strconv.FormatInt(n, 10)
		}
		again, err := integers("Fuzz", "numbers", strings.Join(parts, ","))
		if err != nil || !slices.Equal(again, numbers) {
			t.Errorf("%q is %v, and %v when it is written again: %v", text, numbers, again, err)
		}
	})
}

// FuzzLines: names come back from the way to Python as they went, but for the line breaks between them.
func FuzzLines(f *testing.F) {
	f.Add("a\nb\n\nc")
	f.Fuzz(func(t *testing.T, text string) {
		if back := lines(split(text)); back != text {
			t.Errorf("%q comes back as %q", text, back)
		}
	})
}

// texts are the calls that read a text of Python's, by number: none that begins something which lasts.
var texts = []func(a, b string) error{
	func(a, b string) error { _, err := WholeDimensions(a, b); return err },
	func(a, b string) error { _, err := CompileBegin(0, 0, a); return err },
	func(a, b string) error { _, err := DeserializeBegin(0, 0, a); return err },
	func(a, b string) error { _, err := ExecuteReplicated(1, a, b, a); return err },
	func(a, b string) error { _, err := Upload(0, a, b, b, a); return err },
	func(a, b string) error { _, err := Placeholder(a, b, a, b); return err },
	func(a, b string) error { _, err := WrapShards(a); return err },
	func(a, b string) error { _, err := Reshard(1, a); return err },
	func(a, b string) error { _, err := ExportTrace(a); return err },
	func(a, b string) error { _, err := ExportWrite(1, a); return err },
	func(a, b string) error { _, err := GraphText(0, a, b); return err },
	func(a, b string) error { _, err := GraphModule(0, a, b); return err },
	func(a, b string) error { _, err := ShareParameters(0, a, b); return err },
	func(a, b string) error { _, err := ParameterStorages(0, a); return err },
	func(a, b string) error { _, err := CutStorages(0, a, b); return err },
	func(a, b string) error { _, err := MarkSharding(a, b, a, b); return err },
	func(a, b string) error { _, err := TensorSharding(a); return err },
	func(a, b string) error { _, err := TensorTiles(a); return err },
	func(a, b string) error { _, err := DeviceAttributes(a); return err },
	func(a, b string) error { _, err := MemoryInfo(a); return err },
	func(a, b string) error { _, err := SetPrecision(a); return err },
	func(a, b string) error { _, err := MetricData(a); return err },
	func(a, b string) error { ShortMetricsReport(a, b); return nil },
}

// FuzzTexts: no text from Python, in whichever call, makes the runtime panic.
func FuzzTexts(f *testing.F) {
	for call := range texts {
		f.Add(uint8(call), "1,2", "f32")
		f.Add(uint8(call), `{"Storages": [1], "devices": "CPU:0"}`, "[1]")
		f.Add(uint8(call), "Aw==", "9223372036854775807,-1")
	}
	f.Fuzz(func(t *testing.T, call uint8, a, b string) {
		if err := texts[int(call)%len(texts)](a, b); err != nil && strings.Contains(err.Error(), "panic in the runtime") {
			t.Error(err)
		}
	})
}
