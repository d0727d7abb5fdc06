package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"bowline/interop/internal/suite"
)

// mayFail is the outcome of a test that measures time: on a busy machine it fails with etcd, too.
const mayFail = "may-fail"

// with marks a test that passes with a setting of the server, which is given in its environment.
const with = "with"

// expectation is a line of the list: a test, or a test with all its subtests, that fails, is
// skipped, may fail, or needs a setting.
type expectation struct {
	suite, outcome, name, setting, reason string
}

func (e expectation) covers(name string) bool {
	return name == e.name || strings.HasPrefix(name, e.name+"/")
}

type expectations []expectation

// readExpected reads a list with lines of a suite, an outcome, a test, a setting if that is the
// outcome, and a reason. Text after # is a comment.
func readExpected(path string) (expectations, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	list, err := parseExpected(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

func parseExpected(text string) (expectations, error) {
	var list expectations
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		var setting string
		if len(words) > 3 && words[1] == with && strings.Contains(words[3], "=") {
			setting = words[3]
			words = slices.Delete(words, 3, 4)
		}
		known := slices.Contains([]string{"fail", "skip", mayFail}, words[min(1, len(words)-1)])
		if len(words) < 4 || !known && setting == "" {
			return nil, fmt.Errorf("expected SUITE fail|skip|may-fail TEST REASON or SUITE with TEST NAME=VALUE REASON: %q", strings.TrimSpace(line))
		}
		// A name with spaces is written with underscores, as go test prints it.
		list = append(list, expectation{words[0], words[1], words[2], setting, strings.Join(words[3:], " ")})
	}
	return list, nil
}

// settings returns the environment variables that a test function needs.
func (list expectations) settings(test suite.Test) []string {
	var settings []string
	for _, e := range list {
		if e.outcome == with && e.suite == test.Suite && e.name == test.Name {
			settings = append(settings, e.setting)
		}
	}
	return settings
}

// judge returns a line for each difference between the list and the results.
func (list expectations) judge(results []*suite.Result) []string {
	var complaints []string
	for _, r := range results {
		for _, outcome := range []string{"fail", "skip"} {
			leaves := r.Leaves(outcome)
			for _, name := range leaves {
				covers := func(e expectation) bool {
					allows := e.outcome == outcome || e.outcome == mayFail && outcome == "fail"
					return e.suite == r.Test.Suite && allows && e.covers(name)
				}
				if !slices.ContainsFunc(list, covers) {
					complaints = append(complaints, fmt.Sprintf("unexpected %s: %s %s: %s", outcome, r.Test.Suite, name, r.Reasons[name]))
				}
			}
			complaints = append(complaints, list.stale(r, outcome, leaves)...)
		}
	}
	return complaints
}

// stale returns a line for each expectation of a test that did not come true.
func (list expectations) stale(r *suite.Result, outcome string, leaves []string) []string {
	var complaints []string
	for _, e := range list {
		function, _, _ := strings.Cut(e.name, "/")
		if e.suite == r.Test.Suite && e.outcome == outcome && function == r.Test.Name && !slices.ContainsFunc(leaves, e.covers) {
			complaints = append(complaints, fmt.Sprintf("expected %s did not occur, remove it from the list: %s %s", outcome, e.suite, e.name))
		}
	}
	return complaints
}
