package clients

import (
	"fmt"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestRangeStream checks that RangeStream returns the same keys as a range.
func TestRangeStream(t *testing.T) {
	const keys = 5000
	ctx, client := within(t), shared.client(t)
	fill(t, client, prefixOf(t), keys)
	whole := got(client.Get(ctx, prefixOf(t), clientv3.WithPrefix()))(t)
	pieces := got(client.GetStream(ctx, prefixOf(t), clientv3.WithPrefix()))(t)
	together := got(clientv3.GetStreamToGetResponse(pieces))(t)
	equal(t, "count", together.Count, whole.Count)
	equal(t, "keys", len(together.Kvs), keys)
	equal(t, "more", together.More, false)
	equal(t, "revision", together.Header.Revision, whole.Header.Revision)
	for i, kv := range together.Kvs {
		if string(kv.Key) != string(whole.Kvs[i].Key) || string(kv.Value) != string(whole.Kvs[i].Value) {
			t.Fatalf("key %d: got %v, want %v", i, kv, whole.Kvs[i])
		}
	}

	failing := got(client.GetStream(ctx, prefixOf(t), clientv3.WithPrefix(), clientv3.WithRev(1<<40)))(t)
	_, err := clientv3.GetStreamToGetResponse(failing)
	fails(t, "future revision", err, rpctypes.ErrFutureRev)
}

// TestPages reads a large prefix page by page at one revision, while it changes.
func TestPages(t *testing.T) {
	const keys, page = 3000, 500
	ctx, client := within(t), shared.client(t)
	fill(t, client, prefixOf(t), keys)
	end := clientv3.GetPrefixRangeEnd(prefixOf(t))
	from, revision, seen := prefixOf(t), int64(0), 0
	for {
		read := got(client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(page), clientv3.WithRev(revision)))(t)
		seen += len(read.Kvs)
		if !read.More {
			break
		}
		if revision == 0 {
			revision = read.Header.Revision
		}
		got(client.Delete(ctx, fmt.Sprintf("%s%06d", prefixOf(t), seen)))(t)
		from = string(read.Kvs[len(read.Kvs)-1].Key) + "\x00"
	}
	equal(t, "seen", seen, keys)
}

func TestKubernetes(t *testing.T) {
	ctx := within(t)
	client := got(kubernetes.New(shared.config()))(t)
	defer client.Close()
	key := prefixOf(t) + "pods/one"
	created := got(client.Kubernetes.OptimisticPut(ctx, key, []byte("1"), 0, kubernetes.PutOptions{}))(t)
	equal(t, "created", created.Succeeded, true)
	again := got(client.Kubernetes.OptimisticPut(ctx, key, []byte("2"), 0, kubernetes.PutOptions{GetOnFailure: true}))(t)
	equal(t, "created again", again.Succeeded, false)
	equal(t, "what is there", string(again.KV.Value), "1")
	changed := got(client.Kubernetes.OptimisticPut(ctx, key, []byte("2"), created.Revision, kubernetes.PutOptions{}))(t)
	equal(t, "changed", changed.Succeeded, true)
	equal(t, "old", string(got(client.Kubernetes.Get(ctx, key, kubernetes.GetOptions{Revision: created.Revision}))(t).KV.Value), "1")
	for _, name := range []string{"two", "three", "four"} {
		got(client.Kubernetes.OptimisticPut(ctx, prefixOf(t)+"pods/"+name, nil, 0, kubernetes.PutOptions{}))(t)
	}
	listed := got(client.Kubernetes.List(ctx, prefixOf(t)+"pods/", kubernetes.ListOptions{Limit: 2}))(t)
	equal(t, "listed", len(listed.Kvs), 2)
	equal(t, "of", listed.Count, 4)
	rest := got(client.Kubernetes.List(ctx, prefixOf(t)+"pods/", kubernetes.ListOptions{
		Continue: string(listed.Kvs[1].Key) + "\x00", Revision: listed.Revision,
	}))(t)
	equal(t, "the rest", len(rest.Kvs), 2)
	equal(t, "counted", got(client.Kubernetes.Count(ctx, prefixOf(t), kubernetes.CountOptions{}))(t), 4)
	refused := got(client.Kubernetes.OptimisticDelete(ctx, key, created.Revision, kubernetes.DeleteOptions{GetOnFailure: true}))(t)
	equal(t, "deleted what changed", refused.Succeeded, false)
	equal(t, "to this", string(refused.KV.Value), "2")
	gone := got(client.Kubernetes.OptimisticDelete(ctx, key, changed.Revision, kubernetes.DeleteOptions{}))(t)
	equal(t, "deleted", gone.Succeeded, true)
}

func TestRefusedRequests(t *testing.T) {
	ctx, client := within(t), shared.client(t)
	_, err := client.Put(ctx, prefixOf(t), strings.Repeat("x", 1600<<10))
	fails(t, "too large", err, rpctypes.ErrRequestTooLarge)
	_, err = client.Put(ctx, prefixOf(t), strings.Repeat("x", 3<<20))
	equal(t, "beyond what a client sends", status.Code(err), codes.ResourceExhausted)
	many := make([]clientv3.Op, 129)
	for i := range many {
		many[i] = clientv3.OpPut(fmt.Sprint(prefixOf(t), i), "")
	}
	_, err = client.Txn(ctx).Then(many...).Commit()
	fails(t, "too many operations", err, rpctypes.ErrTooManyOps)
	_, err = client.Txn(ctx).Then(clientv3.OpPut("d", "1"), clientv3.OpPut("d", "2")).Commit()
	fails(t, "duplicate key", err, rpctypes.ErrDuplicateKey)
	_, err = client.Get(ctx, "")
	fails(t, "no key", err, rpctypes.ErrEmptyKey)
	_, err = client.Get(ctx, "x", clientv3.WithRev(1<<40))
	fails(t, "future", err, rpctypes.ErrFutureRev)
	_, err = client.Compact(ctx, 1<<40)
	fails(t, "compact the future", err, rpctypes.ErrFutureRev)
}

// TestLargeMessages sends messages up to the server's limits, in both directions.
func TestLargeMessages(t *testing.T) {
	ctx, client := within(t), shared.client(t)
	large := strings.Repeat("x", 1<<20)
	for i := range 20 {
		got(client.Put(ctx, fmt.Sprint(prefixOf(t), i), large))(t)
	}
	read := got(client.Get(ctx, prefixOf(t), clientv3.WithPrefix()))(t)
	equal(t, "keys", len(read.Kvs), 20)
	equal(t, "bytes", len(read.Kvs[19].Value), len(large))
	equal(t, "deleted", got(client.Delete(ctx, prefixOf(t), clientv3.WithPrefix(), clientv3.WithPrevKV()))(t).Deleted, 20)
}

// TestReadsAreRetried checks that reads during a restart succeed once the server is back.
func TestReadsAreRetried(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), alone(t)
	client := s.client(t)
	got(client.Put(ctx, "k", "x"))(t)
	s.kill(t)
	begun, read := make(chan struct{}), make(chan error)
	for range 5 {
		go func() {
			begun <- struct{}{}
			_, err := client.Get(ctx, "k")
			read <- err
		}()
		next(t, begun)
	}
	s.startAgain(t)
	for range 5 {
		must(t, next(t, read))
	}
}
