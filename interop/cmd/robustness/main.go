// Robustness runs etcd's own search for faults (go.etcd.io/etcd/tests/v3/robustness), unmodified,
// against Bowline: clients record what they do while a failpoint, a kill or a network fault hits a
// member, and the history is checked against a model.
//
//	robustness -etcd SERVER -last-release SERVER -tests DIR -checker CHECKER -for 10m
//
// SERVER and the etcd of the previous minor version have failpoints. The scenarios with random
// faults run in turn until the time is over, then, with -regressions, those of known bugs of etcd
// once each. isolation.go describes a setting that only half of the runs have. The report of a
// failure is kept, with the members' files.
//
// etcd's checker gives up after five minutes. A history that it cannot decide is converted and
// checked with ours.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"bowline/interop/internal/netns"
	"bowline/interop/internal/suite"
)

// Scenarios of robustness/scenarios. A missing one makes the program fail.
var (
	exploratory = []string{
		"EtcdHighTraffic/ClusterOfSize1", "EtcdHighTraffic/ClusterOfSize3",
		"EtcdTrafficDeleteLeases/ClusterOfSize1", "EtcdTrafficDeleteLeases/ClusterOfSize3",
		"KubernetesHighTraffic/ClusterOfSize1", "KubernetesHighTraffic/ClusterOfSize3",
		"KubernetesLowTraffic/ClusterOfSize1", "KubernetesLowTraffic/ClusterOfSize3",
	}
	regressions = []string{
		"Issue13766", "Issue14370", "Issue14685", "Issue15220", "Issue15271", "Issue17529", "Issue17780", "Issue18089",
		"Issue19179", "Issue20221",
	}
)

type options struct {
	suite.Options
	checker, check string
	duration       time.Duration
	regressions    bool
	both           bool
	only           *regexp.Regexp
}

func main() {
	netns.Main()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "robustness:", err)
		os.Exit(1)
	}
}

func run() error {
	var want options
	var only string
	want.Flags()
	flag.StringVar(&want.checker, "checker", "", "our history checker, the example check of crates/history")
	flag.StringVar(&want.check, "check", "", "only convert and check the report in this directory")
	flag.DurationVar(&want.duration, "for", 10*time.Minute, "time for the scenarios with random faults")
	flag.BoolVar(&want.regressions, "regressions", false, "also run the scenarios of known bugs")
	flag.BoolVar(&want.both, "both", false, "also check histories that etcd's checker accepts with ours")
	flag.StringVar(&only, "only", "", "run only scenarios whose name matches")
	flag.Parse()
	if want.check != "" {
		return want.checkReport(want.check)
	}
	var err error
	if want.only, err = regexp.Compile(only); err != nil {
		return err
	}
	bench, err := suite.New(want.Options)
	if err != nil {
		return err
	}
	defer bench.Close()
	return want.search(bench)
}

// search runs the scenarios. It returns an error if one failed.
func (o options) search(bench *suite.Bench) error {
	counts := map[string]int{}
	end := time.Now().Add(o.duration)
	for number := 0; time.Now().Before(end); number++ {
		if name := exploratory[number%len(exploratory)]; o.only.MatchString(name) {
			counts[o.try(bench, "TestRobustnessExploratory/"+name, number, isolates(number))]++
		} else if !slices.ContainsFunc(exploratory, o.only.MatchString) {
			break
		}
	}
	for number, name := range regressions {
		if o.regressions && o.only.MatchString(name) {
			counts[o.try(bench, "TestRobustnessRegression/"+name, number, true)]++
		}
	}
	fmt.Printf("robustness: %d passed, %d undecided by porcupine and accepted by our checker, %d with an isolated member that kept up, %d skipped, %d failed\n",
		counts[passed], counts[accepted], counts[notIsolated], counts[skipped], counts[failed])
	switch {
	case counts[failed] > 0:
		return fmt.Errorf("%d scenarios failed; reports are in %s", counts[failed], bench.Out)
	case counts[passed]+counts[accepted] == 0:
		return fmt.Errorf("no scenario ran")
	case tooManySkipped(counts):
		return fmt.Errorf("%d scenarios skipped, more than %.0f %%: the machine is too slow", counts[skipped], 100*skippedMax)
	}
	return nil
}

