// Clusterbench benchmarks clusters of three members, etcd's and ours in turn, as processes on one
// machine with default timeouts.
//
//	clusterbench -bowline PROGRAM [-etcd PROGRAM] [-dir DIR]
//	             [-only put-64,failover,...] [-rounds 3] [-seconds 5]
//	clusterbench -bowline PROGRAM -entries 100000 -megabytes 1000     a large catch-up
//
// The members share the processors with each other and with the client, so puts per second measure
// all of them together. Processor time is that of the three members per completed put.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"bowline/interop/internal/cluster"
)

// effort is the size of a run.
type effort struct {
	rounds        int
	warm, measure time.Duration
	// entries is the number of entries that a follower misses and then gets from the log.
	entries int
	// megabytes is the amount of data that a follower misses and then gets as a snapshot.
	megabytes int
}

var cases = []struct {
	name    string
	measure func(context.Context, *threeMembers, effort) ([]figure, error)
	flags   []string
}{
	{"put-64", putBy(64), nil},
	{"put-1000", putBy(1000), nil},
	{"failover", failover, nil},
	{"catch-up-log", catchUpLog, []string{"--snapshot-count=10000000", "--snapshot-catchup-entries=10000000"}},
	{"catch-up-snapshot", catchUpSnapshot, []string{"--snapshot-count=100", "--snapshot-catchup-entries=10"}},
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("clusterbench: ")
	var e effort
	etcd := flag.String("etcd", "bin/etcd", "etcd's server")
	bowline := flag.String("bowline", "../target/release/bowline", "our server")
	dir := flag.String("dir", os.TempDir(), "directory on the disk to measure")
	only := flag.String("only", "", "comma-separated cases to run; all if empty")
	flag.IntVar(&e.rounds, "rounds", 3, "number of runs of each case with each server")
	seconds := flag.Float64("seconds", 5, "duration of the measurement of puts")
	flag.IntVar(&e.entries, "entries", 20_000, "puts that a follower misses and finds in the log")
	flag.IntVar(&e.megabytes, "megabytes", 100, "megabytes that a follower misses and gets as a snapshot")
	flag.Parse()
	e.warm, e.measure = time.Second, time.Duration(*seconds*float64(time.Second))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *etcd, *bowline, *dir, *only, e); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, etcd, bowline, dir, only string, e effort) error {
	theirs, err := cluster.Find(etcd)
	ours, also := cluster.Find(bowline)
	if err := errors.Join(err, also); err != nil {
		return err
	}
	fmt.Printf("| three members | etcd | bowline | ratio |\n|---|---|---|---|\n")
	for _, c := range cases {
		if only != "" && !slices.Contains(strings.Split(only, ","), c.name) {
			continue
		}
		var results [2][][]figure
		for range e.rounds {
			// The programs alternate, so that other load on the machine affects both.
			for i, program := range []*cluster.Binary{theirs, ours} {
				figures, err := measure(ctx, program, dir, c.flags, e, c.measure)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", c.name, program.Name(), err)
				}
				results[i] = append(results[i], figures)
			}
		}
		printRows(results[0], results[1])
	}
	return nil
}

// measure runs a case on a new cluster.
func measure(
	ctx context.Context, program *cluster.Binary, dir string, flags []string, e effort,
	measure func(context.Context, *threeMembers, effort) ([]figure, error),
) ([]figure, error) {
	t, err := start(ctx, program, dir, flags)
	if err != nil {
		return nil, err
	}
	defer t.close()
	return measure(ctx, t, e)
}
