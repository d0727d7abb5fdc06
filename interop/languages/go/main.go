// Go runs the steps of the language programs with etcd's own client. interop/clients tests its
// other features.
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

	"bowline/interop/internal/program"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := program.Got(connect(ctx, os.Getenv("USERNAME"), os.Getenv("PASSWORD")))
	defer client.Close()
	keys(ctx, client)
	transactions(ctx, client)
	if !program.IsBrief() {
		watches(ctx, client)
		leases(ctx, client)
		locks(ctx, client)
		elections(ctx, client)
		failures(ctx, client)
	}
	if program.HasUsers() {
		if !program.IsBrief() {
			users(ctx, client)
		}
		strangers(ctx)
		tokens(ctx, client)
	}
	snapshot(ctx, client)
}

func connect(ctx context.Context, user, password string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Context: ctx, Endpoints: []string{program.Endpoint()}, DialTimeout: 10 * time.Second, Logger: zap.NewNop(),
		TLS: program.TLS(), Username: user, Password: password,
	})
}

func keys(ctx context.Context, client *clientv3.Client) {
	program.Step("put", "revision %d", program.Got(client.Put(ctx, "r/a", "planted-true")).Header.Revision)
	kv := program.Got(client.Get(ctx, "r/a")).Kvs[0]
	program.Step("get", "%s, version %d, created at %d, modified at %d", kv.Value, kv.Version, kv.CreateRevision, kv.ModRevision)
	program.Step("put again", "was %s", program.Got(client.Put(ctx, "r/a", "second", clientv3.WithPrevKV())).PrevKv.Value)
	program.Got(client.Put(ctx, "r/b", "b"))
	program.Got(client.Put(ctx, "r/c", "c"))
	program.Step("range", "%s", list(program.Got(client.Get(ctx, "r/", clientv3.WithPrefix()))))
	program.Step("last first, two", "%s", list(program.Got(client.Get(ctx, "r/", clientv3.WithPrefix(), clientv3.WithLimit(2),
		clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend)))))
	program.Step("in the past", "%s", list(program.Got(client.Get(ctx, "r/a", clientv3.WithRev(2)))))
	program.Step("count", "%d", program.Got(client.Get(ctx, "r/", clientv3.WithPrefix(), clientv3.WithCountOnly())).Count)
	program.Step("delete", "%d, was %s", program.Got(client.Delete(ctx, "r/b")).Deleted, program.Got(client.Delete(ctx, "r/c", clientv3.WithPrevKV())).PrevKvs[0].Value)
	program.Step("delete nothing", "%d", program.Got(client.Delete(ctx, "r/z")).Deleted)
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
		done := program.Got(client.Txn(ctx).If(clientv3.Compare(clientv3.Value("r/a"), "=", value)).
			Then(clientv3.OpPut("r/t", "then"), clientv3.OpGet("r/t")).Else(clientv3.OpGet("r/a"), clientv3.OpDelete("r/t")).Commit())
		program.Step("txn if "+value, "%t, %d answers, revision %d", done.Succeeded, len(done.Responses), done.Header.Revision)
	}
}

func watches(ctx context.Context, client *clientv3.Client) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events := client.Watch(ctx, "r/", clientv3.WithPrefix(), clientv3.WithRev(2), clientv3.WithPrevKV())
	program.Step("watch from the past", "%s", take(events, 8))
	program.Got(client.Put(ctx, "r/w", "before"))
	program.Step("watch", "%s", take(events, 1))
	program.Ask("restart")
	program.Got(client.Put(ctx, "r/w", "after"))
	program.Step("watch after a restart", "%s", take(events, 1))
}

// take waits for some events, in any number of responses.
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
	lease := program.Got(client.Grant(ctx, 6))
	put := program.Got(client.Put(ctx, "r/l", "leased", clientv3.WithLease(lease.ID)))
	left := program.Got(client.TimeToLive(ctx, lease.ID, clientv3.WithAttachedKeys()))
	program.Step("lease", "%d s, granted %d s, keys %s", lease.TTL, left.GrantedTTL, left.Keys)
	keeping, cancel := context.WithCancel(ctx)
	alive := program.Got(client.KeepAlive(keeping, lease.ID))
	for begun := time.Now(); time.Since(begun) < 8*time.Second; {
		<-alive
	}
	program.Step("kept alive", "%s", list(program.Got(client.Get(ctx, "r/l"))))
	cancel()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	program.Step("expired", "%s", take(client.Watch(watching, "r/l", clientv3.WithRev(put.Header.Revision+1)), 1))
	program.Step("after that", "%d s", program.Got(client.TimeToLive(ctx, lease.ID)).TTL)
	other := program.Got(client.Grant(ctx, 100))
	program.Got(client.Put(ctx, "r/l", "again", clientv3.WithLease(other.ID)))
	program.Got(client.Revoke(ctx, other.ID))
	program.Step("revoked", "%d keys", program.Got(client.Get(ctx, "r/l")).Count)
}

