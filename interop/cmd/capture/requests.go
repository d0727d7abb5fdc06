package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"bowline/interop/internal/cluster"
)

// all sends requests in order and stops at the first error. A request that an election interrupts
// is repeated.
func all(ctx context.Context, c *cluster.Cluster, requests ...func(context.Context, *clientv3.Client) error) error {
	leader, err := c.Leader(ctx)
	if err != nil {
		return err
	}
	return with(ctx, leader, func(ctx context.Context, client *clientv3.Client) error {
		for i, request := range requests {
			if err := ask(ctx, c, func(ctx context.Context) error { return request(ctx, client) }); err != nil {
				return fmt.Errorf("request %d: %w", i, err)
			}
		}
		return nil
	})
}

// executed are the errors of a repeated request whose first attempt was executed, though its
// response was lost.
var executed = []error{
	rpctypes.ErrCompacted, rpctypes.ErrLeaseExist, rpctypes.ErrLeaseNotFound, rpctypes.ErrDowngradeInProcess,
	rpctypes.ErrNoInflightDowngrade, rpctypes.ErrUserAlreadyExist, rpctypes.ErrUserNotFound, rpctypes.ErrRoleAlreadyExist,
	rpctypes.ErrRoleNotFound, rpctypes.ErrRoleNotGranted, rpctypes.ErrPermissionNotGranted,
}

// ask sends a request, and again if an election interrupts it.
func ask(ctx context.Context, c *cluster.Cluster, request func(context.Context) error) error {
	attempts := 0
	return cluster.AcrossElection(ctx, c.Members, func(ctx context.Context) error {
		attempts++
		err := request(ctx)
		// Raw clients return the status of an error.
		known := rpctypes.Error(err)
		if attempts > 1 && slices.ContainsFunc(executed, func(done error) bool { return errors.Is(known, done) }) {
			return nil
		}
		return err
	})
}

func do(op clientv3.Op) func(context.Context, *clientv3.Client) error {
	return func(ctx context.Context, client *clientv3.Client) error {
		_, err := client.Do(ctx, op)
		return err
	}
}

func keys(ctx context.Context, c *cluster.Cluster) error {
	return all(ctx, c,
		do(clientv3.OpPut("a", "1")),
		do(clientv3.OpPut("a", "2", clientv3.WithPrevKV())),
		do(clientv3.OpPut("empty", "")),
		do(clientv3.OpPut("binary\x00\xff", "\x00\x01\xfe\xff")),
		do(clientv3.OpPut("a", "", clientv3.WithIgnoreValue())),
		do(clientv3.OpPut("a", "3", clientv3.WithIgnoreLease())),
		do(clientv3.OpPut("b/1", "x")),
		do(clientv3.OpPut("b/2", "y")),
		do(clientv3.OpDelete("b/1")),
		do(clientv3.OpDelete("b/", clientv3.WithPrefix(), clientv3.WithPrevKV())),
		do(clientv3.OpDelete("absent", clientv3.WithFromKey())),
		do(clientv3.OpPut("a", "4")),
		do(flatTxn()),
		do(nestedTxn()),
		do(clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut("no-compare", "1")}, nil)),
		compact(3),
		compact(5, clientv3.WithCompactPhysical()),
	)
}

// flatTxn compares with every operator and every target.
func flatTxn() clientv3.Op {
	return clientv3.OpTxn(
		[]clientv3.Cmp{
			clientv3.Compare(clientv3.Version("a"), ">", 0),
			clientv3.Compare(clientv3.CreateRevision("absent"), "=", 0),
			clientv3.Compare(clientv3.ModRevision("a"), "<", 1000000),
			clientv3.Compare(clientv3.Value("a"), "!=", "nothing"),
			clientv3.Compare(clientv3.Value("a"), "!=", ""),
			clientv3.Compare(clientv3.LeaseValue("a"), "=", 0),
			clientv3.Compare(clientv3.Version("b/"), "=", 0).WithPrefix(),
		},
		[]clientv3.Op{
			clientv3.OpGet("a"),
			clientv3.OpGet("a", clientv3.WithPrefix(), clientv3.WithLimit(10), clientv3.WithRev(2),
				clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortDescend), clientv3.WithKeysOnly()),
			clientv3.OpGet("\x00", clientv3.WithFromKey(), clientv3.WithCountOnly(), clientv3.WithSerializable()),
			clientv3.OpPut("t/1", "then"),
			clientv3.OpDelete("t/2"),
		},
		[]clientv3.Op{clientv3.OpPut("t/3", "else")},
	)
}

