package clients

import (
	"context"
	"fmt"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/leasing"
	"go.etcd.io/etcd/client/v3/mirror"
	"go.etcd.io/etcd/client/v3/namespace"
	"go.etcd.io/etcd/client/v3/ordering"
)

func TestLeasing(t *testing.T) {
	ctx, plain := within(t), shared.client(t)
	key := prefixOf(t) + "key"
	kv := func() clientv3.KV {
		kv, end, err := leasing.NewKV(plain, "leases of "+prefixOf(t))
		must(t, err)
		t.Cleanup(end)
		return kv
	}
	one, other := kv(), kv()

	got(one.Put(ctx, key, "1"))(t)
	equal(t, "through the cache", value(t, one, key), "1")
	// Another client can write only after the first has returned its lease, so the first sees the
	// new value.
	got(other.Put(ctx, key, "2"))(t)
	equal(t, "after another wrote", value(t, one, key), "2")
	swapped := got(one.Txn(ctx).
		If(clientv3.Compare(clientv3.Value(key), "=", "2")).
		Then(clientv3.OpPut(key, "3")).
		Commit())(t)
	equal(t, "swapped", swapped.Succeeded, true)
	equal(t, "for the other", value(t, other, key), "3")
	equal(t, "deleted", got(other.Delete(ctx, key))(t).Deleted, 1)
	equal(t, "is gone", len(got(one.Get(ctx, key))(t).Kvs), 0)
}

func value(t *testing.T, kv clientv3.KV, key string, options ...clientv3.OpOption) string {
	t.Helper()
	found := got(kv.Get(within(t), key, options...))(t)
	if len(found.Kvs) != 1 {
		t.Fatalf("%s: unexpected number of keys: %d", key, len(found.Kvs))
	}
	return string(found.Kvs[0].Value)
}

// TestOrdering uses a single server, whose revisions never decrease.
func TestOrdering(t *testing.T) {
	ctx, client := within(t), shared.client(t)
	kv := ordering.NewKV(client, func(clientv3.Op, clientv3.OpResponse, int64) error {
		return fmt.Errorf("the revision is below an earlier one")
	})
	for i := range 50 {
		got(kv.Put(ctx, prefixOf(t), fmt.Sprint(i)))(t)
		equal(t, "serializable", value(t, kv, prefixOf(t), clientv3.WithSerializable()), fmt.Sprint(i))
		got(kv.Txn(ctx).Then(clientv3.OpGet(prefixOf(t), clientv3.WithSerializable())).Commit())(t)
	}
}

func TestNamespace(t *testing.T) {
	ctx, plain := within(t), shared.client(t)
	kv, watcher, lease := namespace.NewKV(plain, prefixOf(t)), namespace.NewWatcher(plain, prefixOf(t)), namespace.NewLease(plain, prefixOf(t))
	events := watcher.Watch(ctx, "a", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	equal(t, "created", next(t, events).Created, true)

	granted := got(lease.Grant(ctx, 100))(t)
	got(kv.Put(ctx, "a", "1", clientv3.WithLease(granted.ID)))(t)
	equal(t, "outside", value(t, plain, prefixOf(t)+"a"), "1")
	equal(t, "seen", string(next(t, events).Events[0].Kv.Key), "a")
	left := got(lease.TimeToLive(ctx, granted.ID, clientv3.WithAttachedKeys()))(t)
	equal(t, "attached", string(left.Keys[0]), "a")

	all := got(kv.Get(ctx, "", clientv3.WithFromKey()))(t)
	equal(t, "all within", len(all.Kvs), 1)
	nested := got(kv.Txn(ctx).
		If(clientv3.Compare(clientv3.Version("a"), "=", 1)).
		Then(clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut("b", "2"), clientv3.OpGet("a")}, nil)).
		Commit())(t)
	inner := nested.Responses[0].GetResponseTxn().Responses[1].GetResponseRange()
	equal(t, "in a transaction", string(inner.Kvs[0].Key), "a")
	deleted := got(kv.Delete(ctx, "", clientv3.WithPrefix(), clientv3.WithPrevKV()))(t)
	equal(t, "deleted", deleted.Deleted, 2)
	equal(t, "previous", string(deleted.PrevKvs[1].Key), "b")
}

// TestMirror copies a prefix in pages while it changes.
func TestMirror(t *testing.T) {
	const keys = 2500
	ctx, client := within(t), shared.client(t)
	copied := map[string]string{}
	fill(t, client, prefixOf(t), keys)
	syncer := mirror.NewSyncer(client, prefixOf(t), 0)
	pages, failures := syncer.SyncBase(ctx)
	for page := range pages {
		for _, kv := range page.Kvs {
			copied[string(kv.Key)] = string(kv.Value)
		}
	}
	for err := range failures {
		must(t, err)
	}
	equal(t, "copied", len(copied), keys)

	updates := syncer.SyncUpdates(ctx)
	got(client.Put(ctx, prefixOf(t)+"late", "x"))(t)
	equal(t, "update", string(next(t, updates).Events[0].Kv.Key), prefixOf(t)+"late")
}

// fill puts keys in transactions of 100.
func fill(t *testing.T, client *clientv3.Client, prefix string, keys int) {
	t.Helper()
	const together = 100
	for first := 0; first < keys; first += together {
		var puts []clientv3.Op
		for i := first; i < min(first+together, keys); i++ {
			puts = append(puts, clientv3.OpPut(fmt.Sprintf("%s%06d", prefix, i), strings.Repeat("v", i%50)))
		}
		got(client.Txn(context.Background()).Then(puts...).Commit())(t)
	}
}
