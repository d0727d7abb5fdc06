package main

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"bowline/interop/internal/suite"
)

// known lists the suites: packages of etcd's tests, and the same with a gRPC proxy before each
// member.
var known = []string{"common", "e2e", "proxy-common", "proxy-e2e"}

// mayFail is the outcome of a test that measures time: on a busy machine it fails with etcd, too.
const mayFail = "may-fail"

// with marks a test that passes with a setting of the server, which is given in its environment.
const with = "with"

// cause marks a line that names a pattern.
const cause = "cause"

// expectation is a line of the list: tests that fail, are skipped, may fail, or need a setting.
type expectation struct {
	suites  []string
	outcome string
	// name is the path of a test, in which the element * stands for any one.
	name string
	// cause matches the output of the test; see suite.Result.ExplainedBy.
	cause           *regexp.Regexp
	setting, reason string
}

func (e expectation) covers(name string) bool {
	return slices.EqualFunc(strings.Split(e.name, "/"), strings.Split(name, "/"), func(want, got string) bool {
		return want == "*" || want == got
	})
}

// isOf reports whether the expectation is about a test function or its subtests.
func (e expectation) isOf(test suite.Test) bool {
	function, _, _ := strings.Cut(e.name, "/")
	return slices.Contains(e.suites, test.Suite) && function == test.Name
}

type expectations []expectation

// readExpected reads a list. Its lines are
//
//	cause NAME PATTERN
//	SUITES fail|skip|may-fail TEST CAUSE REASON
//	SUITES with TEST NAME=VALUE REASON
//
// with suites separated by commas. Text after # is a comment.
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
	causes, unused := map[string]*regexp.Regexp{}, map[string]bool{}
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if words[0] == cause && len(words) > 2 {
			pattern, err := regexp.Compile(strings.Join(words[2:], " "))
			if err != nil || causes[words[1]] != nil {
				return nil, fmt.Errorf("cause %s: invalid or defined twice: %v", words[1], err)
			}
			causes[words[1]], unused[words[1]] = pattern, true
			continue
		}
		e, err := parseExpectation(words, causes)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", strings.TrimSpace(line), err)
		}
		delete(unused, words[3])
		list = append(list, e)
	}
	if len(unused) > 0 {
		return nil, fmt.Errorf("causes without a test: %q", slices.Sorted(maps.Keys(unused)))
	}
	return list, nil
}

func parseExpectation(words []string, causes map[string]*regexp.Regexp) (expectation, error) {
	if len(words) < 5 {
		return expectation{}, fmt.Errorf("expected SUITES fail|skip|may-fail TEST CAUSE REASON or SUITES with TEST NAME=VALUE REASON")
	}
	// A name with spaces is written with underscores, as go test prints it.
	e := expectation{suites: strings.Split(words[0], ","), outcome: words[1], name: words[2], reason: strings.Join(words[4:], " ")}
	for _, name := range e.suites {
		if !slices.Contains(known, name) {
			return e, fmt.Errorf("no suite %q; the suites are %q", name, known)
		}
	}
	switch e.outcome {
	case "fail", "skip", mayFail:
		if e.cause = causes[words[3]]; e.cause == nil {
			return e, fmt.Errorf("no cause %q above", words[3])
		}
	case with:
		if e.setting = words[3]; !strings.Contains(e.setting, "=") {
			return e, fmt.Errorf("no setting: %q", e.setting)
		}
	default:
		return e, fmt.Errorf("no outcome %q", e.outcome)
	}
	return e, nil
}

// settings returns the environment variables that a test function needs.
func (list expectations) settings(test suite.Test) []string {
	var settings []string
	for _, e := range list {
		if e.outcome == with && e.isOf(test) {
			settings = append(settings, e.setting)
		}
	}
	return settings
}

// retries reports whether a test is to run again: it failed unexpectedly, or may do so.
func (list expectations) retries(r *suite.Result) bool {
	measures := func(e expectation) bool { return e.outcome == mayFail && e.isOf(r.Test) }
	return r.Failed() && (slices.ContainsFunc(list, measures) || len(list.judge([]*suite.Result{r})) > 0)
}

// judge returns a line for each difference between the list and the results.
func (list expectations) judge(results []*suite.Result) []string {
	var complaints []string
	for _, r := range results {
		if r.Broken != "" {
			complaints = append(complaints, fmt.Sprintf("%s: %s", r.Test, r.Broken))
			continue
		}
		for _, outcome := range []string{"fail", "skip"} {
			for _, name := range r.Leaves(outcome) {
				if complaint := list.judgeOne(r, outcome, name); complaint != "" {
					complaints = append(complaints, complaint)
				}
			}
		}
		complaints = append(complaints, list.stale(r)...)
	}
	return complaints
}

// judgeOne returns what is unexpected about a failed or skipped test, if anything.
func (list expectations) judgeOne(r *suite.Result, outcome, name string) string {
	var patterns []string
	for _, e := range list {
		allows := e.outcome == outcome || e.outcome == mayFail && outcome == "fail"
		if !allows || !e.isOf(r.Test) || !e.covers(name) {
			continue
		}
		if r.ExplainedBy(name, e.cause) {
			return ""
		}
		patterns = append(patterns, e.cause.String())
	}
	if len(patterns) > 0 {
		return fmt.Sprintf("%s for another reason than %q: %s %s: %s", outcome, patterns, r.Test.Suite, name, r.Reason(name))
	}
	return fmt.Sprintf("unexpected %s: %s %s: %s", outcome, r.Test.Suite, name, r.Reason(name))
}

// stale returns a line for each expectation of a test that did not come true.
func (list expectations) stale(r *suite.Result) []string {
	var complaints []string
	for _, e := range list {
		if !e.isOf(r.Test) {
			continue
		}
		names := slices.Collect(maps.Keys(r.Outcomes))
		if e.outcome == "fail" || e.outcome == "skip" {
			names = r.Leaves(e.outcome)
		}
		if !slices.ContainsFunc(names, e.covers) {
			complaints = append(complaints, fmt.Sprintf("%s did not occur, remove it from the list: %s %s", e.outcome, r.Test.Suite, e.name))
		}
	}
	return complaints
}

// missing returns a line for each expectation of a test function that its suite does not have.
func (list expectations) missing(suites []string, tests []suite.Test) []string {
	var complaints []string
	for _, e := range list {
		for _, name := range e.suites {
			has := func(test suite.Test) bool { return test.Suite == name && e.isOf(test) }
			if slices.Contains(suites, name) && !slices.ContainsFunc(tests, has) {
				complaints = append(complaints, fmt.Sprintf("no such test, remove it from the list: %s %s", name, e.name))
			}
		}
	}
	return complaints
}
