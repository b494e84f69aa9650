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
