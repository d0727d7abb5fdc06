// Porcupine cross-checks the history checker of crates/history with the linearizability checker
// github.com/anishathalye/porcupine, which shares no code with it.
//
//	porcupine -checker PROGRAM -bowline PROGRAM           record histories of Bowline and of etcd
//	porcupine -checker PROGRAM history.jsonl ...          take these histories instead
//
// A history is recorded by clients of a single member that is killed and restarted halfway. Each
// history is checked as recorded and in falsified copies, by both checkers. A recorded history must
// be accepted, and both must give the same verdict on each copy. -checker is the example `check` of
// crates/history. On failure the histories are kept.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"bowline/interop/internal/history"
)

// forgotten is the number of writes whose outcome is made unknown in every second falsified copy.
const forgotten = 3

// tally counts the histories by the verdict of both checkers.
type tally struct{ accepted, rejected int }

func main() {
	log.SetFlags(0)
	log.SetPrefix("porcupine: ")
	etcd := flag.String("etcd", "bin/etcd", "etcd's server")
	bowline := flag.String("bowline", "", "our server")
	checker := flag.String("checker", "", "the example `check` of crates/history")
	seed := flag.Uint64("seed", 1, "seed of the falsified copies")
	each := flag.Int("each", 6, "falsified copies of each kind and history")
	keep := flag.Bool("keep", false, "keep the histories and print where they are")
	flag.Parse()
	if *checker == "" || *bowline == "" && flag.NArg() == 0 {
		log.Fatal("usage: porcupine -checker PROGRAM (-bowline PROGRAM | HISTORY...)")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "porcupine")
	if err != nil {
		log.Fatal(err)
	}
	paths := flag.Args()
	if len(paths) == 0 {
		paths, err = recordBoth(ctx, dir, *bowline, *etcd)
	}
	for _, path := range paths {
		if err == nil {
			err = crossCheck(ctx, *checker, dir, path, *seed, *each)
		}
	}
	if err != nil {
		log.Fatalf("%v\nthe histories are in %s", err, dir)
	}
	if *keep {
		log.Printf("the histories are in %s", dir)
		return
	}
	os.RemoveAll(dir)
}

// crossCheck has both checkers judge a history and its falsified copies, and prints the verdicts.
func crossCheck(ctx context.Context, checker, dir, path string, seed uint64, each int) error {
	operations, skipped, err := history.ReadOperations(path)
	if err != nil {
		return err
	}
	if err := supported(operations); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if skipped > 0 {
		log.Printf("%s: skipped %d records that are not operations", path, skipped)
	}
	name := filepath.Base(path)
	accepted, err := agreed(ctx, checker, filepath.Join(dir, name+".operations"), operations)
	if err != nil {
		return err
	}
	if !accepted {
		return fmt.Errorf("both checkers reject the recorded history %s", path)
	}
	unknown := 0
	for _, operation := range operations {
		if operation.Outcome.Unknown != nil {
			unknown++
		}
	}
	log.Printf("%s: %d operations, %d of them with an unknown outcome: accepted by both", name, len(operations), unknown)
	return crossCheckFalsified(ctx, checker, filepath.Join(dir, name), operations, seed, each)
}

func crossCheckFalsified(
	ctx context.Context, checker, prefix string, operations []history.Operation, seed uint64, each int,
) error {
	var total tally
	var disagreed []error
	for kind, falsify := range falsifications {
		var verdicts tally
		for i := range each {
			dice := rand.New(rand.NewPCG(seed, uint64(kind*each+i)))
			falsified := clone(operations)
			if !falsify.apply(dice, falsified) {
				return fmt.Errorf("%s: no operation to apply %q to", prefix, falsify.name)
			}
			falsified = dropped(falsified)
			// Unknown outcomes leave both checkers more orders to try.
			for range i % 2 * forgotten {
				forgetOutcome(dice, falsified)
			}
			path := fmt.Sprintf("%s.%d-%d", prefix, kind, i)
			accepted, err := agreed(ctx, checker, path, falsified)
			switch {
			case err != nil:
				disagreed = append(disagreed, fmt.Errorf("%s: %w", falsify.name, err))
			case accepted:
				verdicts.accepted++
			default:
				verdicts.rejected++
			}
		}
		log.Printf("  %-40s accepted by both %2d, rejected by both %2d", falsify.name, verdicts.accepted, verdicts.rejected)
		total.accepted += verdicts.accepted
		total.rejected += verdicts.rejected
	}
	log.Printf("  %-40s accepted by both %2d, rejected by both %2d", "total", total.accepted, total.rejected)
	if total.rejected == 0 {
		disagreed = append(disagreed, errors.New("no falsified copy was rejected"))
	}
	return errors.Join(disagreed...)
}
