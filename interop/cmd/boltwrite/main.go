// Boltwrite makes a list of changes in a bolt file with bbolt. What the list is, the flags decide;
// Bowline's bolt_tool makes the same ones.
//
//	boltwrite -seed 1 -count 5000 -nested -deletes FILE    fill a file
//	boltwrite -seed 1 -round 0 FILE                        one of the rounds that two programs take in turn
//	boltwrite -seed 1 -expect 3 FILE                       change nothing; is there what rounds 0 to 2 leave?
//	boltwrite -hold FILE COMMAND [ARGUMENT...]             run a command while the file is open
//
// Files of odd shapes come by way of -page-size, -fill, -sync-freelist and -drop.
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
	flag.Uint64Var(&want.seed, "seed", 1, "what decides the changes")
	flag.IntVar(&want.count, "count", 0, "number of changes")
	flag.BoolVar(&want.nested, "nested", false, "use buckets in buckets too")
	flag.BoolVar(&want.deletes, "deletes", false, "delete keys and buckets too")
	flag.IntVar(&want.round, "round", -1, "make the changes of this round")
	flag.IntVar(&want.expect, "expect", -1, "compare with what this many rounds leave")
	flag.IntVar(&want.pageSize, "page-size", 0, "page size of a new file; 0 for the system's")
	flag.Float64Var(&want.fill, "fill", bolt.DefaultFillPercent, "how full pages are made")
	flag.BoolVar(&want.sync, "sync-freelist", false, "write the list of free pages into the file")
	flag.BoolVar(&want.drop, "drop", false, "at the end drop bucket alpha, which frees most pages")
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
		// Nothing here has to survive a power cut.
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
