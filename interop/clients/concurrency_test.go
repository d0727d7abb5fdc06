package clients

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

func session(t *testing.T, client *clientv3.Client, options ...concurrency.SessionOption) *concurrency.Session {
	t.Helper()
	s := got(concurrency.NewSession(client, options...))(t)
	t.Cleanup(func() { s.Close() })
	return s
}

// reportingWatcher is a watcher that reports every new watch: its client has started to wait.
type reportingWatcher struct {
	clientv3.Watcher
	begun chan struct{}
}

func (r reportingWatcher) Watch(ctx context.Context, key string, options ...clientv3.OpOption) clientv3.WatchChan {
	select {
	case r.begun <- struct{}{}:
	default:
		// The test no longer reads the channel.
	}
	return r.Watcher.Watch(ctx, key, options...)
}

// waiter is a blocking call of a client.
type waiter struct {
	begun chan struct{}
	done  chan error
}

// wait starts a call and returns once it blocks.
func wait(t *testing.T, client *clientv3.Client, do func() error) *waiter {
	t.Helper()
	w := &waiter{begun: make(chan struct{}, 10), done: make(chan error, 1)}
	client.Watcher = reportingWatcher{client.Watcher, w.begun}
	go func() { w.done <- do() }()
	w.blocksAgain(t)
	return w
}

// blocksAgain returns once the call blocks again, on the next key before its own.
func (w *waiter) blocksAgain(t *testing.T) {
	t.Helper()
	select {
	case <-w.begun:
	case err := <-w.done:
		t.Fatalf("the call returned without waiting: %v", err)
	case <-time.After(testTimeout):
		t.Fatal("the call neither waited nor returned")
	}
}

// isBlocked checks that the call has not returned.
func (w *waiter) isBlocked(t *testing.T) {
	t.Helper()
	select {
	case err := <-w.done:
		t.Fatalf("the call returned too early: %v", err)
	default:
	}
}

// waitUntilReturned waits until the call returns.
func (w *waiter) waitUntilReturned(t *testing.T) {
	t.Helper()
	must(t, next(t, w.done))
}

func TestMutexExcludesOtherSessions(t *testing.T) {
	ctx, client, late := within(t), shared.client(t), shared.client(t)
	one, other := session(t, client), session(t, late)
	first, second := concurrency.NewMutex(one, prefixOf(t)), concurrency.NewMutex(other, prefixOf(t))
	must(t, first.Lock(ctx))
	fails(t, "TryLock", second.TryLock(ctx), concurrency.ErrLocked)

	held := wait(t, late, func() error { return second.Lock(ctx) })
	owner := got(client.Txn(ctx).If(first.IsOwner()).Commit())(t)
	equal(t, "the first owns it", owner.Succeeded, true)
	held.isBlocked(t)
	must(t, first.Unlock(ctx))
	held.waitUntilReturned(t)
	owner = got(client.Txn(ctx).If(first.IsOwner()).Commit())(t)
	equal(t, "the first owns it still", owner.Succeeded, false)
	must(t, second.Unlock(ctx))
}

func TestMutexIsReleasedWhenItsSessionEnds(t *testing.T) {
	ctx, client, late := within(t), shared.client(t), shared.client(t)
	// A session notices the end of its lease after a third of its TTL.
	one, other := session(t, client, concurrency.WithTTL(3)), session(t, late)
	first, second := concurrency.NewMutex(one, prefixOf(t)), concurrency.NewMutex(other, prefixOf(t))
	must(t, first.Lock(ctx))
	held := wait(t, late, func() error { return second.Lock(ctx) })
	got(client.Revoke(ctx, one.Lease()))(t)
	held.waitUntilReturned(t)
	ends(t, one.Done())
}

