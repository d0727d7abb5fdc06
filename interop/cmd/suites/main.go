// Suites runs etcd's own test suites, unmodified, against Bowline, and compares the results with a
// list of expected failures.
//
//	suites -etcd SERVER -last-release SERVER -tests DIR [-suites common,e2e] [-only REGEX]
//
// DIR is the module go.etcd.io/etcd/tests/v3; bin/suites-<suite> is the compiled test of each of
// its packages. A test that fails, other than as expected, runs again, alone, before it counts. An
// unexpected failure, an unexpected skip, an expectation that is not met, and too many second runs
// make the program fail.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"bowline/interop/internal/netns"
	"bowline/interop/internal/suite"
)

const (
	// secondRunsMax is the largest share of tests that may need a second run. With more, the machine
	// is too slow or the server unreliable, and passing the second time says little.
	secondRunsMax = 0.10
	// secondRunsFree is the number of second runs that is allowed in any case, for short lists.
	secondRunsFree = 2
)

type options struct {
	suite.Options
	suites          []string
	only            *regexp.Regexp
	names, expected string
	parallel        int
	verbose         bool
}

func main() {
	netns.Main()
	want, err := parse()
	if err == nil {
		err = check(want)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "suites:", err)
		os.Exit(1)
	}
}

func parse() (options, error) {
	var want options
	var suites, only string
	want.Flags()
	flag.StringVar(&suites, "suites", strings.Join(known, ","), "suites to run")
	flag.StringVar(&only, "only", "", "run only tests whose name matches")
	flag.StringVar(&want.names, "names", "", "file with the tests to run: a suite and a test in each line")
	flag.StringVar(&want.expected, "expected", "suites/expected.txt", "expected failures and skips")
	flag.IntVar(&want.parallel, "parallel", 1, "tests to run at a time")
	flag.BoolVar(&want.verbose, "v", false, "print every test as it ends")
	flag.Parse()
	want.suites = strings.Split(suites, ",")
	var err error
	want.only, err = regexp.Compile(only)
	return want, err
}

func check(want options) error {
	expected, err := readExpected(want.expected)
	if err != nil {
		return err
	}
	bench, err := suite.New(want.Options)
	if err != nil {
		return err
	}
	defer bench.Close()
	all, err := want.listAll(bench)
	if err != nil {
		return err
	}
	tests, err := want.choose(all)
	if err != nil {
		return err
	}
	results, again := want.run(bench, tests, expected)
	for _, name := range want.suites {
		fmt.Println(suite.Summarize(name, results))
	}
	fmt.Printf("%d of %d tests needed a second run\n", again, len(tests))
	complaints := append(expected.missing(want.suites, all), expected.judge(results)...)
	for _, complaint := range complaints {
		fmt.Println(complaint)
	}
	if len(complaints) > 0 {
		return fmt.Errorf("%d unexpected results; logs are in %s", len(complaints), bench.Out)
	}
	if tooMany(again, len(tests)) {
		return fmt.Errorf("%d of %d tests needed a second run, more than %.0f %%; logs are in %s", again, len(tests), 100*secondRunsMax, bench.Out)
	}
	return nil
}

// tooMany reports whether too many tests needed a second run.
func tooMany(again, tests int) bool {
	return again > secondRunsFree && float64(again) > secondRunsMax*float64(tests)
}

// listAll returns all tests of the suites.
func (o options) listAll(bench *suite.Bench) ([]suite.Test, error) {
	var tests []suite.Test
	for _, name := range o.suites {
		found, err := bench.List(name)
		if err != nil {
			return nil, err
		}
		tests = append(tests, found...)
	}
	return tests, nil
}

// choose returns the tests to run.
func (o options) choose(all []suite.Test) ([]suite.Test, error) {
	named, err := readNames(o.names)
	if err != nil {
		return nil, err
	}
	for _, want := range named {
		if !slices.Contains(all, want) {
			return nil, fmt.Errorf("%s: no test %s in the suites %q", o.names, want, o.suites)
		}
	}
	tests := slices.DeleteFunc(slices.Clone(all), func(t suite.Test) bool {
		return !o.only.MatchString(t.Name) || o.names != "" && !slices.Contains(named, t)
	})
	if len(tests) == 0 {
		return nil, fmt.Errorf("no test matches %q", o.only)
	}
	return tests, nil
}

// readNames reads lines of a suite and a test.
func readNames(path string) ([]suite.Test, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var tests []suite.Test
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		switch words := strings.Fields(line); len(words) {
		case 0:
		case 2:
			tests = append(tests, suite.Test{Suite: words[0], Name: words[1]})
		default:
			return nil, fmt.Errorf("%s: expected a suite and a test: %q", path, line)
		}
	}
	return tests, nil
}

// run runs tests, some at a time, then again those that failed unexpectedly, one at a time. It
// returns the results and the number of second runs.
func (o options) run(bench *suite.Bench, tests []suite.Test, expected expectations) ([]*suite.Result, int) {
	results := make([]*suite.Result, len(tests))
	places := make(chan struct{}, o.parallel)
	var all sync.WaitGroup
	for number, test := range tests {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			results[number] = bench.Run(test, expected.settings(test)...)
			if r := results[number]; o.verbose || r.Failed() {
				fmt.Printf("%-7s %6.1f s  %s\n", r.Verdict(), r.Took.Seconds(), r.Test)
			}
		})
	}
	all.Wait()
	again := 0
	for number, first := range results {
		if expected.retries(first) {
			results[number] = retry(bench, first, expected.settings(first.Test))
			again++
		}
	}
	return results, again
}

// retry runs a failed test again and returns the second result. The log of the first is kept too.
func retry(bench *suite.Bench, first *suite.Result, settings []string) *suite.Result {
	keep(bench, first, "first-")
	second := bench.Run(first.Test, settings...)
	fmt.Printf("retried %s: first %s, then %s\n", first.Test, first.Verdict(), second.Verdict())
	if second.Failed() {
		keep(bench, second, "")
	}
	return second
}

func keep(bench *suite.Bench, r *suite.Result, prefix string) {
	if _, err := bench.Keep(r, prefix); err != nil {
		fmt.Fprintln(os.Stderr, "suites:", err)
	}
}
