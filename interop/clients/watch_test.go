package clients

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// eventually polls a condition until it holds.
func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); !happened(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

// revisions returns the revisions of the next events.
func revisions(t *testing.T, watch clientv3.WatchChan, count int) []int64 {
	t.Helper()
	var seen []int64
	for len(seen) < count {
		response := next(t, watch)
		must(t, response.Err())
		for _, event := range response.Events {
			seen = append(seen, event.Kv.ModRevision)
		}
	}
	return seen
}

// TestWatchSurvivesRestarts checks that a watch delivers every change once and in order over stops
// and kills, including changes made meanwhile.
func TestWatchSurvivesRestarts(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), alone(t)
	client := s.client(t)
	watch := client.Watch(ctx, "k", clientv3.WithPrefix(), clientv3.WithRev(1))
	var wrote []int64
	put := func(key string) {
		wrote = append(wrote, got(client.Put(ctx, key, key))(t).Header.Revision)
	}
	put("k1")
	seen := revisions(t, watch, 1)
	for round, end := range []func(*testing.T){s.stop, s.kill, s.stop} {
		put(fmt.Sprintf("k-before-%d", round))
		end(t)
		s.startAgain(t)
		put(fmt.Sprintf("k-after-%d", round))
	}
	seen = append(seen, revisions(t, watch, len(wrote)-len(seen))...)
	if !slices.Equal(seen, wrote) {
		t.Errorf("got revisions %v, want %v", seen, wrote)
	}
}

// putTimes puts a key this many times, and returns the last revision.
func putTimes(t *testing.T, client *clientv3.Client, times int) int64 {
	t.Helper()
	var last int64
	for range times {
		last = got(client.Put(within(t), "k", "x"))(t).Header.Revision
	}
	return last
}

// compacted expects a cancellation because of a compaction as the last response of a watch.
func compacted(t *testing.T, watch clientv3.WatchChan, at int64) {
	t.Helper()
	response := next(t, watch)
	fails(t, "watch", response.Err(), rpctypes.ErrCompacted)
	equal(t, "compact revision", response.CompactRevision, at)
	ends(t, watch)
}

func TestWatchOfACompactedRevision(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), alone(t)
	client := s.client(t)
	last := putTimes(t, client, 6)
	got(client.Compact(ctx, last))(t)
	compacted(t, client.Watch(ctx, "k", clientv3.WithRev(2)), last)
}

// TestWatchCompactedWhileDisconnected checks that a watch whose next revision was compacted while
// it was disconnected fails when it reconnects.
func TestWatchCompactedWhileDisconnected(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*server, *testing.T){"stop": (*server).stop, "kill": (*server).kill} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, s := within(t), alone(t)
			dialer := &blockableDialer{}
			config := s.config()
			config.DialOptions = append(config.DialOptions, grpc.WithContextDialer(dialer.dial))
			client, other := connect(t, config), s.client(t)
			watch := client.Watch(ctx, "k", clientv3.WithRev(1))
			putTimes(t, other, 3)
			revisions(t, watch, 3)

			dialer.blocked.Store(true)
			end(s, t)
			s.startAgain(t)
			last := putTimes(t, other, 5)
			got(other.Compact(ctx, last))(t)
			dialer.blocked.Store(false)
			client.ActiveConnection().ResetConnectBackoff()
			compacted(t, watch, last)
		})
	}
}

// blockableDialer is a dialer that can be blocked.
type blockableDialer struct{ blocked atomic.Bool }

func (d *blockableDialer) dial(ctx context.Context, addr string) (net.Conn, error) {
	if d.blocked.Load() {
		return nil, errors.New("dialing is blocked")
	}
	return new(net.Dialer).DialContext(ctx, "tcp", addr)
}

func TestWatchOptions(t *testing.T) {
	ctx, client := within(t), shared.client(t)
	prefix := prefixOf(t)
	watch := func(options ...clientv3.OpOption) clientv3.WatchChan {
		return client.Watch(ctx, prefix, append(options, clientv3.WithPrefix(), clientv3.WithCreatedNotify())...)
	}
	puts, deletes, previous := watch(clientv3.WithFilterDelete()), watch(clientv3.WithFilterPut()), watch(clientv3.WithPrevKV())
	for _, created := range []clientv3.WatchChan{puts, deletes, previous} {
		equal(t, "created", next(t, created).Created, true)
	}
	got(client.Put(ctx, prefix+"a", "1"))(t)
	got(client.Put(ctx, prefix+"a", "2"))(t)
	got(client.Delete(ctx, prefix+"a"))(t)
	got(client.Put(ctx, prefix+"a", "3"))(t)

	equal(t, "puts", values(t, puts, 3), "1 2 3")
	deleted := next(t, deletes).Events[0]
	equal(t, "delete", deleted.IsCreate() || deleted.IsModify(), false)
	var before []string
	for len(before) < 4 {
		for _, event := range next(t, previous).Events {
			before = append(before, string(event.PrevKv.GetValue()))
		}
	}
	equal(t, "previous", strings.Join(before, ","), ",1,2,")
}

