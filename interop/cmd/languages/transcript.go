package main

import (
	"errors"
	"fmt"
	"strings"
)

// differencesShown is how many lines are told that are not as they should be.
const differencesShown = 10

// differs says where a transcript is not what was expected.
func differs(expected, actual string) error {
	want, got := strings.Split(expected, "\n"), strings.Split(actual, "\n")
	var told []string
	for i := range max(len(want), len(got)) {
		if line(want, i) != line(got, i) && len(told) < differencesShown {
			told = append(told, fmt.Sprintf("line %d\n  should be %s\n  and is    %s", i+1, line(want, i), line(got, i)))
		}
	}
	if len(told) == 0 {
		return nil
	}
	return errors.New(strings.Join(told, "\n"))
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
