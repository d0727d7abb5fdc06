// Alternate lets etcd and our server take turns on one data directory. Each checks the state that
// the other left, changes every kind of state, and ends: stopped, killed, or killed under load.
//
//	alternate -ours PROGRAM [-etcd bin/etcd] [-turns 9] [-seed 1]
//	alternate -ours PROGRAM -from DIR [-name m1] [-before bin/old/etcd-3.5.35]
//	alternate -both-etcd ...
//	alternate -both-etcd -plant all
//
// The first form starts with a new directory. With -from it starts with a copy of an existing one;
// the server given by -before, which wrote it, is asked for its state first. With -both-etcd etcd
// follows etcd, and no difference may be found. With -plant files are altered between two turns,
// and every alteration must be detected.
//
// facts.go reads the state of a server, changes.go changes it.
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

	"bowline/interop/internal/cluster"
)

type config struct {
	theirs, ours *cluster.Binary
	// before is the server that wrote the directory, if its state is to be read first.
	before     *cluster.Binary
	from, name string
	oursFirst  bool
	turns      int
	seed       uint64
	dir        string
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("alternate: ")
	var c config
	etcd := flag.String("etcd", "bin/etcd", "server to take turns with")
	ours := flag.String("ours", "", "our server")
	bothEtcd := flag.Bool("both-etcd", false, "take turns with another etcd instead")
	plant := flag.String("plant", "", "name of a change to plant in the files between two turns, or all")
	flag.StringVar(&c.from, "from", "", "directory to start with a copy of; empty for a new one")
	before := flag.String("before", "", "server that wrote that directory")
	flag.StringVar(&c.name, "name", "m1", "name of the member")
	flag.BoolVar(&c.oursFirst, "ours-first", false, "our server takes the first turn")
	flag.IntVar(&c.turns, "turns", 9, "number of turns")
	flag.Uint64Var(&c.seed, "seed", 1, "seed of the changes")
	flag.Parse()
	if (*ours == "") != *bothEtcd || flag.NArg() > 0 {
		log.Fatal("usage: alternate -ours PROGRAM | -both-etcd [flags]")
	}
	if *bothEtcd {
		*ours = *etcd
	}
	if err := c.prepare(*etcd, *ours, *before); err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := c.takeTurns
	if *plant != "" {
		run = func(ctx context.Context) error { return c.findPlanted(ctx, *plant) }
	}
	if err := run(ctx); err != nil {
		log.Fatalf("%v\nthe directory and the servers' logs are in %s", err, c.dir)
	}
	os.RemoveAll(c.dir)
}

func (c *config) prepare(etcd, ours, before string) error {
	var errs [4]error
	c.theirs, errs[0] = cluster.Find(etcd)
	c.ours, errs[1] = cluster.Find(ours)
	c.dir, errs[2] = os.MkdirTemp("", "alternate")
	if before != "" {
		c.before, errs[3] = cluster.Find(before)
	}
	return errors.Join(errs[:]...)
}

// takeTurns runs all turns and checks that each server finds the state that the previous one left.
func (c *config) takeTurns(ctx context.Context) error {
	begun := time.Now()
	s, err := c.newSession(c.dir)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.readInitialFacts(ctx); err != nil {
		return fmt.Errorf("before the first turn: %w", err)
	}
	for range c.turns {
		if err := s.turn(ctx); err != nil {
			return fmt.Errorf("turn %d, %s: %w", s.turns, s.programName(), err)
		}
		s.turns++
	}
	// One more server checks the state after the last turn.
	if err := s.startAndCompare(ctx); err != nil {
		return fmt.Errorf("after the last turn, %s: %w", s.programName(), err)
	}
	log.Printf("%d turns%s: nothing was lost; revision %d, %d acknowledged under load; %.0f s",
		s.turns, s.origin(), s.known.revision, s.loaded, time.Since(begun).Seconds())
	return s.endServer(stopped)
}

// newSession prepares a directory below dir.
func (c *config) newSession(dir string) (*session, error) {
	s := &session{config: c, data: filepath.Join(dir, c.name), endings: []ending{stopped, killed, killedUnderLoad}}
	if c.from == "" {
		return s, nil
	}
	return s, os.CopyFS(s.data, os.DirFS(c.from))
}