func locks(ctx context.Context, client *clientv3.Client) {
	first, second := program.Got(concurrency.NewSession(client)), program.Got(concurrency.NewSession(client))
	mutex, rival := concurrency.NewMutex(first, "lock"), concurrency.NewMutex(second, "lock")
	program.Must(mutex.Lock(ctx))
	program.Step("rival", "%v", rival.TryLock(ctx))
	program.Must(mutex.Unlock(ctx))
	program.Must(rival.Lock(ctx))
	program.Step("rival, then", "%t", rival.IsOwner() != clientv3.Cmp{})
	program.Must(errors.Join(first.Close(), second.Close()))
}

func elections(ctx context.Context, client *clientv3.Client) {
	session := program.Got(concurrency.NewSession(client))
	election := concurrency.NewElection(session, "election")
	program.Must(election.Campaign(ctx, "me"))
	program.Step("leader", "%s", program.Got(election.Leader(ctx)).Kvs[0].Value)
	program.Must(election.Proclaim(ctx, "still me"))
	program.Step("leader, later", "%s", program.Got(election.Leader(ctx)).Kvs[0].Value)
	program.Must(election.Resign(ctx))
	_, err := election.Leader(ctx)
	program.Step("no leader", "%v", err)
	program.Must(session.Close())
}

func failures(ctx context.Context, client *clientv3.Client) {
	failed := func(name string, err error) {
		var known rpctypes.EtcdError
		if errors.As(err, &known) {
			program.Step(name, "%s: %s", known.Code(), known.Error())
		} else {
			program.Step(name, "%v", err)
		}
	}
	_, err := client.Get(ctx, "r/a", clientv3.WithRev(1000))
	failed("future", err)
	program.Got(client.Compact(ctx, 4))
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
	program.Step("watch the compacted", "%v, compacted at %d", watch.Err(), watch.CompactRevision)
}

func users(ctx context.Context, client *clientv3.Client) {
	program.Got(client.RoleAdd(ctx, "worker"))
	program.Got(client.RoleGrantPermission(ctx, "worker", "w/", "w0", clientv3.PermissionType(clientv3.PermReadWrite)))
	program.Got(client.UserAdd(ctx, "ann", "first"))
	program.Got(client.UserGrantRole(ctx, "ann", "worker"))
	_, err := client.UserAdd(ctx, "ann", "first")
	program.Step("user twice", "%v", err)
	program.Step("users", "%v, roles %v, ann has %v", program.Got(client.UserList(ctx)).Users, program.Got(client.RoleList(ctx)).Roles, program.Got(client.UserGet(ctx, "ann")).Roles)
	perm := program.Got(client.RoleGet(ctx, "worker")).Perm[0]
	program.Step("role", "%s %s to %s", perm.PermType, perm.Key, perm.RangeEnd)
	ann := program.Got(connect(ctx, "ann", "first"))
	defer ann.Close()
	program.Got(ann.Put(ctx, "w/1", "x"))
	_, err = ann.Put(ctx, "r/1", "x")
	program.Step("beyond", "%v", err)
	program.Got(client.UserChangePassword(ctx, "ann", "second"))
	_, err = ann.Put(ctx, "w/1", "x")
	program.Step("old password", "%v", err)
	program.Got(client.UserDelete(ctx, "ann"))
	program.Got(client.RoleDelete(ctx, "worker"))
}

func strangers(ctx context.Context) {
	anonymous := program.Got(connect(ctx, "", ""))
	defer anonymous.Close()
	_, err := anonymous.Get(ctx, "r/a")
	program.Step("nobody", "%v", err)
	_, err = anonymous.Put(ctx, "r/a", "x")
	program.Step("nobody puts", "%v", err)
	_, err = connect(ctx, "root", "wrong")
	program.Step("wrong password", "%v", err)
	reader := program.Got(connect(ctx, os.Getenv("READER"), os.Getenv("READER_PASSWORD")))
	defer reader.Close()
	program.Step("reader", "%s", list(program.Got(reader.Get(ctx, "r/a"))))
	_, err = reader.Put(ctx, "r/a", "x")
	program.Step("reader puts", "%v", err)
	watch := <-reader.Watch(ctx, "w/", clientv3.WithPrefix())
	program.Step("reader watches", "%v", watch.Err())
}

// tokens checks that the client renews expired tokens transparently.
func tokens(ctx context.Context, client *clientv3.Client) {
	program.Ask("expire")
	program.Got(client.Put(ctx, "r/a", "renewed"))
	program.Step("token renewed", "%s", list(program.Got(client.Get(ctx, "r/a"))))
}

func snapshot(ctx context.Context, client *clientv3.Client) {
	path := filepath.Join(os.Getenv("WORKDIR"), "snapshot.db")
	stream := program.Got(client.SnapshotWithVersion(ctx))
	file := program.Got(os.Create(path))
	program.Got(io.Copy(file, stream.Snapshot))
	program.Must(file.Close())
	program.Step("snapshot", "%s", program.Ask("status "+path))
}
