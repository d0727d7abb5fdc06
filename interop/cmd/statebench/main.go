// Statebench measures etcd's state machine at what Bowline's own benches measure
// ours at, with etcd's own packages: keys and their history, watchers, leases.
// It does the same work with the same keys, values and ids, in the same order,
// and prints lines with the same words, so that the two can be joined.
//
//	statebench [-dir DIR] [-only store,watch,lease] [-quick]
//
//	store    cargo bench -p mvcc --bench store
//	watch    cargo bench -p mvcc --bench watch
//	lease    cargo bench -p lease
//
// Databases are opened as a server opens them: a commit every 100 ms or ten thousand changes,
// synced.
package main

import (
	"flag"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.uber.org/zap"
)

// effort is how much to measure.
type effort struct {
	keys          int
	watchers      int
	publishRounds int
	leases        int
	leaseRounds   int
	// renewals is how many there are in a round.
	renewals int
}

var (
	full  = effort{keys: 1_000_000, watchers: 10_000, publishRounds: 200, leases: 1_000_000, leaseRounds: 9, renewals: 2_000_000}
	quick = effort{keys: 2_000, watchers: 100, publishRounds: 3, leases: 5_000, leaseRounds: 1, renewals: 5_000}
)

var parts = []struct {
	name    string
	measure func(dir string, effort effort)
}{
	{"store", measureStore},
	{"watch", measureWatch},
	{"lease", measureLease},
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("statebench: ")
	dir := flag.String("dir", os.TempDir(), "folder on the disk to measure")
	only := flag.String("only", "store,watch,lease", "which parts, separated by commas")
	isQuick := flag.Bool("quick", false, "little of everything, to see that it runs")
	flag.Parse()
	chosen := full
	if *isQuick {
		chosen = quick
	}
	for _, part := range parts {
		if slices.Contains(strings.Split(*only, ","), part.name) {
			inFolder(*dir, func(folder string) { part.measure(folder, chosen) })
		}
	}
}

// inFolder makes a folder for a while.
func inFolder(dir string, use func(folder string)) {
	folder, err := os.MkdirTemp(dir, "statebench-")
	must(err)
	defer os.RemoveAll(folder)
	use(folder)
}

func openBackend(folder string) backend.Backend {
	return backend.NewDefaultBackend(zap.NewNop(), filepath.Join(folder, "db"))
}

// openStore restores a store. There are no leases.
func openStore(database backend.Backend) mvcc.WatchableKV {
	return mvcc.New(zap.NewNop(), database, &lease.FakeLessor{}, mvcc.StoreConfig{})
}

// withStore opens the database of a folder for a while.
func withStore(folder string, use func(mvcc.WatchableKV)) {
	database := openBackend(folder)
	store := openStore(database)
	use(store)
	must(store.Close())
	must(database.Close())
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// check panics if something that was measured has not been done.
func check(done bool, what string) {
	if !done {
		panic(what)
	}
}
