// Boltwrite applies a list of changes to a bolt file with bbolt. The flags determine the list;
// Bowline's bolt_tool applies the same one.
//
//	boltwrite -seed 1 -count 5000 -nested -deletes FILE   fill a file
//	boltwrite -seed 1 -round 0 FILE                       apply one round; programs take turns
//	boltwrite -seed 1 -expect 3 FILE                      verify the result of rounds 0 to 2
//	boltwrite -hold FILE COMMAND [ARGUMENT...]            run a command while the file is open
//
// The flags -page-size, -fill, -sync-freelist and -drop produce files of unusual shapes.
package main

import (
	"flag"
	"log"
	"os"
	"os/exec"
	"time"

	bolt "go.etcd.io/bbolt"

	"bowline/interop/internal/workload"
)

type options struct {
	file                           string
	seed                           uint64
	count, round, expect, pageSize int
	fill                           float64
	nested, deletes, sync, drop    bool
	command                        []string
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("boltwrite: ")
	var want options
	flag.Uint64Var(&want.seed, "seed", 1, "seed of the changes")
	flag.IntVar(&want.count, "count", 0, "number of changes")
	flag.BoolVar(&want.nested, "nested", false, "also use nested buckets")
	flag.BoolVar(&want.deletes, "deletes", false, "also delete keys and buckets")
	flag.IntVar(&want.round, "round", -1, "apply the changes of this round")
	flag.IntVar(&want.expect, "expect", -1, "compare with the result of this many rounds")
	flag.IntVar(&want.pageSize, "page-size", 0, "page size of a new file; 0 for the system's")
	flag.Float64Var(&want.fill, "fill", bolt.DefaultFillPercent, "fill percent of pages")
	flag.BoolVar(&want.sync, "sync-freelist", false, "write the freelist to the file")
	flag.BoolVar(&want.drop, "drop", false, "drop bucket alpha at the end, which frees most pages")
	hold := flag.Bool("hold", false, "run a command while the file is open")
	flag.Parse()
	if flag.NArg() < 1 || *hold != (flag.NArg() > 1) {
		log.Fatal("usage: boltwrite [flags] FILE, or boltwrite -hold FILE COMMAND [ARGUMENT...]")
	}
	want.file, want.command = flag.Arg(0), flag.Args()[1:]
	if err := run(want); err != nil {
		log.Fatal(err)
	}
}

func run(want options) error {
	db, err := bolt.Open(want.file, 0o600, &bolt.Options{
		ReadOnly: want.expect >= 0, PageSize: want.pageSize, NoFreelistSync: !want.sync,
		// These files need not survive a power cut.
		NoSync: true, NoGrowSync: true,
		Timeout: time.Second,
	})
	if err != nil {
		return err
	}
	defer db.Close()
	switch {
	case len(want.command) > 0:
		run := exec.Command(want.command[0], want.command[1:]...)
		run.Stdout, run.Stderr = os.Stdout, os.Stderr
		return run.Run()
	case want.expect >= 0:
		return compare(db, want.seed, want.expect)
	case want.round >= 0:
		return workload.Round(want.seed, want.round).Apply(db, want.fill)
	}
	if err := workload.Written(want.seed, want.count, want.nested, want.deletes).Apply(db, want.fill); err != nil {
		return err
	}
	if want.drop {
		return db.Update(func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte("alpha")) })
	}
	return nil
}

func compare(db *bolt.DB, seed uint64, rounds int) error {
	model := workload.NewModel()
	for round := range rounds {
		model.Apply(workload.Round(seed, round))
	}
	return db.View(model.Compare)
}
