package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"bowline/interop/internal/cluster"
	"bowline/interop/internal/workload"
)

const (
	root         = "root"
	rootPassword = "pw"
	// storageVersion is the storage version that etcd 3.7 writes.
	storageVersion = "3.7.0"
)

// change alters every kind of state in one turn. It first clears alarms and disables auth, which
// would block the other steps.
func (p *play) change(ctx context.Context) error {
	for _, step := range []struct {
		name string
		do   func(context.Context) error
		when bool
	}{
		{"disarm", p.disarm, true},
		{"auth off", p.authOff, p.locked},
		{"keys", p.changeKeys, true},
		{"leases", p.changeLeases, true},
		{"users", p.changeUsers, true},
		{"members", p.changeMembers, p.turns%2 == 1},
		{"compaction", p.compact, p.turns%3 != 1},
		{"defragmentation", p.defragment, p.turns%4 == 3},
		{"some more keys", p.changeKeys, true},
		{"storage version", p.upToDate, true},
		{"auth on", p.authOn, p.turns%4 >= 2},
		{"alarm", p.alarm, p.turns%3 == 1},
	} {
		if !step.when {
			continue
		}
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// changeKeys puts and deletes keys, in single requests and in transactions.
func (p *play) changeKeys(ctx context.Context) error {
	random := workload.SeededRound(p.seed, p.turns)
	key := func() string { return fmt.Sprintf("key/%03d", random.Next()%200) }
	for range 60 {
		value := string(workload.Fill(random.Next(), random.Next()%300))
		var err error
		switch random.Next() % 10 {
		case 0:
			_, err = p.client.Delete(ctx, key())
		case 1:
			_, err = p.client.Delete(ctx, key(), clientv3.WithRange(key()))
		case 2, 3:
			_, err = p.client.Txn(ctx).
				If(clientv3.Compare(clientv3.Version(key()), ">", 0)).
				Then(clientv3.OpPut("txn/then", value), clientv3.OpPut(key(), value), clientv3.OpDelete("txn/else")).
				Else(clientv3.OpPut("txn/else", value), clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut(key(), value)}, nil)).
				Commit()
		default:
			_, err = p.client.Put(ctx, key(), value)
		}
		if err != nil {
			return err
		}
	}
	_, err := p.client.Put(ctx, fmt.Sprintf("large/%d", p.turns%3), strings.Repeat(fmt.Sprint(p.turns), 1<<20))
	return err
}

// firstLease is larger than the lease ids of the initial directories.
const firstLease = 1 << 20

// changeLeases grants leases that outlive the turn, renews one lease of the previous turn and
// revokes another.
func (p *play) changeLeases(ctx context.Context) error {
	lease := pb.NewLeaseClient(p.client.ActiveConnection())
	for i := range 3 {
		id := int64(firstLease + 1000*(p.turns+1) + i)
		if _, err := lease.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: id, TTL: 10000 + id}); err != nil {
			return err
		}
		for k := range i + 1 {
			if _, err := p.client.Put(ctx, fmt.Sprintf("leased/%d/%d", id, k), "x", clientv3.WithLease(clientv3.LeaseID(id))); err != nil {
				return err
			}
		}
	}
	if p.turns == 0 {
		return nil
	}
	last := clientv3.LeaseID(firstLease + 1000*p.turns)
	_, renewErr := p.client.KeepAliveOnce(ctx, last+2)
	_, revokeErr := p.client.Revoke(ctx, last+1)
	return errors.Join(renewErr, revokeErr)
}

