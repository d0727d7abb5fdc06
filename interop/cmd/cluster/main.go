// Cluster runs clusters of etcd and Bowline members in any mix, as processes on loopback under
// load, and checks that they keep the guarantees of a cluster of one program.
//
//	cluster -ours PROGRAM -checker PROGRAM              every scenario, short
//	cluster -ours PROGRAM -checker PROGRAM -only matrix,replace -times 10
//	cluster -ours bin/etcd ...                          the control: etcd with etcd
//	cluster -list                                       the names of the scenarios
//
// -older names servers of other versions, for the scenarios that mix versions. -checker is the
// example `check` of crates/history: clients record their histories, and it decides whether they
// are linearizable. The files of a failed scenario are kept: data directories, logs and histories.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"bowline/interop/internal/cluster"
)

// verbose enables the log of each step.
var verbose = flag.Bool("verbose", false, "log each step")

// logStep logs a step if -verbose is set.
func logStep(format string, args ...any) {
	if *verbose {
		log.Printf("%s  "+format, append([]any{time.Now().Format("05.000")}, args...)...)
	}
}

type config struct {
	theirs, ours *cluster.Binary
	older        []*cluster.Binary
	// failing is our server, built with failpoints.
	failing *cluster.Binary
	checker string
	// faulty is the path of the library that makes disks and clocks fail, or empty.
	faulty string
	times  int
	seed   uint64
	// fault selects the faults whose name contains it.
	fault string
	// dir is the directory for the files of a scenario.
	dir string
	// keep keeps the files of successful scenarios too.
	keep bool
}

// scenario is one kind of run. It returns a summary.
type scenario struct {
	name string
	run  func(context.Context, *config) (string, error)
}

var scenarios = []scenario{
	{"matrix", matrix},
	{"replace", replace},
	{"snapshots", snapshots},
	{"members", membersComeAndGo},
	{"services", services},
	{"secure", secure},
	{"discovery", discovery},
	{"corruption", corruption},
	{"versions", versions},
	{"faults", faultsAlone},
	{"faults-mixed", faultsMixed},
	{"failpoints", failpoints},
}

// scenarioTimeout bounds a scenario. It is multiplied by -times.
const scenarioTimeout = 8 * time.Minute

func main() {
	log.SetFlags(0)
	log.SetPrefix("cluster: ")
	var c config
	etcd := flag.String("etcd", "bin/etcd", "etcd's server")
	ours := flag.String("ours", "", "our server")
	older := flag.String("older", "", "servers of other versions, separated by commas")
	failing := flag.String("failing", "", "our server, built with failpoints")
	only := flag.String("only", "", "the scenarios to run, separated by commas; all if empty")
	list := flag.Bool("list", false, "list the scenarios")
	parallel := flag.Int("parallel", 2, "number of concurrent scenarios, which mostly wait")
	flag.StringVar(&c.checker, "checker", "", "program that checks a history")
	flag.StringVar(&c.faulty, "faulty", "", "library that makes disks and clocks of our members fail, for the faults that need it")
	flag.IntVar(&c.times, "times", 1, "number of repetitions within each scenario")
	flag.Uint64Var(&c.seed, "seed", 1, "seed of all random choices")
	flag.StringVar(&c.fault, "fault", "", "only faults whose name contains this")
	flag.BoolVar(&c.keep, "keep", false, "keep the files of a successful run and print where they are")
	flag.Parse()
	if *list {
		for _, s := range scenarios {
			fmt.Println(s.name)
		}
		return
	}
	if *ours == "" || c.checker == "" || flag.NArg() > 0 {
		log.Fatal("usage: cluster -ours PROGRAM -checker PROGRAM [flags]")
	}
	if err := c.prepare(*etcd, *ours, *older, *failing); err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := c.runAll(ctx, *only, *parallel)
	if err != nil {
		log.Fatalf("%v\nthe files are in %s", err, c.dir)
	}
	if c.keep {
		log.Printf("the files are in %s", c.dir)
		return
	}
	os.RemoveAll(c.dir)
}

func (c *config) prepare(etcd, ours, older, failing string) error {
	var errs [3]error
	c.theirs, errs[0] = cluster.Find(etcd)
	c.ours, errs[1] = cluster.Find(ours)
	c.dir, errs[2] = os.MkdirTemp("", "cluster")
	if failing != "" {
		var err error
		if c.failing, err = cluster.Find(failing); err != nil {
			return err
		}
	}
	for path := range strings.SplitSeq(older, ",") {
		if path == "" {
			continue
		}
		binary, err := cluster.Find(path)
		if err != nil {
			return err
		}
		c.older = append(c.older, binary)
	}
	return errors.Join(errs[:]...)
}

// runAll runs the selected scenarios, at most `parallel` at a time, and logs the result of each.
func (c *config) runAll(ctx context.Context, only string, parallel int) error {
	chosen, err := choose(only)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var failed []error
	var group sync.WaitGroup
	places := make(chan struct{}, parallel)
	for _, s := range chosen {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			if err := c.runOne(ctx, s); err != nil {
				log.Printf("%s: %v", s.name, err)
				mu.Lock()
				failed = append(failed, fmt.Errorf("%s failed", s.name))
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return errors.Join(failed...)
}

func (c *config) runOne(ctx context.Context, s scenario) error {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, scenarioTimeout*time.Duration(c.times))
	defer cancel()
	own := *c
	own.dir = filepath.Join(c.dir, s.name)
	if err := os.Mkdir(own.dir, 0o755); err != nil {
		return err
	}
	summary, err := s.run(ctx, &own)
	if err != nil {
		return err
	}
	log.Printf("%s: %s; %.0f s", s.name, summary, time.Since(begun).Seconds())
	return nil
}

func choose(only string) ([]scenario, error) {
	if only == "" {
		return scenarios, nil
	}
	var chosen []scenario
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no scenario named %q", name)
		}
		chosen = append(chosen, scenarios[i])
	}
	return chosen, nil
}
