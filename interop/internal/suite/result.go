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

// reason matches lines of t.Error and the like, and the most telling ones of testify's.
var reason = regexp.MustCompile(`^([a-z0-9_]+\.go:\d+: .|Error: |Messages: )`)

// Result is the outcome of a test function with its subtests.
type Result struct {
	Test Test
	Took time.Duration
	// Outcomes has the last action of the test and its subtests by name: pass, fail or skip.
	Outcomes map[string]string
	// Reasons has the last line that a test printed itself, other than its log.
	Reasons map[string]string
	Output  []byte
	// Err is the way the process ended.
	Err error
}

// readResult reads the events of a test whose process has ended.
func readResult(t Test, events []byte, err error) *Result {
	r := &Result{Test: t, Outcomes: map[string]string{}, Reasons: map[string]string{}, Err: err}
	for line := range bytes.Lines(events) {
		r.take(line)
	}
	if r.Outcomes[t.Name] == "" {
		r.Outcomes[t.Name] = "fail"
		r.Output = append(r.Output, fmt.Sprintf("suites: the test did not end: %v\n", r.Err)...)
	}
	if r.Err != nil && !r.anyFailed() && !bytes.Contains(r.Output, []byte(leaked)) {
		r.Outcomes[t.Name] = "fail"
		r.Output = append(r.Output, fmt.Sprintf("suites: the test passed, and its process failed: %v\n", r.Err)...)
	}
	return r
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
		if text := strings.TrimSpace(e.Output); reason.MatchString(text) && !strings.HasPrefix(text, "logger.go:") {
			r.Reasons[e.Test] = text
		}
	}
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
