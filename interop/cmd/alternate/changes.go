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
func (s *session) change(ctx context.Context) error {
	for _, step := range []struct {
		name string
		do   func(context.Context) error
		when bool
	}{
		{"disarm", s.disarm, true},
		{"auth off", s.authOff, s.locked},
		{"keys", s.changeKeys, true},
		{"leases", s.changeLeases, true},
		{"users", s.changeUsers, true},
		{"members", s.changeMembers, s.turns%2 == 1},
		{"compaction", s.compact, s.turns%3 != 1},
		{"defragmentation", s.defragment, s.turns%4 == 3},
		{"some more keys", s.changeKeys, true},
		{"storage version", s.upToDate, true},
		{"auth on", s.authOn, s.turns%4 >= 2},
		{"alarm", s.alarm, s.turns%3 == 1},
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
func (s *session) changeKeys(ctx context.Context) error {
	random := workload.SeededRound(s.seed, s.turns)
	key := func() string { return fmt.Sprintf("key/%03d", random.Next()%200) }
	for range 60 {
		value := string(workload.Fill(random.Next(), random.Next()%300))
		var err error
		switch random.Next() % 10 {
		case 0:
			_, err = s.client.Delete(ctx, key())
		case 1:
			_, err = s.client.Delete(ctx, key(), clientv3.WithRange(key()))
		case 2, 3:
			_, err = s.client.Txn(ctx).
				If(clientv3.Compare(clientv3.Version(key()), ">", 0)).
				Then(clientv3.OpPut("txn/then", value), clientv3.OpPut(key(), value), clientv3.OpDelete("txn/else")).
				Else(clientv3.OpPut("txn/else", value), clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut(key(), value)}, nil)).
				Commit()
		default:
			_, err = s.client.Put(ctx, key(), value)
		}
		if err != nil {
			return err
		}
	}
	_, err := s.client.Put(ctx, fmt.Sprintf("large/%d", s.turns%3), strings.Repeat(fmt.Sprint(s.turns), 1<<20))
	return err
}

// firstLease is larger than the lease ids of the initial directories.
const firstLease = 1 << 20

// changeLeases grants leases that outlive the turn, renews one lease of the previous turn and
// revokes another.
func (s *session) changeLeases(ctx context.Context) error {
	lease := pb.NewLeaseClient(s.client.ActiveConnection())
	for i := range 3 {
		id := int64(firstLease + 1000*(s.turns+1) + i)
		if _, err := lease.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: id, TTL: 10000 + id}); err != nil {
			return err
		}
		for k := range i + 1 {
			if _, err := s.client.Put(ctx, fmt.Sprintf("leased/%d/%d", id, k), "x", clientv3.WithLease(clientv3.LeaseID(id))); err != nil {
				return err
			}
		}
	}
	if s.turns == 0 {
		return nil
	}
	last := clientv3.LeaseID(firstLease + 1000*s.turns)
	_, renewErr := s.client.KeepAliveOnce(ctx, last+2)
	_, revokeErr := s.client.Revoke(ctx, last+1)
	return errors.Join(renewErr, revokeErr)
}

// changeUsers adds a user and a role in each turn, and deletes users and roles of earlier turns
// step by step.
func (s *session) changeUsers(ctx context.Context) error {
	user, role := fmt.Sprintf("user-%d", s.turns), fmt.Sprintf("role-%d", s.turns)
	var errs [8]error
	_, errs[0] = s.client.UserAdd(ctx, user, "secret")
	_, errs[1] = s.client.RoleAdd(ctx, role)
	_, errs[2] = s.client.RoleGrantPermission(ctx, role, "key/", "key0", clientv3.PermissionType(authpb.Permission_Type(s.turns%3)))
	_, errs[3] = s.client.RoleGrantPermission(ctx, role, "single", "", clientv3.PermissionType(clientv3.PermRead))
	_, errs[4] = s.client.UserGrantRole(ctx, user, role)
	if s.turns >= 2 {
		_, errs[5] = s.client.UserRevokeRole(ctx, fmt.Sprintf("user-%d", s.turns-1), fmt.Sprintf("role-%d", s.turns-1))
		_, errs[6] = s.client.UserDelete(ctx, fmt.Sprintf("user-%d", s.turns-2))
		_, errs[7] = s.client.RoleRevokePermission(ctx, fmt.Sprintf("role-%d", s.turns-1), "single", "")
	}
	return errors.Join(errs[:]...)
}

// changeMembers adds a learner that is never started, or removes it.
func (s *session) changeMembers(ctx context.Context) error {
	if s.learner != 0 {
		_, err := s.client.MemberRemove(ctx, s.learner)
		s.learner = 0
		return err
	}
	added, err := s.client.MemberAddAsLearner(ctx, []string{fmt.Sprintf("http://127.0.0.1:%d", 1+s.turns)})
	if err == nil {
		s.learner = added.Member.ID
	}
	return err
}

// compact keeps the last 100 revisions, or compacts one revision more if fewer are left.
func (s *session) compact(ctx context.Context) error {
	now, err := s.client.Get(ctx, "x")
	if err != nil {
		return err
	}
	_, err = s.client.Compact(ctx, max(now.Header.Revision-100, s.known.compacted+1, 1), clientv3.WithCompactPhysical())
	return err
}

func (s *session) defragment(ctx context.Context) error {
	_, err := s.client.Defragment(ctx, s.cluster.Members[0].Endpoint())
	return err
}

// upToDate waits until the storage version is current; servers update it in the background.
func (s *session) upToDate(ctx context.Context) error {
	return cluster.Until(ctx, "the storage version", func(ctx context.Context) error {
		state, err := s.client.Status(ctx, s.cluster.Members[0].Endpoint())
		if err == nil && state.StorageVersion != storageVersion {
			err = fmt.Errorf("the storage version is %q", state.StorageVersion)
		}
		return err
	})
}

// authOn enables auth, and creates root if it does not exist.
func (s *session) authOn(ctx context.Context) error {
	all, err := s.client.UserList(ctx)
	if err != nil {
		return err
	}
	if !strings.Contains(strings.Join(all.Users, " ")+" ", root+" ") {
		_, userErr := s.client.UserAdd(ctx, root, rootPassword)
		_, roleErr := s.client.RoleAdd(ctx, root)
		_, grantErr := s.client.UserGrantRole(ctx, root, root)
		if err := errors.Join(userErr, roleErr, grantErr); err != nil {
			return err
		}
	}
	if _, err := s.client.UserChangePassword(ctx, root, rootPassword); err != nil {
		return err
	}
	if _, err := s.client.AuthEnable(ctx); err != nil {
		return err
	}
	s.locked = true
	return s.login()
}

func (s *session) authOff(ctx context.Context) error {
	if _, err := s.client.AuthDisable(ctx); err != nil {
		return err
	}
	s.locked = false
	return s.login()
}

// alarm raises NOSPACE for the next server to find. It comes last, since it blocks writes.
func (s *session) alarm(ctx context.Context) error {
	_, err := pb.NewMaintenanceClient(s.client.ActiveConnection()).Alarm(ctx, &pb.AlarmRequest{
		Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_NOSPACE, MemberID: s.cluster.Members[0].ID,
	})
	return err
}

func (s *session) disarm(ctx context.Context) error {
	_, err := s.client.AlarmDisarm(ctx, &clientv3.AlarmMember{})
	return err
}