const (
	// skippedMax is the largest share of scenarios that may be skipped, most for too little load.
	skippedMax = 0.20
	// skippedFree is the number of skipped scenarios that is allowed in any case, for short runs.
	skippedFree = 2
)

func tooManySkipped(counts map[string]int) bool {
	total := 0
	for _, count := range counts {
		total += count
	}
	return counts[skipped] > skippedFree && float64(counts[skipped]) > skippedMax*float64(total)
}

// The outcomes of a scenario.
const (
	passed      = "passed"
	accepted    = "accepted by our checker"
	notIsolated = "not isolated"
	skipped     = "skipped"
	failed      = "FAILED"
)

// withLogs adds the log lines of the members to the output of a test, which is kept on failure.
const withLogs = "EXPECT_DEBUG=true"

// try runs a scenario, with or without longReadTimeout, and returns its outcome.
func (o options) try(bench *suite.Bench, name string, number int, isolate bool) string {
	reports := filepath.Join(bench.Out, fmt.Sprintf("%s-%d", strings.ReplaceAll(name, "/", "-"), number))
	environment := []string{"RESULTS_DIR=" + reports, withLogs}
	if isolate {
		environment = append(environment, longReadTimeout)
	}
	if o.both {
		environment = append(environment, "PERSIST_RESULTS=1")
	}
	result := bench.Run(suite.Test{Suite: "robustness", Name: name}, environment...)
	outcome, why := o.verdict(result, reports, isolate)
	fmt.Printf("%-24s %6.1f s  %s %s\n", outcome, result.Took.Seconds(), longest(result), why)
	switch outcome {
	case failed:
		if err := os.MkdirAll(reports, 0o755); err == nil {
			err = os.WriteFile(filepath.Join(reports, "log"), result.Output, 0o644)
			fmt.Println("  report:", reports, errorText(err))
		}
	default:
		os.RemoveAll(reports)
	}
	return outcome
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// longest returns the longest name of a subtest, which ends with the injected fault.
func longest(r *suite.Result) string {
	name := r.Test.Name
	for other := range r.Outcomes {
		if strings.HasPrefix(other, name) {
			name = other
		}
	}
	return strings.TrimPrefix(name, "TestRobustness")
}

// complaint matches an error that a robustness test reports.
var complaint = regexp.MustCompile(`(?m)^ *main_test\.go:\d+: (.*)$`)

// tooSlow matches the error of a machine too busy for the required load. The history is valid, but
// says little.
var tooSlow = regexp.MustCompile(`(?m)^ *traffic\.go:\d+: (Requiring minimal .*)$`)

// undecided matches the error of a history for which porcupine took too long.
var undecided = regexp.MustCompile(`^linearization: (Timeout|DeadlineExceeded)`)

func (o options) verdict(r *suite.Result, reports string, isolate bool) (outcome, why string) {
	switch result := r.Outcomes[r.Test.Name]; {
	case r.Broken != "":
		return failed, r.Broken
	case result == "skip":
		return skipped, ""
	case result == "pass" && !o.both:
		return passed, ""
	case result == "pass":
		outcome = passed
	default:
		var complaints []string
		for _, match := range complaint.FindAllSubmatch(r.Output, -1) {
			complaints = append(complaints, string(match[1]))
		}
		if slow := tooSlow.FindSubmatch(r.Output); slow != nil && len(complaints) == 0 {
			return skipped, string(slow[1])
		}
		if len(complaints) == 0 {
			return failed, "no reason given"
		}
		if !isolate && keptUp(r, complaints) {
			return notIsolated, "the isolated member keeps up"
		}
		why = complaints[0]
		if len(complaints) > 1 || !undecided.MatchString(why) {
			return failed, why
		}
		outcome = accepted
	}
	dir, err := onlyReport(reports)
	if err == nil {
		err = o.checkReport(dir)
	}
	if err != nil {
		return failed, fmt.Sprintf("%s; our checker: %v", why, err)
	}
	return outcome, why
}

// onlyReport returns the directory of the only report below another one: <test>/<time>.
func onlyReport(below string) (string, error) {
	found, err := filepath.Glob(filepath.Join(below, "*", "*"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("expected one report in %s, found %v, %v", below, found, err)
	}
	return found[0], nil
}
