package main

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.uber.org/zap"

	"bowline/interop/internal/workload"
)

// ttl is long enough that no lease expires during a run, since etcd's lessor uses the real clock.
// The cost does not depend on it.
const ttl = 3600

func measureLease(dir string, effort effort) {
	fmt.Printf("%d leases\n\n", effort.leases)
	ids := leaseIDs(effort.leases)
	database := openBackend(dir)
	grantAll(database, ids)
	lessor := restoreLeases(database, effort)
	promote(lessor, ids)
	renew(lessor, ids, effort, 1)
	renew(lessor, ids, effort, 2)
	attach(lessor, ids)
	lessor.Stop()
	must(database.Close())
	fmt.Println()
}

// leaseIDs returns ids spread like the random ids of clients.
func leaseIDs(leases int) []lease.LeaseID {
	ids := make([]lease.LeaseID, leases)
	for n := range ids {
		ids[n] = lease.LeaseID(workload.Seeded(0, uint64(n)).Next() | 1)
	}
	return ids
}

func newLessor(database backend.Backend) lease.Lessor {
	return lease.NewLessor(zap.NewNop(), database, nil, lease.LessorConfig{})
}

// grantAll fills the database. It is not measured: etcd sorts the pending batch at each grant out
// of order, so that a million would take minutes, and ordered grants are not what our benchmark
// does.
func grantAll(database backend.Backend, ids []lease.LeaseID) {
	lessor := newLessor(database)
	for _, id := range slices.Sorted(slices.Values(ids)) {
		_, err := lessor.Grant(id, ttl)
		must(err)
	}
	lessor.Stop()
	database.ForceCommit()
}

// restoreLeases restores the lessor from the database, as after a restart.
func restoreLeases(database backend.Backend, effort effort) lease.Lessor {
	var lessor lease.Lessor
	var took time.Duration
	kept := bytesKept(func() {
		took = timed(func() { lessor = newLessor(database) })
	})
	check(len(lessor.Leases()) == effort.leases, "leases are missing")
	fmt.Printf("restore                      %12.0f /s\n", rate(effort.leases, took))
	fmt.Printf("a follower keeps             %12.1f bytes a lease\n", kept/float64(effort.leases))
	return lessor
}

// promote measures a promotion while another goroutine renews leases and records its longest wait.
func promote(lessor lease.Lessor, ids []lease.LeaseID) {
	kept := bytesKept(func() { lessor.Promote(0) })
	fmt.Printf("a leader keeps, on top       %12.1f bytes a lease\n", kept/float64(len(ids)))
	lessor.Demote()

	var done atomic.Bool
	var waited time.Duration
	var renewer sync.WaitGroup
	renewer.Go(func() { waited = longestRenewal(lessor, ids, &done) })
	took := timed(func() { lessor.Promote(time.Second) })
	done.Store(true)
	renewer.Wait()
	fmt.Printf("promote                      %12.1f ms\n", took.Seconds()*1e3)
	fmt.Printf("longest renewal meanwhile    %12.1f us\n", micros(waited))
}

func longestRenewal(lessor lease.Lessor, ids []lease.LeaseID, done *atomic.Bool) (longest time.Duration) {
	random := workload.Seeded(0, 1)
	for !done.Load() {
		id := ids[random.Next()%uint64(len(ids))]
		// The renewal is refused until the lessor is promoted.
		longest = max(longest, timed(func() { lessor.Renew(id) }))
	}
	return longest
}

// renew renews random leases from several goroutines.
func renew(lessor lease.Lessor, ids []lease.LeaseID, effort effort, goroutines int) {
	each := effort.renewals / goroutines
	var perSecond rates
	for range effort.leaseRounds {
		took := timed(func() {
			var renewers sync.WaitGroup
			for seed := range goroutines {
				renewers.Go(func() { renewSome(lessor, ids, workload.Seeded(0, uint64(seed)), each) })
			}
			renewers.Wait()
		})
		perSecond = append(perSecond, rate(each*goroutines, took))
	}
	plural := " "
	if goroutines > 1 {
		plural = "s"
	}
	fmt.Printf("renew from %d thread%s         %s\n", goroutines, plural, perSecond)
}

func renewSome(lessor lease.Lessor, ids []lease.LeaseID, random *workload.Random, count int) {
	for range count {
		got, err := lessor.Renew(ids[random.Next()%uint64(len(ids))])
		must(err)
		check(got == ttl, "a lease has another time to live")
	}
}

// attach attaches one key of 40 bytes to each of the first tenth of the leases.
func attach(lessor lease.Lessor, ids []lease.LeaseID) {
	keys := make([][]byte, len(ids)/10)
	for n := range keys {
		keys[n] = fmt.Appendf(nil, "/registry/events/default/%015d", n)
	}
	var took time.Duration
	kept := bytesKept(func() {
		took = timed(func() {
			for n, key := range keys {
				must(lessor.Attach(ids[n], []lease.LeaseItem{{Key: string(key)}}))
			}
		})
	})
	runtime.KeepAlive(keys)
	fmt.Printf("attach                       %12.0f /s\n", rate(len(keys), took))
	fmt.Printf("an attached key of 40 bytes  %12.1f bytes\n", kept/float64(len(keys)))
}
