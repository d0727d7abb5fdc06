package suite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

// leaked is in the output of a process whose goroutines did not end with its tests. etcd's suites
// check that once, after the last test. For a single test it says nothing about a server: tests
// leave readers of the outputs of processes that are about to end.
const leaked = "Unexpected goroutines running after all test(s)."

// event is a line of `go tool test2json`.
type event struct {
	Action, Test, Output string
}

// note matches a line of t.Log, t.Error, t.Skip and the like.
var note = regexp.MustCompile(`^[a-z0-9_]+\.go:\d+:( |$)`)

// label matches the parts of a failed assertion of testify that vary with neither place nor test.
var label = regexp.MustCompile(`^(Error|Messages): `)

// Result is the outcome of a test function with its subtests.
type Result struct {
	Test Test
	Took time.Duration
	// Outcomes has the last action of the test and its subtests by name: pass, fail or skip.
	Outcomes map[string]string
	// Assertions has the failed assertions of each test, one line each:
	//
	//	Error: Not equal: expected: 1 actual : 2 Messages: members
	Assertions map[string][]string
	// Notes has the lines that each test printed itself, other than the log of its servers:
	//
	//	a_test.go:7: no luck
	Notes map[string][]string
	// Broken says how the process ended, unless it ended as a test does.
	Broken string
	Output []byte
	// Err is the way the process ended.
	Err error
	// inAssertion has the tests whose last line belongs to an assertion.
	inAssertion map[string]bool
}

// readResult reads the events of a test whose process has ended.
func readResult(t Test, events []byte, err error) *Result {
	r := &Result{Test: t, Outcomes: map[string]string{}, Assertions: map[string][]string{}, Notes: map[string][]string{},
		Err: err, inAssertion: map[string]bool{}}
	for line := range bytes.Lines(events) {
		r.take(line)
	}
	if r.Outcomes[t.Name] == "" {
		r.breaks("the test did not end")
	}
	if r.Err != nil && !r.anyFailed() && !bytes.Contains(r.Output, []byte(leaked)) {
		r.breaks("the test passed, and its process failed")
	}
	return r
}

// breaks makes the test fail for the way its process ended.
func (r *Result) breaks(how string) {
	r.Outcomes[r.Test.Name] = "fail"
	r.Broken = fmt.Sprintf("%s: %v", how, r.Err)
	r.Output = append(r.Output, "suites: "+r.Broken+"\n"...)
}

func (r *Result) take(line []byte) {
	var e event
	if json.Unmarshal(line, &e) != nil {
		r.Output = append(r.Output, line...)
		return
	}
	r.Output = append(r.Output, e.Output...)
	switch e.Action {
	case "pass", "fail", "skip":
		if e.Test != "" {
			r.Outcomes[e.Test] = e.Action
		}
	case "output":
		r.takeOutput(e.Test, e.Output)
	}
}

// takeOutput takes a line of a test. Behind their indentation, lines of an assertion begin with a
// tab:
//
//	a_test.go:7:
//	    	Error Trace:	a_test.go:7
//	    	Error:      	Should be true
//	    	Test:       	TestA/one
//	    	Messages:   	members
func (r *Result) takeOutput(test, line string) {
	inside := strings.HasPrefix(strings.TrimLeft(line, " "), "\t")
	text := strings.Join(strings.Fields(line), " ")
	found := r.Assertions[test]
	switch {
	case inside && strings.HasPrefix(text, "Error Trace: "):
		r.Assertions[test] = append(found, "")
		r.inAssertion[test] = true
	case inside && r.inAssertion[test]:
		if last := len(found) - 1; label.MatchString(text) || found[last] != "" && !strings.HasPrefix(text, "Test: ") {
			found[last] = strings.TrimSpace(found[last] + " " + text)
		}
	default:
		r.inAssertion[test] = false
		if note.MatchString(text) && !strings.HasPrefix(text, "logger.go:") {
			r.Notes[test] = append(r.Notes[test], text)
		}
	}
}

// Reason returns the last failed assertion of a test, or else the last line that it printed.
func (r *Result) Reason(name string) string {
	lines := r.Assertions[name]
	if len(lines) == 0 {
		lines = r.Notes[name]
	}
	if len(lines) == 0 {
		return ""
	}
	return lines[len(lines)-1]
}

// ExplainedBy reports whether a pattern accounts for a failed or skipped test: it matches every
// failed assertion or, if there is none, a line that the test printed.
func (r *Result) ExplainedBy(name string, pattern *regexp.Regexp) bool {
	other := func(text string) bool { return !pattern.MatchString(text) }
	if failed := r.Assertions[name]; len(failed) > 0 {
		return !slices.ContainsFunc(failed, other)
	}
	return slices.ContainsFunc(r.Notes[name], pattern.MatchString)
}

func (r *Result) anyFailed() bool {
	for _, outcome := range r.Outcomes {
		if outcome == "fail" {
			return true
		}
	}
	return false
}

// Failed reports whether the test failed.
func (r *Result) Failed() bool { return r.Outcomes[r.Test.Name] == "fail" }

// Verdict returns pass, fail or skip, and how the process ended if it did not end by itself.
func (r *Result) Verdict() string {
	var exit *exec.ExitError
	if r.Failed() && r.Err != nil && !errors.As(r.Err, &exit) {
		return "fail (" + r.Err.Error() + ")"
	}
	return r.Outcomes[r.Test.Name]
}

// Leaves returns the sorted names of tests with an outcome, without those that have it because a
// subtest has it.
func (r *Result) Leaves(outcome string) []string {
	var names []string
	for name, found := range r.Outcomes {
		below := func(other, otherFound string) bool {
			return otherFound == outcome && strings.HasPrefix(other, name+"/")
		}
		if found == outcome && !anyOf(r.Outcomes, below) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func anyOf(all map[string]string, is func(name, outcome string) bool) bool {
	for name, outcome := range all {
		if is(name, outcome) {
			return true
		}
	}
	return false
}

// Summarize returns a line with the numbers of test functions and of all tests by outcome.
func Summarize(suite string, results []*Result) string {
	functions, all := map[string]int{}, map[string]int{}
	var took time.Duration
	for _, r := range results {
		if r.Test.Suite != suite {
			continue
		}
		functions[r.Outcomes[r.Test.Name]]++
		took += r.Took
		for _, outcome := range r.Outcomes {
			all[outcome]++
		}
	}
	return fmt.Sprintf("%s: %d passed, %d failed, %d skipped; with subtests %d, %d, %d; %.0f s of tests", suite,
		functions["pass"], functions["fail"], functions["skip"], all["pass"], all["fail"], all["skip"], took.Seconds())
}
