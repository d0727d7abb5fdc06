// Go has etcd's own client do what the programs beside it do with theirs. What
// that client can do besides is tested in interop/clients.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	. "bowline/interop/internal/program"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := Got(connect(ctx, os.Getenv("USERNAME"), os.Getenv("PASSWORD")))
	defer client.Close()
	keys(ctx, client)
	transactions(ctx, client)
	watches(ctx, client)
	leases(ctx, client)
	locks(ctx, client)
	elections(ctx, client)
	failures(ctx, client)
	if Mode() == "auth" {
		users(ctx, client)
		strangers(ctx)
		tokens(ctx, client)
	}
	snapshot(ctx, client)
}

func connect(ctx context.Context, user, password string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Context: ctx, Endpoints: []string{Endpoint()}, DialTimeout: 10 * time.Second, Logger: zap.NewNop(),
		TLS: TLS(), Username: user, Password: password,
	})
}

func keys(ctx context.Context, client *clientv3.Client) {
	Step("put", "revision %d", Got(client.Put(ctx, "r/a", "planted-true")).Header.Revision)
	kv := Got(client.Get(ctx, "r/a")).Kvs[0]
	Step("get", "%s, version %d, created at %d, modified at %d", kv.Value, kv.Version, kv.CreateRevision, kv.ModRevision)
	Step("put again", "was %s", Got(client.Put(ctx, "r/a", "second", clientv3.WithPrevKV())).PrevKv.Value)
	Got(client.Put(ctx, "r/b", "b"))
	Got(client.Put(ctx, "r/c", "c"))
	Step("range", "%s", list(Got(client.Get(ctx, "r/", clientv3.WithPrefix()))))
	Step("last first, two", "%s", list(Got(client.Get(ctx, "r/", clientv3.WithPrefix(), clientv3.WithLimit(2),
		clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend)))))
	Step("in the past", "%s", list(Got(client.Get(ctx, "r/a", clientv3.WithRev(2)))))
	Step("count", "%d", Got(client.Get(ctx, "r/", clientv3.WithPrefix(), clientv3.WithCountOnly())).Count)
	Step("delete", "%d, was %s", Got(client.Delete(ctx, "r/b")).Deleted, Got(client.Delete(ctx, "r/c", clientv3.WithPrevKV())).PrevKvs[0].Value)
	Step("delete nothing", "%d", Got(client.Delete(ctx, "r/z")).Deleted)
}

func list(response *clientv3.GetResponse) string {
	var all []string
	for _, kv := range response.Kvs {
		all = append(all, fmt.Sprintf("%s=%s", kv.Key, kv.Value))
	}
	return fmt.Sprintf("%s; more %t, of %d", strings.Join(all, " "), response.More, response.Count)
}

func transactions(ctx context.Context, client *clientv3.Client) {
	for _, value := range []string{"second", "first"} {
		done := Got(client.Txn(ctx).If(clientv3.Compare(clientv3.Value("r/a"), "=", value)).
			Then(clientv3.OpPut("r/t", "then"), clientv3.OpGet("r/t")).Else(clientv3.OpGet("r/a"), clientv3.OpDelete("r/t")).Commit())
		Step("txn if "+value, "%t, %d answers, revision %d", done.Succeeded, len(done.Responses), done.Header.Revision)
	}
}

func watches(ctx context.Context, client *clientv3.Client) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events := client.Watch(ctx, "r/", clientv3.WithPrefix(), clientv3.WithRev(2), clientv3.WithPrevKV())
	Step("watch from the past", "%s", take(events, 8))
	Got(client.Put(ctx, "r/w", "before"))
	Step("watch", "%s", take(events, 1))
	Ask("restart")
	Got(client.Put(ctx, "r/w", "after"))
	Step("watch after a restart", "%s", take(events, 1))
}

// take waits for some events, which may come in any number of answers.
func take(events clientv3.WatchChan, count int) string {
	var all []string
	for len(all) < count {
		response, open := <-events
		if !open || response.Err() != nil {
			return fmt.Sprintf("%s; ended: %v", strings.Join(all, " "), response.Err())
		}
		for _, event := range response.Events {
			text := fmt.Sprintf("%s %s=%s@%d", event.Type, event.Kv.Key, event.Kv.Value, event.Kv.ModRevision)
			if event.PrevKv != nil {
				text += fmt.Sprintf(" was %s", event.PrevKv.Value)
			}
			all = append(all, text)
		}
	}
	return strings.Join(all, ", ")
}

func leases(ctx context.Context, client *clientv3.Client) {
	lease := Got(client.Grant(ctx, 3))
	put := Got(client.Put(ctx, "r/l", "leased", clientv3.WithLease(lease.ID)))
	left := Got(client.TimeToLive(ctx, lease.ID, clientv3.WithAttachedKeys()))
	Step("lease", "%d s, granted %d s, keys %s", lease.TTL, left.GrantedTTL, left.Keys)
	keeping, cancel := context.WithCancel(ctx)
	alive := Got(client.KeepAlive(keeping, lease.ID))
	for begun := time.Now(); time.Since(begun) < 4*time.Second; {
		<-alive
	}
	Step("kept alive", "%s", list(Got(client.Get(ctx, "r/l"))))
	cancel()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	Step("expired", "%s", take(client.Watch(watching, "r/l", clientv3.WithRev(put.Header.Revision+1)), 1))
	Step("after that", "%d s", Got(client.TimeToLive(ctx, lease.ID)).TTL)
	other := Got(client.Grant(ctx, 100))
	Got(client.Put(ctx, "r/l", "again", clientv3.WithLease(other.ID)))
	Got(client.Revoke(ctx, other.ID))
	Step("revoked", "%d keys", Got(client.Get(ctx, "r/l")).Count)
}

