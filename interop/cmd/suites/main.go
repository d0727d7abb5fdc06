// Suites runs etcd's own test suites, unmodified, against Bowline, and compares the results with a
// list of expected failures.
//
//	suites -etcd SERVER -last-release SERVER -tests DIR [-suites common,e2e] [-only REGEX]
//
// DIR is the module go.etcd.io/etcd/tests/v3; bin/suites-<suite> is the compiled test of each of
// its packages. A test that fails runs again, alone, before it counts. An unexpected failure, an
// unexpected skip, and an expectation that is not met make the program fail.
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
	flag.StringVar(&suites, "suites", "common,e2e", "suites to run")
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
	tests, err := want.list(bench)
	if err != nil {
		return err
	}
	results := want.run(bench, tests, expected)
	for _, name := range want.suites {
		fmt.Println(suite.Summarize(name, results))
	}
	complaints := expected.judge(results)
	for _, complaint := range complaints {
		fmt.Println(complaint)
	}
	if len(complaints) > 0 {
		return fmt.Errorf("%d unexpected results; logs are in %s", len(complaints), bench.Out)
	}
	return nil
}

// list returns the tests to run.
func (o options) list(bench *suite.Bench) ([]suite.Test, error) {
	named, err := readNames(o.names)
	if err != nil {
		return nil, err
	}
	var tests []suite.Test
	for _, name := range o.suites {
		all, err := bench.List(name)
		if err != nil {
			return nil, err
		}
		tests = append(tests, all...)
	}
	for _, want := range named {
		if !slices.Contains(tests, want) && slices.Contains(o.suites, want.Suite) {
			return nil, fmt.Errorf("%s: no test %s", o.names, want)
		}
	}
	tests = slices.DeleteFunc(tests, func(t suite.Test) bool {
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

// run runs tests, some at a time, and those that failed once more, one at a time.
func (o options) run(bench *suite.Bench, tests []suite.Test, expected expectations) []*suite.Result {
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
	for number, first := range results {
		if first.Failed() {
			results[number] = retry(bench, first, expected.settings(first.Test))
		}
	}
	return results
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
