package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// differencesShown is the number of differing lines in an error.
const differencesShown = 10

// differs returns an error if a transcript differs from the expected one. The steps that are known
// to differ must differ.
func differs(expected, actual string, known []string) error {
	want, got := strings.Split(expected, "\n"), strings.Split(actual, "\n")
	var differences []string
	for i := range max(len(want), len(got)) {
		same := line(want, i) == line(got, i)
		switch listed := slices.ContainsFunc(known, isOf(line(want, i))); {
		case same && listed:
			differences = append(differences, fmt.Sprintf("line %d\n  is known to differ, and does not: %s", i+1, line(want, i)))
		case !same && !listed:
			differences = append(differences, fmt.Sprintf("line %d\n  should be %s\n  and is    %s", i+1, line(want, i), line(got, i)))
		}
	}
	if len(differences) == 0 {
		return nil
	}
	return errors.New(strings.Join(differences[:min(len(differences), differencesShown)], "\n"))
}

// isOf returns a function that reports whether the line belongs to a step.
func isOf(line string) func(string) bool {
	return func(step string) bool { return strings.HasPrefix(line, step+": ") }
}

// knownOf reads the steps of a program that are known to differ, from a file of lines such as
//
//	raw tls method GET
//	raw * no text
func knownOf(path string, l language, m mode) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var steps []string
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		where, step, _ := strings.Cut(rest, " ")
		if name == l.name && (where == m.name || where == "*") {
			steps = append(steps, step)
		}
	}
	return steps, nil
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