// nestedTxn holds a transaction in each branch.
func nestedTxn() clientv3.Op {
	inner := clientv3.OpTxn(
		[]clientv3.Cmp{clientv3.Compare(clientv3.Value("t/1"), "=", "then")},
		[]clientv3.Op{clientv3.OpPut("t/inner", "deep")},
		nil,
	)
	return clientv3.OpTxn(
		[]clientv3.Cmp{clientv3.Compare(clientv3.Version("a"), "=", 0)},
		[]clientv3.Op{inner},
		[]clientv3.Op{inner, clientv3.OpTxn(nil, nil, nil)},
	)
}

func compact(revision int64, options ...clientv3.CompactOption) func(context.Context, *clientv3.Client) error {
	return func(ctx context.Context, client *clientv3.Client) error {
		_, err := client.Compact(ctx, revision, options...)
		return err
	}
}

func leases(ctx context.Context, c *cluster.Cluster) error {
	raw := func(id, ttl int64) func(context.Context, *clientv3.Client) error {
		return func(ctx context.Context, client *clientv3.Client) error {
			grant := &etcdserverpb.LeaseGrantRequest{ID: id, TTL: ttl}
			_, err := etcdserverpb.NewLeaseClient(client.ActiveConnection()).LeaseGrant(ctx, grant)
			return err
		}
	}
	revoke := func(ctx context.Context, client *clientv3.Client) error {
		_, err := client.Revoke(ctx, 78)
		return err
	}
	return all(ctx, c,
		raw(77, 3600), raw(78, 3600), raw(0, 60), raw(0x7000000000000001, 7200),
		do(clientv3.OpPut("leased/1", "x", clientv3.WithLease(77))),
		do(clientv3.OpPut("leased/2", "y", clientv3.WithLease(78))),
		do(clientv3.OpPut("leased/3", "z", clientv3.WithLease(0x7000000000000001))),
		revoke,
	)
}

// leaseCheckpoint waits for the leader to checkpoint a long lease, which it does every five
// minutes.
func leaseCheckpoint(ctx context.Context, c *cluster.Cluster) error {
	err := all(ctx, c, func(ctx context.Context, client *clientv3.Client) error {
		grant := &etcdserverpb.LeaseGrantRequest{ID: 79, TTL: 3600}
		_, err := etcdserverpb.NewLeaseClient(client.ActiveConnection()).LeaseGrant(ctx, grant)
		return err
	})
	if err != nil {
		return err
	}
	return pause(ctx, 5*time.Minute+20*time.Second)
}

// downgrade starts a downgrade to the previous minor version and cancels it.
func downgrade(ctx context.Context, c *cluster.Cluster) error {
	target := fmt.Sprintf("3.%d.0", c.Binary.Version.Minor-1)
	send := func(action clientv3.DowngradeAction) func(context.Context, *clientv3.Client) error {
		return func(ctx context.Context, client *clientv3.Client) error {
			_, err := client.Downgrade(ctx, action, target)
			if errors.Is(err, rpctypes.ErrTimeout) && !c.Binary.AtLeast(3, 6) {
				// 3.5 applies the request and never responds.
				return nil
			}
			return err
		}
	}
	// A downgrade needs a cluster version, which the members have to agree on first.
	decided := func(ctx context.Context, client *clientv3.Client) error {
		return cluster.Until(ctx, "a cluster version", func(ctx context.Context) error {
			return send(clientv3.DowngradeValidate)(ctx, client)
		})
	}
	return all(ctx, c, decided,
		send(clientv3.DowngradeEnable),
		send(clientv3.DowngradeCancel))
}

// alarms raises alarms and leaves them on, so that the database holds some. It comes last, since
// alarms block nearly all other requests.
func alarms(ctx context.Context, c *cluster.Cluster) error {
	alarm := func(action etcdserverpb.AlarmRequest_AlarmAction, kind etcdserverpb.AlarmType, member uint64) func(context.Context, *clientv3.Client) error {
		return func(ctx context.Context, client *clientv3.Client) error {
			request := &etcdserverpb.AlarmRequest{Action: action, Alarm: kind, MemberID: member}
			_, err := etcdserverpb.NewMaintenanceClient(client.ActiveConnection()).Alarm(ctx, request)
			return err
		}
	}
	const (
		on      = etcdserverpb.AlarmRequest_ACTIVATE
		off     = etcdserverpb.AlarmRequest_DEACTIVATE
		list    = etcdserverpb.AlarmRequest_GET
		noSpace = etcdserverpb.AlarmType_NOSPACE
		corrupt = etcdserverpb.AlarmType_CORRUPT
	)
	first, second := c.Members[0].ID, c.Members[1].ID
	err := all(ctx, c,
		alarm(on, noSpace, first), alarm(on, corrupt, second), alarm(list, etcdserverpb.AlarmType_NONE, 0),
		alarm(off, noSpace, first), alarm(on, noSpace, second), alarm(on, noSpace, 0))
	return errors.Join(err, c.Settle(ctx))
}
