// Statediff puts long random sequences of requests to a real etcd and to our
// state machine, and stops at the first answer in which they differ.
//
//	statediff -ours PROGRAM [-etcd bin/etcd] [-seed 1] [-ops 100000] [-mode kv|auth|all] [-coverage]
//	statediff -both-etcd ...          compares etcd with itself: there must be no difference
//	statediff -plant all ...          falsifies answers of one side, in one way after the other, each of which must be found
//
// A difference is printed with the seed and the index of the step that led to
// it; -seed SEED -sequences 1 -mode MODE repeats it. What may differ is listed in
// internal/compare, what is never asked in internal/scenario, and what our
// program must speak in internal/machine.
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
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"bowline/interop/internal/cluster"
	"bowline/interop/internal/machine"
	"bowline/interop/internal/scenario"
)

type config struct {
	ours      string
	bothEtcd  bool
	seed      uint64
	ops       int
	sequences int
	mode      string
	plant     string
	coverage  bool
	verbose   bool

	binary *cluster.Binary
	dir    string
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("statediff: ")
	var c config
	etcd := flag.String("etcd", "bin/etcd", "server to compare with")
	flag.StringVar(&c.ours, "ours", "", "program with our state machine")
	flag.BoolVar(&c.bothEtcd, "both-etcd", false, "compare with a second etcd instead")
	flag.Uint64Var(&c.seed, "seed", 1, "seed of the first sequence; each further one has the next")
	flag.IntVar(&c.ops, "ops", 100000, "steps in all sequences together")
	flag.IntVar(&c.sequences, "sequences", 4, "sequences that run at a time")
	flag.StringVar(&c.mode, "mode", "all", "kv: without users, auth: mostly about them, all: by turns")
	flag.StringVar(&c.plant, "plant", "", "falsify answers in this way, or in all")
	flag.BoolVar(&c.coverage, "coverage", false, "print how often each method gave each answer")
	flag.BoolVar(&c.verbose, "verbose", false, "print every step")
	flag.Parse()
	if (c.ours == "") != c.bothEtcd {
		log.Fatal("either -ours or -both-etcd")
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := c.prepare(*etcd); err != nil {
		log.Fatal(err)
	}
	run := c.compare
	if c.plant != "" {
		run = c.findPlanted
	}
	if err := run(ctx); err != nil {
		log.Fatalf("%v\nthe servers' files and logs are in %s", err, c.dir)
	}
	os.RemoveAll(c.dir)
}

func (c *config) prepare(etcd string) error {
	if c.mode != "kv" && c.mode != "auth" && c.mode != "all" {
		return fmt.Errorf("no mode %q", c.mode)
	}
	var errs [2]error
	c.binary, errs[0] = cluster.Find(etcd)
	c.dir, errs[1] = os.MkdirTemp("", "statediff")
	return errors.Join(errs[:]...)
}

// compare runs all sequences and expects no difference.
func (c *config) compare(ctx context.Context) error {
	begun := time.Now()
	tally := newTally()
	group, ctx := errgroup.WithContext(ctx)
	for i := range c.sequences {
		group.Go(func() error {
			return c.one(ctx, c.seed+uint64(i), c.ops/c.sequences, c.isAuth(i), nil, tally)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if c.coverage {
		tally.print(os.Stdout)
	}
	log.Printf("%d steps in %d sequences from seed %d: no difference; %.0f s",
		c.ops, c.sequences, c.seed, time.Since(begun).Seconds())
	return nil
}

func (c *config) isAuth(i int) bool { return c.mode == "auth" || c.mode == "all" && i%2 == 1 }

// one runs one sequence, on machines of its own.
func (c *config) one(ctx context.Context, seed uint64, ops int, auth bool, plant *plant, tally *tally) error {
	s := &sequence{
		name:     fmt.Sprintf("seed %d, mode %s", seed, map[bool]string{false: "kv", true: "auth"}[auth]),
		scenario: scenario.New(seed, auth),
		tally:    tally,
		verbose:  c.verbose,
	}
	dir, err := os.MkdirTemp(c.dir, fmt.Sprintf("seed-%d-", seed))
	if err != nil {
		return err
	}
	theirs, err := c.etcd(ctx, dir, "etcd", s.scenario)
	if err != nil {
		return err
	}
	defer theirs.Close()
	ours, err := c.startOurs(ctx, dir, s.scenario)
	if err != nil {
		return err
	}
	s.theirs, s.ours = theirs, ours
	if plant != nil {
		s.ours = &planted{Machine: ours, plant: plant}
	}
	return errors.Join(s.run(ctx, ops), ours.Close())
}

func (c *config) startOurs(ctx context.Context, dir string, s *scenario.Scenario) (machine.Machine, error) {
	if c.bothEtcd {
		return c.etcd(ctx, dir, "ours", s)
	}
	dir = filepath.Join(dir, "ours")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	return machine.StartChild(c.ours, dir)
}

func (c *config) etcd(ctx context.Context, dir, name string, s *scenario.Scenario) (machine.Machine, error) {
	dir = filepath.Join(dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	return machine.StartEtcd(ctx, c.binary, dir, s.Password)
}