func values(t *testing.T, watch clientv3.WatchChan, count int) string {
	t.Helper()
	var all []string
	for len(all) < count {
		for _, event := range next(t, watch).Events {
			all = append(all, string(event.Kv.Value))
		}
	}
	return strings.Join(all, " ")
}

func TestWatchProgress(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), alone(t, "--watch-progress-notify-interval=500ms")
	client := s.client(t)
	watch := client.Watch(ctx, "k", clientv3.WithProgressNotify(), clientv3.WithCreatedNotify())
	equal(t, "created", next(t, watch).Created, true)
	last := got(client.Put(ctx, "other", "x"))(t).Header.Revision
	// A notification may be sent before the put.
	for {
		progress := next(t, watch)
		must(t, progress.Err())
		if !progress.IsProgressNotify() || progress.Header.Revision > last {
			t.Fatalf("got %+v, want a progress notification of revision %d", progress, last)
		}
		if progress.Header.Revision == last {
			return
		}
	}
}

// TestWatchProgressOnRequest requests a progress notification from a server that sends its own only
// after minutes.
func TestWatchProgressOnRequest(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), alone(t)
	client := s.client(t)
	watch := client.Watch(ctx, "k", clientv3.WithCreatedNotify())
	equal(t, "created", next(t, watch).Created, true)
	last := got(client.Put(ctx, "other", "x"))(t).Header.Revision
	must(t, client.RequestProgress(ctx))
	progress := next(t, watch)
	equal(t, "progress", progress.IsProgressNotify(), true)
	equal(t, "revision", progress.Header.Revision, last)
}

// TestWatchFromAFutureRevision checks that such a watch delivers no earlier event.
func TestWatchFromAFutureRevision(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), alone(t)
	client := s.client(t)
	now := got(client.Get(ctx, "x"))(t).Header.Revision
	watch := client.Watch(ctx, "k", clientv3.WithRev(now+3))
	for range 5 {
		got(client.Put(ctx, "k", "x"))(t)
	}
	seen := revisions(t, watch, 3)
	equal(t, "first", seen[0], now+3)
}

// TestManyWatchersShareAStream checks watchers that share a stream.
func TestManyWatchersShareAStream(t *testing.T) {
	const watchers, rounds = 200, 5
	ctx, client := within(t), shared.client(t)
	var all []clientv3.WatchChan
	for i := range watchers {
		watch := client.Watch(ctx, fmt.Sprintf("%s%d", prefixOf(t), i%10), clientv3.WithCreatedNotify())
		equal(t, "created", next(t, watch).Created, true)
		all = append(all, watch)
	}
	for round := range rounds {
		for i := range 10 {
			got(client.Put(ctx, fmt.Sprintf("%s%d", prefixOf(t), i), fmt.Sprint(round)))(t)
		}
	}
	for _, watch := range all {
		equal(t, "values", values(t, watch, rounds), "0 1 2 3 4")
	}
}

func TestCanceledWatch(t *testing.T) {
	ctx, cancel := context.WithCancel(within(t))
	client := shared.client(t)
	watch := client.Watch(ctx, prefixOf(t), clientv3.WithCreatedNotify())
	other := client.Watch(within(t), prefixOf(t), clientv3.WithCreatedNotify())
	equal(t, "created", next(t, watch).Created, true)
	equal(t, "created", next(t, other).Created, true)
	cancel()
	ends(t, watch)
	got(client.Put(within(t), prefixOf(t), "x"))(t)
	equal(t, "the other goes on", values(t, other, 1), "x")
}

// TestFragments checks that the client reassembles a transaction that exceeds one response.
func TestFragments(t *testing.T) {
	const keys = 10
	ctx, client := within(t), shared.client(t)
	watch := client.Watch(ctx, prefixOf(t), clientv3.WithPrefix(), clientv3.WithFragment(), clientv3.WithCreatedNotify())
	equal(t, "created", next(t, watch).Created, true)
	for i := range keys {
		got(client.Put(ctx, fmt.Sprintf("%s%d", prefixOf(t), i), strings.Repeat("x", 1<<20)))(t)
	}
	got(client.Delete(ctx, prefixOf(t), clientv3.WithPrefix()))(t)
	equal(t, "events", len(revisions(t, watch, 2*keys)), 2*keys)

	// The same from history, where both transactions are read together.
	again := client.Watch(ctx, prefixOf(t), clientv3.WithPrefix(), clientv3.WithFragment(), clientv3.WithPrevKV(), clientv3.WithRev(1))
	seen := revisions(t, again, 2*keys)
	equal(t, "in order", slices.IsSorted(seen), true)
}
