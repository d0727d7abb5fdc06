package main

import (
	"fmt"
	"strings"
)

// differs says where a transcript is not what was expected: the first line that is another.
func differs(expected, actual string) error {
	if expected == actual {
		return nil
	}
	want, got := strings.Split(expected, "\n"), strings.Split(actual, "\n")
	for i := range max(len(want), len(got)) {
		if line(want, i) != line(got, i) {
			return fmt.Errorf("line %d\n  should be %s\n  and is    %s", i+1, line(want, i), line(got, i))
		}
	}
	return nil
}

func line(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(the end)"
}

func indented(text string) string {
	if text == "" {
		return ""
	}
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}
