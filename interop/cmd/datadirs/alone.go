package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"bowline/interop/internal/cluster"
)

// busy writes to every bucket. One client sends all requests in order, so that the result is nearly
// reproducible.
var busy = []step{
	{"keys", with(keys)},
	{"changes", with(changes)},
	{"leases", with(leases)},
	{"auth on", with(authOn)},
	{"work as a user", as("ann", "secret", func(ctx context.Context, client *clientv3.Client) error {
		_, err := client.Put(ctx, "ann/key", "hers")
		return err
	})},
	{"auth off", as("root", "pw", authOff)},
	{"big values", with(bigValues)},
	{"compaction", with(compact)},
	{"defragmentation", defragment},
	{"more keys", with(moreKeys)},
	{"stop", stop},
}

// killed ends during concurrent writes.
var killed = []step{
	{"keys", with(keys)},
	{"changes", with(changes)},
	{"a violent end", killWhileWriting},
}

// quota is small, so that it is reached quickly.
const quota = 4 << 20

var quotaFlag = fmt.Sprintf("--quota-backend-bytes=%d", quota)

// overQuota exceeds the quota, disarms the alarm, and exceeds it again.
var overQuota = []step{
	{"fill", with(fill)},
	{"compaction", with(compact)},
	{"defragmentation", defragment},
	{"disarm", with(disarm)},
	{"fill again", with(fill)},
	{"stop", stop},
}

// with makes a step that uses a client of the first member.
func with(use func(context.Context, *clientv3.Client) error) func(context.Context, *cluster.Cluster) error {
	return as("", "", use)
}

func as(
	user, password string, use func(context.Context, *clientv3.Client) error,
) func(context.Context, *cluster.Cluster) error {
	return func(ctx context.Context, c *cluster.Cluster) error {
		return c.Members[0].DoAs(ctx, user, password, use)
	}
}

func stop(_ context.Context, c *cluster.Cluster) error { return c.Stop() }

// keys puts 3000 keys in transactions of 100, and 300 one by one.
func keys(ctx context.Context, client *clientv3.Client) error {
	const perTxn = 100
	for first := 0; first < 3000; first += perTxn {
		var puts []clientv3.Op
		for i := first; i < first+perTxn; i++ {
			puts = append(puts, clientv3.OpPut(fmt.Sprintf("many/%05d", i), fmt.Sprintf("value %d", i)))
		}
		if _, err := client.Txn(ctx).Then(puts...).Commit(); err != nil {
			return err
		}
	}
	return put(ctx, client, "single/", 300)
}

func put(ctx context.Context, client *clientv3.Client, prefix string, count int) error {
	for i := range count {
		if _, err := client.Put(ctx, fmt.Sprintf("%s%05d", prefix, i), strings.Repeat("v", i)); err != nil {
			return err
		}
	}
	return nil
}

// changes gives keys further revisions and deletes some of them.
func changes(ctx context.Context, client *clientv3.Client) error {
	for range 3 {
		if err := put(ctx, client, "single/", 50); err != nil {
			return err
		}
	}
	for i := range 30 {
		if _, err := client.Delete(ctx, fmt.Sprintf("single/%05d", 2*i)); err != nil {
			return err
		}
	}
	_, rangeErr := client.Delete(ctx, "many/00500", clientv3.WithRange("many/00900"))
	_, txnErr := client.Txn(ctx).
		If(clientv3.Compare(clientv3.Version("many/00001"), "=", 1)).
		Then(clientv3.OpPut("many/00001", "again"), clientv3.OpDelete("many/00002"), clientv3.OpPut("empty", "")).
		Commit()
	// A new generation of a deleted key.
	_, putErr := client.Put(ctx, "single/00000", "reborn")
	return errors.Join(rangeErr, txnErr, putErr)
}

func leases(ctx context.Context, client *clientv3.Client) error {
	for i := range 20 {
		// The plain API lets the client choose the id.
		id := clientv3.LeaseID(1000 + i)
		request := &leaseGrant{ID: int64(id), TTL: int64(3600 + i)}
		if _, err := leaseClient(client).LeaseGrant(ctx, request); err != nil {
			return err
		}
		if _, err := client.Put(ctx, fmt.Sprintf("leased/%02d", i), "leased", clientv3.WithLease(id)); err != nil {
			return err
		}
	}
	_, keepErr := client.KeepAliveOnce(ctx, 1001)
	_, revokeErr := client.Revoke(ctx, 1002)
	return errors.Join(keepErr, revokeErr)
}

// bigValues fills more than two log segments of 64 MB.
func bigValues(ctx context.Context, client *clientv3.Client) error {
	value := strings.Repeat("0123456789abcdef", 1<<16)
	for i := range 150 {
		if _, err := client.Put(ctx, fmt.Sprintf("big/%d", i%3), value[:len(value)-i]); err != nil {
			return err
		}
	}
	return nil
}

// compact discards all but the last few revisions.
func compact(ctx context.Context, client *clientv3.Client) error {
	now, err := client.Get(ctx, "any")
	if err != nil {
		return err
	}
	_, err = client.Compact(ctx, now.Header.Revision-3, clientv3.WithCompactPhysical())
	return err
}

func defragment(ctx context.Context, c *cluster.Cluster) error {
	m := c.Members[0]
	return m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		_, err := client.Defragment(ctx, m.Endpoint())
		return err
	})
}

// moreKeys adds history to the compacted, defragmented database.
func moreKeys(ctx context.Context, client *clientv3.Client) error {
	if err := put(ctx, client, "late/", 300); err != nil {
		return err
	}
	return changes(ctx, client)
}

// fillMax bounds the puts of fill. The server measures its database when it commits, every 100 ms,
// so that any number of puts may pass before.
const fillMax = 10_000

// fill writes until the quota is exceeded.
func fill(ctx context.Context, client *clientv3.Client) error {
	value := strings.Repeat("x", quota/32)
	for i := range fillMax {
		_, err := client.Put(ctx, fmt.Sprintf("fill/%d", i%2), value)
		if errors.Is(err, rpctypes.ErrNoSpace) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return errors.New("the quota was not reached")
}

func disarm(ctx context.Context, client *clientv3.Client) error {
	if _, err := client.AlarmDisarm(ctx, &clientv3.AlarmMember{}); err != nil {
		return err
	}
	_, err := client.Put(ctx, "after", "the alarm")
	return err
}

// killWhileWriting kills the member once some of many writes have succeeded.
func killWhileWriting(ctx context.Context, c *cluster.Cluster) error {
	m := c.Members[0]
	return m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		ctx, cancel := context.WithCancel(ctx)
		var group sync.WaitGroup
		done := make(chan struct{}, 1000)
		for writer := range 16 {
			group.Go(func() { putUntilError(ctx, client, writer, done) })
		}
		for range 500 {
			<-done
		}
		err := m.Kill()
		cancel()
		group.Wait()
		return err
	})
}

func putUntilError(ctx context.Context, client *clientv3.Client, writer int, done chan<- struct{}) {
	value := strings.Repeat("w", 3000)
	for i := 0; ; i++ {
		if _, err := client.Put(ctx, fmt.Sprintf("writer/%02d/%06d", writer, i), value); err != nil {
			return
		}
		select {
		case done <- struct{}{}:
		default:
		}
	}
}