func TestMutexMakesIncrementsAtomic(t *testing.T) {
	const workers, rounds = 8, 5
	ctx := within(t)
	var group sync.WaitGroup
	for range workers {
		client := shared.client(t)
		s := session(t, client)
		group.Go(func() {
			for range rounds {
				if err := count(ctx, client, concurrency.NewMutex(s, prefixOf(t)+"lock"), prefixOf(t)+"count"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	counted := got(shared.client(t).Get(ctx, prefixOf(t)+"count"))(t)
	equal(t, "counted", string(counted.Kvs[0].Value), strconv.Itoa(workers*rounds))
}

// count increments a number in two steps, which only the lock makes atomic.
func count(ctx context.Context, client *clientv3.Client, mutex *concurrency.Mutex, key string) error {
	if err := mutex.Lock(ctx); err != nil {
		return err
	}
	defer mutex.Unlock(ctx)
	now, err := client.Get(ctx, key)
	if err != nil {
		return err
	}
	number := 0
	if len(now.Kvs) > 0 {
		number, _ = strconv.Atoi(string(now.Kvs[0].Value))
	}
	_, err = client.Put(ctx, key, strconv.Itoa(number+1))
	return err
}

func TestElection(t *testing.T) {
	ctx, client, late := within(t), shared.client(t), shared.client(t)
	one, other := session(t, client), session(t, late)
	first, second := concurrency.NewElection(one, prefixOf(t)), concurrency.NewElection(other, prefixOf(t))
	_, err := first.Leader(ctx)
	fails(t, "without a leader", err, concurrency.ErrElectionNoLeader)

	must(t, first.Campaign(ctx, "first"))
	observed := concurrency.NewElection(one, prefixOf(t)).Observe(ctx)
	equal(t, "observed", string(next(t, observed).Kvs[0].Value), "first")
	must(t, first.Proclaim(ctx, "first again"))
	equal(t, "observed", string(next(t, observed).Kvs[0].Value), "first again")

	elected := wait(t, late, func() error { return second.Campaign(ctx, "second") })
	equal(t, "leads", string(got(first.Leader(ctx))(t).Kvs[0].Value), "first again")
	must(t, first.Resign(ctx))
	elected.waitUntilReturned(t)
	equal(t, "observed", string(next(t, observed).Kvs[0].Value), "second")
	fails(t, "proclaim after resigning", first.Proclaim(ctx, "x"), concurrency.ErrElectionNotLeader)

	resumed := concurrency.ResumeElection(other, prefixOf(t), second.Key(), second.Rev())
	must(t, resumed.Proclaim(ctx, "resumed"))
	equal(t, "observed", string(next(t, observed).Kvs[0].Value), "resumed")
}

func TestElectionAfterTheLeaderEnds(t *testing.T) {
	ctx, client, late := within(t), shared.client(t), shared.client(t)
	one, other := session(t, client), session(t, late)
	first, second := concurrency.NewElection(one, prefixOf(t)), concurrency.NewElection(other, prefixOf(t))
	must(t, first.Campaign(ctx, "first"))
	elected := wait(t, late, func() error { return second.Campaign(ctx, "second") })
	must(t, one.Close())
	elected.waitUntilReturned(t)
	equal(t, "leads", string(got(second.Leader(ctx))(t).Kvs[0].Value), "second")
}

func TestSessions(t *testing.T) {
	ctx, client := within(t), shared.client(t)
	lease := got(client.Grant(ctx, 30))(t)
	s := session(t, client, concurrency.WithLease(lease.ID))
	equal(t, "lease", s.Lease(), lease.ID)
	got(client.Put(ctx, prefixOf(t), "x", clientv3.WithLease(s.Lease())))(t)
	must(t, s.Close())
	ends(t, s.Done())
	equal(t, "keys", len(got(client.Get(ctx, prefixOf(t)))(t).Kvs), 0)

	// An orphaned session stops its keep-alive, and its lease expires.
	orphan := got(concurrency.NewSession(client, concurrency.WithTTL(2)))(t)
	orphan.Orphan()
	ends(t, orphan.Done())
	eventually(t, "the lease is gone", func() bool {
		left, err := client.TimeToLive(ctx, orphan.Lease())
		return err == nil && left.TTL == -1
	})
	_, err := client.KeepAliveOnce(ctx, orphan.Lease())
	fails(t, "keep alive", err, rpctypes.ErrLeaseNotFound)
}

// TestTransfers moves money between accounts concurrently, at every isolation level, and checks
// that the total is unchanged.
func TestTransfers(t *testing.T) {
	for _, level := range []concurrency.Isolation{
		concurrency.SerializableSnapshot, concurrency.Serializable, concurrency.RepeatableReads,
	} {
		t.Run(strconv.Itoa(int(level)), func(t *testing.T) { transfers(t, level) })
	}
}

func transfers(t *testing.T, level concurrency.Isolation) {
	const accounts, workers, rounds, money = 5, 6, 10, 100
	ctx, client := within(t), shared.client(t)
	account := func(i int) string { return fmt.Sprintf("transfers/%s%d", prefixOf(t), i%accounts) }
	for i := range accounts {
		got(client.Put(ctx, account(i), strconv.Itoa(money)))(t)
	}
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			for round := range rounds {
				_, err := concurrency.NewSTM(client, func(stm concurrency.STM) error {
					return transfer(stm, account(worker), account(worker+1+round%(accounts-1)))
				}, concurrency.WithIsolation(level), concurrency.WithAbortContext(ctx))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	sum := 0
	for i := range accounts {
		kvs := got(client.Get(ctx, account(i)))(t).Kvs
		sum += got(strconv.Atoi(string(kvs[0].Value)))(t)
	}
	equal(t, "money", sum, accounts*money)
}

func transfer(stm concurrency.STM, from, to string) error {
	here, err := strconv.Atoi(stm.Get(from))
	if err != nil {
		return err
	}
	there, err := strconv.Atoi(stm.Get(to))
	if err != nil {
		return err
	}
	stm.Put(from, strconv.Itoa(here-1))
	stm.Put(to, strconv.Itoa(there+1))
	return nil
}
