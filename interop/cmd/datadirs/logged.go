package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"bowline/interop/internal/cluster"
)

// loggedEntries exceeds the number of entries in this run, so that no snapshot is taken and the log
// starts at the first entry.
const loggedEntries = "--snapshot-count=100000"

// logged writes every kind of entry to a log that is kept from its first entry. Applying the log
// must produce the databases of the members.
var logged = []step{
	{"mixed writes", mixed},
	{"leases", with(leases)},
	{"a lease that ends by itself", with(expire)},
	{"auth on", with(authOn)},
	{"work as users", workAsUsers},
	{"changes to users", as("root", "pw", changeUsers)},
	{"auth off", as("root", "pw", authOff)},
	{"compaction", with(compact)},
	{"a downgrade that is called off", with(downgrade)},
	{"a learner joins", addLearner},
	{"it is promoted and removed", promoteAndRemove},
	{"a member that never starts", with(addAndRemove)},
	{"an alarm by hand", with(corrupt)},
	{"fill", with(fill)},
	{"compaction", with(compact)},
	{"defragmentation", defragmentAll},
	{"disarm", with(disarmAll)},
	{"mixed writes", mixed},
	{"agreement", func(ctx context.Context, c *cluster.Cluster) error { return c.Settle(ctx) }},
	{"stop", stop},
}

// mixed writes to shared keys through all members concurrently. An election makes writes
// unavailable, some of which are in the log nevertheless; the log decides, not the responses.
func mixed(ctx context.Context, c *cluster.Cluster) error {
	var group sync.WaitGroup
	errs := make([]error, len(c.Members))
	for i, m := range c.Members {
		group.Go(func() {
			errs[i] = m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error { return writes(ctx, client, i) })
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func writes(ctx context.Context, client *clientv3.Client, writer int) error {
	for i := range 60 {
		key := fmt.Sprintf("mixed/%d", i%7)
		_, putErr := client.Put(ctx, key, fmt.Sprintf("writer %d, value %d", writer, i))
		_, txnErr := client.Txn(ctx).
			If(clientv3.Compare(clientv3.Version(key), ">", 2)).
			Then(clientv3.OpDelete(key), clientv3.OpGet("mixed/", clientv3.WithPrefix())).
			Else(clientv3.OpTxn(
				[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "!=", 0)},
				[]clientv3.Op{clientv3.OpPut(key+"/inner", "then"), clientv3.OpPut("mixed/last", key)},
				[]clientv3.Op{clientv3.OpDelete("mixed/", clientv3.WithPrefix())},
			)).
			Commit()
		for _, err := range []error{putErr, txnErr} {
			if err != nil && !cluster.IsUnavailable(err) {
				return err
			}
		}
	}
	return nil
}

// expire waits until a lease expires and its keys are deleted.
func expire(ctx context.Context, client *clientv3.Client) error {
	granted, err := client.Grant(ctx, 5)
	if err != nil {
		return err
	}
	for _, key := range []string{"expiring/1", "expiring/2"} {
		if _, err := client.Put(ctx, key, "short", clientv3.WithLease(granted.ID)); err != nil {
			return err
		}
	}
	return cluster.Until(ctx, "the lease to expire", func(ctx context.Context) error {
		left, err := client.Get(ctx, "expiring/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err == nil && left.Count > 0 {
			err = errors.New("the keys of the lease still exist")
		}
		return err
	})
}

// workAsUsers also sends requests that are refused, which leave entries without effect.
func workAsUsers(ctx context.Context, c *cluster.Cluster) error {
	return c.Members[0].DoAs(ctx, "ann", "secret", func(ctx context.Context, client *clientv3.Client) error {
		for i := range 10 {
			if _, err := client.Put(ctx, fmt.Sprintf("ann/%d", i), "hers"); err != nil {
				return err
			}
		}
		_, putErr := client.Put(ctx, "not hers", "x")
		_, txnErr := client.Txn(ctx).Then(clientv3.OpPut("ann/1", "x"), clientv3.OpDelete("not hers")).Commit()
		_, revokeErr := client.Revoke(ctx, 1003)
		for _, err := range []error{putErr, txnErr, revokeErr} {
			if !errors.Is(err, rpctypes.ErrPermissionDenied) {
				return fmt.Errorf("expected a refusal, got %w", err)
			}
		}
		return nil
	})
}

func changeUsers(ctx context.Context, client *clientv3.Client) error {
	readOnly := clientv3.PermissionType(clientv3.PermRead)
	for i, request := range []func() error{
		func() error { _, err := client.UserChangePassword(ctx, "ann", "other"); return err },
		func() error { _, err := client.RoleRevokePermission(ctx, "worker", "a", ""); return err },
		func() error {
			_, err := client.RoleGrantPermission(ctx, "worker", "ann/", "ann0", readOnly)
			return err
		},
		func() error { _, err := client.RoleGrantPermission(ctx, "worker", "z", "\x00", readOnly); return err },
		func() error { _, err := client.RoleAdd(ctx, "gone"); return err },
		func() error { _, err := client.UserGrantRole(ctx, "ann", "gone"); return err },
		func() error { _, err := client.UserGrantRole(ctx, "cert", "worker"); return err },
		func() error { _, err := client.RoleDelete(ctx, "gone"); return err },
		func() error { _, err := client.UserRevokeRole(ctx, "cert", "worker"); return err },
		func() error { _, err := client.UserAdd(ctx, "bob", "gone"); return err },
		func() error { _, err := client.UserDelete(ctx, "bob"); return err },
	} {
		if err := request(); err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
	}
	return nil
}

// downgrade starts and cancels a downgrade, unless the version does not support it.
func downgrade(ctx context.Context, client *clientv3.Client) error {
	status, err := client.Status(ctx, client.Endpoints()[0])
	if err != nil {
		return err
	}
	var major, minor int
	if _, err := fmt.Sscanf(status.Version, "%d.%d.", &major, &minor); err != nil {
		return err
	}
	if minor < 6 {
		return nil
	}
	err = cluster.Until(ctx, "the acceptance of the downgrade", func(ctx context.Context) error {
		_, err := client.Downgrade(ctx, clientv3.DowngradeAction(etcdserverpb.DowngradeRequest_ENABLE), fmt.Sprintf("%d.%d.0", major, minor-1))
		return err
	})
	if err != nil {
		return err
	}
	_, err = client.Downgrade(ctx, clientv3.DowngradeAction(etcdserverpb.DowngradeRequest_CANCEL), "")
	return err
}

// promoteAndRemove promotes and then removes the learner that joined last.
func promoteAndRemove(ctx context.Context, c *cluster.Cluster) error {
	learner := c.Members[len(c.Members)-1]
	err := c.Members[0].Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		err := cluster.Until(ctx, "the learner to be promoted", func(ctx context.Context) error {
			_, err := client.MemberPromote(ctx, learner.ID)
			return err
		})
		if err != nil {
			return err
		}
		if err := c.Settle(ctx); err != nil {
			return err
		}
		return cluster.RemoveMember(ctx, client, learner.ID)
	})
	if err != nil {
		return err
	}
	if err := c.Retire(learner); err != nil {
		return err
	}
	return c.Settle(ctx)
}

