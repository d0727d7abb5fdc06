// Statediff sends long random sequences of requests to etcd and to our server, and stops at the
// first response that differs.
//
//	statediff -ours SERVER [-etcd bin/etcd] [-seed 1] [-ops 100000]
//	          [-mode kv|auth|jwt|all] [-gateway] [-coverage]
//	statediff -both-etcd ...    compares etcd with itself: there must be no difference
//	statediff -plant all ...    falsifies responses of one side; each must be detected
//
// A difference is printed with its seed and the index of the step; -seed SEED -sequences 1 -mode
// MODE reproduces it. internal/compare lists the differences that are allowed, internal/scenario
// the requests that are never sent.
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
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"bowline/interop/internal/cluster"
	"bowline/interop/internal/scenario"
	"bowline/interop/internal/target"
)

type config struct {
	seed      uint64
	ops       int
	sequences int
	mode      string
	plant     string
	coverage  bool
	gateway   bool
	verbose   bool

	theirs, ours *cluster.Binary
	// signed is the flag that makes a server sign its tokens.
	signed string
	dir    string
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("statediff: ")
	var c config
	etcd := flag.String("etcd", "bin/etcd", "server to compare with")
	ours := flag.String("ours", "", "our server")
	bothEtcd := flag.Bool("both-etcd", false, "compare with a second etcd instead")
	flag.Uint64Var(&c.seed, "seed", 1, "seed of the first sequence; the next ones count up")
	flag.IntVar(&c.ops, "ops", 100000, "total number of steps")
	flag.IntVar(&c.sequences, "sequences", 4, "number of concurrent sequences")
	flag.StringVar(&c.mode, "mode", "all", "kv: without users, auth: mostly about users, jwt: with signed tokens, all: in turn")
	flag.StringVar(&c.plant, "plant", "", "name of a falsification to plant in responses, or all")
	flag.BoolVar(&c.gateway, "gateway", false, "send requests through the JSON gateways")
	flag.BoolVar(&c.coverage, "coverage", false, "print the number of responses per method and status")
	flag.BoolVar(&c.verbose, "verbose", false, "print every step")
	flag.Parse()
	if (*ours != "") == *bothEtcd {
		log.Fatal("exactly one of -ours and -both-etcd is required")
	}
	if *bothEtcd {
		*ours = *etcd
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := c.prepare(*etcd, *ours); err != nil {
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

func (c *config) prepare(etcd, ours string) error {
	if !slices.Contains([]string{"kv", "auth", "jwt", "all"}, c.mode) {
		return fmt.Errorf("unknown mode %q", c.mode)
	}
	var errs [4]error
	c.theirs, errs[0] = cluster.Find(etcd)
	c.ours, errs[1] = cluster.Find(ours)
	c.dir, errs[2] = os.MkdirTemp("", "statediff")
	c.signed, errs[3] = signing(c.dir)
	return errors.Join(errs[:]...)
}

// compare runs all sequences and expects no difference.
func (c *config) compare(ctx context.Context) error {
	start := time.Now()
	tally := newTally()
	group, ctx := errgroup.WithContext(ctx)
	for i := range c.sequences {
		group.Go(func() error {
			return c.runSequence(ctx, c.seed+uint64(i), c.ops/c.sequences, c.modeOf(i), nil, tally)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if c.coverage {
		tally.print(os.Stdout)
	}
	log.Printf("%d steps in %d sequences from seed %d: no difference; %.0f s",
		c.ops, c.sequences, c.seed, time.Since(start).Seconds())
	return nil
}

// modeOf returns the mode of a sequence: all modes in turn, unless one was selected.
func (c *config) modeOf(i int) string {
	if c.mode != "all" {
		return c.mode
	}
	return []string{"kv", "auth", "kv", "jwt"}[i%4]
}

// runSequence runs one sequence on two new servers.
func (c *config) runSequence(ctx context.Context, seed uint64, ops int, mode string, plant *plant, tally *tally) error {
	s := &sequence{
		name:     fmt.Sprintf("seed %d, mode %s", seed, mode),
		scenario: scenario.New(seed, mode != "kv"),
		tally:    tally,
		verbose:  c.verbose,
	}
	dir, err := os.MkdirTemp(c.dir, fmt.Sprintf("seed-%d-", seed))
	if err != nil {
		return err
	}
	var flags []string
	if mode == "jwt" {
		flags = append(flags, c.signed)
	}
	transport := target.ByGRPC
	if c.gateway {
		transport = target.ByGateway
	}
	theirs, err := target.StartServer(ctx, c.theirs, filepath.Join(dir, "etcd"), transport, s.scenario.Password, false, flags...)
	if err != nil {
		return err
	}
	defer theirs.Close()
	flags = append(flags, snapshots)
	ours, err := target.StartServer(ctx, c.ours, filepath.Join(dir, "ours"), transport, s.scenario.Password, true, flags...)
	if err != nil {
		return err
	}
	s.theirs, s.ours = theirs, ours
	if plant != nil {
		s.ours = &planted{Target: ours, plant: plant}
	}
	defer ours.Close()
	if err := s.run(ctx, ops); err != nil {
		return err
	}
	if err := ours.Stop(); err != nil {
		return fmt.Errorf("%s, after the last step: %w", s.name, err)
	}
	return nil
}

// snapshots makes our side snapshot more often, so that a restart begins with a snapshot.
const snapshots = "--snapshot-count=500"