// changeUsers adds a user and a role in each turn, and deletes users and roles of earlier turns
// step by step.
func (p *play) changeUsers(ctx context.Context) error {
	user, role := fmt.Sprintf("user-%d", p.turns), fmt.Sprintf("role-%d", p.turns)
	var errs [8]error
	_, errs[0] = p.client.UserAdd(ctx, user, "secret")
	_, errs[1] = p.client.RoleAdd(ctx, role)
	_, errs[2] = p.client.RoleGrantPermission(ctx, role, "key/", "key0", clientv3.PermissionType(authpb.Permission_Type(p.turns%3)))
	_, errs[3] = p.client.RoleGrantPermission(ctx, role, "single", "", clientv3.PermissionType(clientv3.PermRead))
	_, errs[4] = p.client.UserGrantRole(ctx, user, role)
	if p.turns >= 2 {
		_, errs[5] = p.client.UserRevokeRole(ctx, fmt.Sprintf("user-%d", p.turns-1), fmt.Sprintf("role-%d", p.turns-1))
		_, errs[6] = p.client.UserDelete(ctx, fmt.Sprintf("user-%d", p.turns-2))
		_, errs[7] = p.client.RoleRevokePermission(ctx, fmt.Sprintf("role-%d", p.turns-1), "single", "")
	}
	return errors.Join(errs[:]...)
}

// changeMembers adds a learner that is never started, or removes it.
func (p *play) changeMembers(ctx context.Context) error {
	if p.learner != 0 {
		_, err := p.client.MemberRemove(ctx, p.learner)
		p.learner = 0
		return err
	}
	added, err := p.client.MemberAddAsLearner(ctx, []string{fmt.Sprintf("http://127.0.0.1:%d", 1+p.turns)})
	if err == nil {
		p.learner = added.Member.ID
	}
	return err
}

// compact keeps the last 100 revisions, or compacts one revision more if fewer are left.
func (p *play) compact(ctx context.Context) error {
	now, err := p.client.Get(ctx, "x")
	if err != nil {
		return err
	}
	_, err = p.client.Compact(ctx, max(now.Header.Revision-100, p.known.compacted+1, 1), clientv3.WithCompactPhysical())
	return err
}

func (p *play) defragment(ctx context.Context) error {
	_, err := p.client.Defragment(ctx, p.cluster.Members[0].Endpoint())
	return err
}

// upToDate waits until the storage version is current; servers update it in the background.
func (p *play) upToDate(ctx context.Context) error {
	return cluster.Until(ctx, "the storage version", func(ctx context.Context) error {
		state, err := p.client.Status(ctx, p.cluster.Members[0].Endpoint())
		if err == nil && state.StorageVersion != storageVersion {
			err = fmt.Errorf("the storage version is %q", state.StorageVersion)
		}
		return err
	})
}

// authOn enables auth, and creates root if it does not exist.
func (p *play) authOn(ctx context.Context) error {
	all, err := p.client.UserList(ctx)
	if err != nil {
		return err
	}
	if !strings.Contains(strings.Join(all.Users, " ")+" ", root+" ") {
		_, userErr := p.client.UserAdd(ctx, root, rootPassword)
		_, roleErr := p.client.RoleAdd(ctx, root)
		_, grantErr := p.client.UserGrantRole(ctx, root, root)
		if err := errors.Join(userErr, roleErr, grantErr); err != nil {
			return err
		}
	}
	if _, err := p.client.UserChangePassword(ctx, root, rootPassword); err != nil {
		return err
	}
	if _, err := p.client.AuthEnable(ctx); err != nil {
		return err
	}
	p.locked = true
	return p.login()
}

func (p *play) authOff(ctx context.Context) error {
	if _, err := p.client.AuthDisable(ctx); err != nil {
		return err
	}
	p.locked = false
	return p.login()
}

// alarm raises NOSPACE for the next server to find. It comes last, since it blocks writes.
func (p *play) alarm(ctx context.Context) error {
	_, err := pb.NewMaintenanceClient(p.client.ActiveConnection()).Alarm(ctx, &pb.AlarmRequest{
		Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_NOSPACE, MemberID: p.cluster.Members[0].ID,
	})
	return err
}

func (p *play) disarm(ctx context.Context) error {
	_, err := p.client.AlarmDisarm(ctx, &clientv3.AlarmMember{})
	return err
}
