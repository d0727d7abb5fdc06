package clients

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"

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

func TestMutexKeepsOthersOut(t *testing.T) {
	ctx, client := within(t), shared.client(t)
	one, other := session(t, client), session(t, client)
	first, second := concurrency.NewMutex(one, prefixOf(t)), concurrency.NewMutex(other, prefixOf(t))
	must(t, first.Lock(ctx))
	fails(t, "try", second.TryLock(ctx), concurrency.ErrLocked)

	held := make(chan error)
	go func() { held <- second.Lock(ctx) }()
	owner := got(client.Txn(ctx).If(first.IsOwner()).Commit())(t)
	equal(t, "the first owns it", owner.Succeeded, true)
	must(t, first.Unlock(ctx))
	must(t, next(t, held))
	owner = got(client.Txn(ctx).If(first.IsOwner()).Commit())(t)
	equal(t, "the first owns it still", owner.Succeeded, false)
	must(t, second.Unlock(ctx))
}

func TestMutexOfASessionThatEnded(t *testing.T) {
	ctx, client := within(t), shared.client(t)
	// A session learns of its end at a third of its time.
	one, other := session(t, client, concurrency.WithTTL(3)), session(t, client)
	first, second := concurrency.NewMutex(one, prefixOf(t)), concurrency.NewMutex(other, prefixOf(t))
	must(t, first.Lock(ctx))
	held := make(chan error)
	go func() { held <- second.Lock(ctx) }()
	got(client.Revoke(ctx, one.Lease()))(t)
	must(t, next(t, held))
	ends(t, one.Done())
}

func TestMutexesCount(t *testing.T) {
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

// count adds one to a number, in two steps that only the lock keeps together.
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
	ctx, client := within(t), shared.client(t)
	one, other := session(t, client), session(t, client)
	first, second := concurrency.NewElection(one, prefixOf(t)), concurrency.NewElection(other, prefixOf(t))
	_, err := first.Leader(ctx)
	fails(t, "nobody leads", err, concurrency.ErrElectionNoLeader)

	must(t, first.Campaign(ctx, "first"))
	observed := second.Observe(ctx)
	equal(t, "observed", string(next(t, observed).Kvs[0].Value), "first")
	must(t, first.Proclaim(ctx, "first again"))
	equal(t, "observed", string(next(t, observed).Kvs[0].Value), "first again")

	elected := make(chan error)
	go func() { elected <- second.Campaign(ctx, "second") }()
	equal(t, "leads", string(got(first.Leader(ctx))(t).Kvs[0].Value), "first again")
	must(t, first.Resign(ctx))
	must(t, next(t, elected))
	equal(t, "observed", string(next(t, observed).Kvs[0].Value), "second")
	fails(t, "the first no longer leads", first.Proclaim(ctx, "x"), concurrency.ErrElectionNotLeader)

	resumed := concurrency.ResumeElection(other, prefixOf(t), second.Key(), second.Rev())
	must(t, resumed.Proclaim(ctx, "resumed"))
	equal(t, "observed", string(next(t, observed).Kvs[0].Value), "resumed")
}

func TestElectionAfterTheLeaderIsGone(t *testing.T) {
	ctx, client := within(t), shared.client(t)
	one, other := session(t, client), session(t, client)
	first, second := concurrency.NewElection(one, prefixOf(t)), concurrency.NewElection(other, prefixOf(t))
	must(t, first.Campaign(ctx, "first"))
	elected := make(chan error)
	go func() { elected <- second.Campaign(ctx, "second") }()
	must(t, one.Close())
	must(t, next(t, elected))
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

	// An orphan is no longer kept alive, and its lease runs out.
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

// TestTransfers moves money between accounts, at every level of isolation, by many at a time. None is lost.
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