// corrupt raises the CORRUPT alarm, which blocks writes, and disarms it.
func corrupt(ctx context.Context, client *clientv3.Client) error {
	alarm := func(action etcdserverpb.AlarmRequest_AlarmAction) error {
		_, err := etcdserverpb.NewMaintenanceClient(client.ActiveConnection()).Alarm(ctx, &etcdserverpb.AlarmRequest{
			Action: action, Alarm: etcdserverpb.AlarmType_CORRUPT, MemberID: 7,
		})
		return err
	}
	if err := alarm(etcdserverpb.AlarmRequest_ACTIVATE); err != nil {
		return err
	}
	if _, err := client.Put(ctx, "refused", "x"); err == nil || !strings.Contains(err.Error(), "corrupt") {
		return fmt.Errorf("expected a refusal, got %w", err)
	}
	return alarm(etcdserverpb.AlarmRequest_DEACTIVATE)
}

func defragmentAll(ctx context.Context, c *cluster.Cluster) error {
	for _, m := range c.Members {
		err := m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
			_, err := client.Defragment(ctx, m.Endpoint())
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// disarmAll retries, because a member may raise its alarm after another one was disarmed.
func disarmAll(ctx context.Context, client *clientv3.Client) error {
	return cluster.Until(ctx, "all alarms to be disarmed", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		return disarm(ctx, client)
	})
}
