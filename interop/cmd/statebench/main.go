// Statebench benchmarks etcd's state machine, with etcd's own packages: keys and their history,
// watchers, leases. It does the same work as Bowline's benchmarks, with the same keys, values and
// ids in the same order, and prints lines with the same names, so that the results can be joined.
//
//	statebench [-dir DIR] [-only store,watch,lease] [-quick]
//
//	store    cargo bench -p mvcc --bench store
//	watch    cargo bench -p mvcc --bench watch
//	lease    cargo bench -p lease
//
// Databases are opened as in a server: with a synced commit every 100 ms or 10,000 changes.
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

// effort is the size of a run.
type effort struct {
	keys          int
	watchers      int
	publishRounds int
	leases        int
	leaseRounds   int
	// renewals is the number of renewals per round.
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
	dir := flag.String("dir", os.TempDir(), "directory on the disk to measure")
	only := flag.String("only", "store,watch,lease", "comma-separated parts to run")
	isQuick := flag.Bool("quick", false, "a small run, to check that the benchmarks work")
	flag.Parse()
	chosen := full
	if *isQuick {
		chosen = quick
	}
	for _, part := range parts {
		if slices.Contains(strings.Split(*only, ","), part.name) {
			inTempDir(*dir, func(dir string) { part.measure(dir, chosen) })
		}
	}
}

// inTempDir calls use with a temporary directory.
func inTempDir(parent string, use func(dir string)) {
	dir, err := os.MkdirTemp(parent, "statebench-")
	must(err)
	defer os.RemoveAll(dir)
	use(dir)
}

func openBackend(dir string) backend.Backend {
	return backend.NewDefaultBackend(zap.NewNop(), filepath.Join(dir, "db"))
}

// openStore restores a store without leases.
func openStore(database backend.Backend) mvcc.WatchableKV {
	return mvcc.New(zap.NewNop(), database, &lease.FakeLessor{}, mvcc.StoreConfig{})
}

// withStore calls use with the store of a directory.
func withStore(dir string, use func(mvcc.WatchableKV)) {
	database := openBackend(dir)
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

// check panics unless the measured operation succeeded.
func check(done bool, what string) {
	if !done {
		panic(what)
	}
}