func locks(ctx context.Context, client *clientv3.Client) {
	first, second := Got(concurrency.NewSession(client)), Got(concurrency.NewSession(client))
	mutex, rival := concurrency.NewMutex(first, "lock"), concurrency.NewMutex(second, "lock")
	Must(mutex.Lock(ctx))
	Step("rival", "%v", rival.TryLock(ctx))
	Must(mutex.Unlock(ctx))
	Must(rival.Lock(ctx))
	Step("rival, then", "%t", rival.IsOwner() != clientv3.Cmp{})
	Must(errors.Join(first.Close(), second.Close()))
}

func elections(ctx context.Context, client *clientv3.Client) {
	session := Got(concurrency.NewSession(client))
	election := concurrency.NewElection(session, "election")
	Must(election.Campaign(ctx, "me"))
	Step("leader", "%s", Got(election.Leader(ctx)).Kvs[0].Value)
	Must(election.Proclaim(ctx, "still me"))
	Step("leader, later", "%s", Got(election.Leader(ctx)).Kvs[0].Value)
	Must(election.Resign(ctx))
	_, err := election.Leader(ctx)
	Step("no leader", "%v", err)
	Must(session.Close())
}

func failures(ctx context.Context, client *clientv3.Client) {
	failed := func(name string, err error) {
		var known rpctypes.EtcdError
		if errors.As(err, &known) {
			Step(name, "%s: %s", known.Code(), known.Error())
		} else {
			Step(name, "%v", err)
		}
	}
	_, err := client.Get(ctx, "r/a", clientv3.WithRev(1000))
	failed("future", err)
	Got(client.Compact(ctx, 4))
	_, err = client.Get(ctx, "r/a", clientv3.WithRev(2))
	failed("compacted", err)
	_, err = client.Compact(ctx, 4)
	failed("compacted again", err)
	_, err = client.Put(ctx, "", "x")
	failed("no key", err)
	_, err = client.Put(ctx, "r/x", "x", clientv3.WithLease(1234))
	failed("no lease", err)
	_, err = client.Revoke(ctx, 1234)
	failed("no lease to revoke", err)
	_, err = client.Txn(ctx).Then(clientv3.OpPut("r/x", "1"), clientv3.OpPut("r/x", "2")).Commit()
	failed("twice", err)
	_, err = client.Put(ctx, "r/x", strings.Repeat("x", 1600<<10))
	failed("too large", err)
	watch := <-client.Watch(ctx, "r/a", clientv3.WithRev(2))
	Step("watch the compacted", "%v, compacted at %d", watch.Err(), watch.CompactRevision)
}

func users(ctx context.Context, client *clientv3.Client) {
	Got(client.RoleAdd(ctx, "worker"))
	Got(client.RoleGrantPermission(ctx, "worker", "w/", "w0", clientv3.PermissionType(clientv3.PermReadWrite)))
	Got(client.UserAdd(ctx, "ann", "first"))
	Got(client.UserGrantRole(ctx, "ann", "worker"))
	_, err := client.UserAdd(ctx, "ann", "first")
	Step("user twice", "%v", err)
	Step("users", "%v, roles %v, ann has %v", Got(client.UserList(ctx)).Users, Got(client.RoleList(ctx)).Roles, Got(client.UserGet(ctx, "ann")).Roles)
	perm := Got(client.RoleGet(ctx, "worker")).Perm[0]
	Step("role", "%s %s to %s", perm.PermType, perm.Key, perm.RangeEnd)
	ann := Got(connect(ctx, "ann", "first"))
	defer ann.Close()
	Got(ann.Put(ctx, "w/1", "x"))
	_, err = ann.Put(ctx, "r/1", "x")
	Step("beyond", "%v", err)
	Got(client.UserChangePassword(ctx, "ann", "second"))
	_, err = ann.Put(ctx, "w/1", "x")
	Step("old password", "%v", err)
	Got(client.UserDelete(ctx, "ann"))
	Got(client.RoleDelete(ctx, "worker"))
}

func strangers(ctx context.Context) {
	nobody := Got(connect(ctx, "", ""))
	defer nobody.Close()
	_, err := nobody.Get(ctx, "r/a")
	Step("nobody", "%v", err)
	_, err = connect(ctx, "root", "wrong")
	Step("wrong password", "%v", err)
	reader := Got(connect(ctx, os.Getenv("READER"), os.Getenv("READER_PASSWORD")))
	defer reader.Close()
	Step("reader", "%s", list(Got(reader.Get(ctx, "r/a"))))
	_, err = reader.Put(ctx, "r/a", "x")
	Step("reader puts", "%v", err)
	watch := <-reader.Watch(ctx, "w/", clientv3.WithPrefix())
	Step("reader watches", "%v", watch.Err())
}

// tokens run out, and the client gets new ones without a word.
func tokens(ctx context.Context, client *clientv3.Client) {
	Ask("expire")
	Got(client.Put(ctx, "r/a", "renewed"))
	Step("token renewed", "%s", list(Got(client.Get(ctx, "r/a"))))
}

func snapshot(ctx context.Context, client *clientv3.Client) {
	path := filepath.Join(os.Getenv("WORKDIR"), "snapshot.db")
	stream := Got(client.SnapshotWithVersion(ctx))
	file := Got(os.Create(path))
	Got(io.Copy(file, stream.Snapshot))
	Must(file.Close())
	Step("snapshot", "%s", Ask("status "+path))
}
