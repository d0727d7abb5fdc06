package clients

import (
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestLeaseKeepAlive checks that a lease outlives its TTL while it is renewed, and expires
// afterwards.
func TestLeaseKeepAlive(t *testing.T) {
	t.Parallel()
	ctx, client := within(t), shared.client(t)
	keeper := shared.client(t)
	lease := got(client.Grant(ctx, 5))(t)
	got(client.Put(ctx, prefixOf(t), "x", clientv3.WithLease(lease.ID)))(t)
	alive := got(keeper.KeepAlive(ctx, lease.ID))(t)
	for begun := time.Now(); time.Since(begun) < 8*time.Second; {
		equal(t, "granted", next(t, alive).TTL, 5)
	}
	equal(t, "key", value(t, client, prefixOf(t)), "x")

	watch := client.Watch(ctx, prefixOf(t), clientv3.WithCreatedNotify(), clientv3.WithPrevKV())
	equal(t, "created", next(t, watch).Created, true)
	ended := time.Now()
	must(t, keeper.Close())
	event := next(t, watch).Events[0]
	equal(t, "deleted", event.Type.String(), "DELETE")
	equal(t, "previous", string(event.PrevKv.Value), "x")
	if lived := time.Since(ended); lived < time.Second {
		t.Errorf("a lease of 5 s expired after %s", lived)
	}
	left := got(client.TimeToLive(ctx, lease.ID))(t)
	equal(t, "left", left.TTL, -1)
}

// TestExpiryIsOneTransaction checks that an expiry deletes all keys of a lease at one revision, in
// key order.
func TestExpiryIsOneTransaction(t *testing.T) {
	ctx, client := within(t), shared.client(t)
	lease := got(client.Grant(ctx, 5))(t)
	watch := client.Watch(ctx, prefixOf(t), clientv3.WithPrefix(), clientv3.WithFilterPut(), clientv3.WithCreatedNotify())
	equal(t, "created", next(t, watch).Created, true)
	var puts []clientv3.Op
	for _, key := range []string{"c", "a", "b"} {
		puts = append(puts, clientv3.OpPut(prefixOf(t)+key, "x", clientv3.WithLease(lease.ID)))
	}
	got(client.Txn(ctx).Then(puts...).Commit())(t)
	events := next(t, watch).Events
	equal(t, "events", len(events), 3)
	for i, key := range []string{"a", "b", "c"} {
		equal(t, "key", string(events[i].Kv.Key), prefixOf(t)+key)
		equal(t, "revision", events[i].Kv.ModRevision, events[0].Kv.ModRevision)
	}
}

func TestMissingLeases(t *testing.T) {
	ctx, client := within(t), shared.client(t)
	_, err := client.KeepAliveOnce(ctx, 12345)
	fails(t, "keep alive", err, rpctypes.ErrLeaseNotFound)
	_, err = client.Revoke(ctx, 12345)
	fails(t, "revoke", err, rpctypes.ErrLeaseNotFound)
	_, err = client.Put(ctx, prefixOf(t), "x", clientv3.WithLease(12345))
	fails(t, "put", err, rpctypes.ErrLeaseNotFound)
	_, err = client.Grant(ctx, 9_000_000_001)
	fails(t, "grant", err, rpctypes.ErrLeaseTTLTooLarge)
	left := got(client.TimeToLive(ctx, 12345))(t)
	equal(t, "left", left.TTL, -1)
	ended := got(client.KeepAlive(ctx, 12345))(t)
	ends(t, ended)
}

// TestLeaseSurvivesARestart checks that a client keeps a lease alive over a restart, and that the
// restart renews it.
func TestLeaseSurvivesARestart(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), alone(t)
	client := s.client(t)
	lease := got(client.Grant(ctx, 30))(t)
	long := got(client.Grant(ctx, 1000))(t)
	got(client.Put(ctx, "k", "x", clientv3.WithLease(lease.ID)))(t)
	alive := got(client.KeepAlive(ctx, lease.ID))(t)
	next(t, alive)
	s.kill(t)
	s.startAgain(t)
	for begun := time.Now(); time.Since(begun) < 4*time.Second; {
		equal(t, "renewed", next(t, alive).TTL, 30)
	}
	left := got(client.TimeToLive(ctx, lease.ID, clientv3.WithAttachedKeys()))(t)
	equal(t, "keys", len(left.Keys), 1)
	equal(t, "leases", len(got(client.Leases(ctx))(t).Leases), 2)
	equal(t, "granted", got(client.TimeToLive(ctx, long.ID))(t).GrantedTTL, 1000)
	got(client.Revoke(ctx, lease.ID))(t)
	equal(t, "keys", len(got(client.Get(ctx, "k"))(t).Kvs), 0)
	ends(t, alive)
}

// TestHundredsOfLeasesShareAStream renews hundreds of leases over the client's keep-alive stream.
func TestHundredsOfLeasesShareAStream(t *testing.T) {
	const leases = 300
	ctx, client := within(t), shared.client(t)
	var all []<-chan *clientv3.LeaseKeepAliveResponse
	for range leases {
		lease := got(client.Grant(ctx, 60))(t)
		all = append(all, got(client.KeepAlive(ctx, lease.ID))(t))
	}
	for _, alive := range all {
		equal(t, "renewed", next(t, alive).TTL, 60)
	}
	if n := len(got(client.Leases(ctx))(t).Leases); n < leases {
		t.Errorf("unexpected number of leases: %d", n)
	}
}
