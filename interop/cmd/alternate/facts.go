package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// facts is the state of a server that the next one must find unchanged: per kind of state, a list
// of text lines.
type facts struct {
	// revision is the revision at which the keys were read.
	revision  int64
	compacted int64
	sections  []section
	// values holds the keys at that revision.
	values map[string]string
}

type section struct {
	name      string
	lines     []string
	forgotten bool
}

// factsTimeout bounds the time to read all facts of a server.
const factsTimeout = 30 * time.Second

// present stands for the current revision.
const present = 0

// facts reads all state from the server, with keys and history as of the given revision.
func (s *session) facts(ctx context.Context, revision int64) (*facts, error) {
	ctx, cancel := context.WithTimeout(ctx, factsTimeout)
	defer cancel()
	f := &facts{revision: revision, values: map[string]string{}}
	for _, part := range []struct {
		name   string
		gather func(context.Context, *session) ([]string, error)
	}{
		{"keys", f.keys},
		{"hashes", f.hashes},
		{"history", f.history},
		{"earlier revisions", f.earlierRevisions},
		{"leases", leases},
		{"users", users},
		{"roles", roles},
		{"auth", auth},
		{"alarms", alarms},
		{"members", members},
		{"versions", versions},
	} {
		lines, err := part.gather(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("facts: %s: %w", part.name, err)
		}
		f.sections = append(f.sections, section{name: part.name, lines: lines})
	}
	return f, nil
}

// shown is the number of printed lines per difference.
const shown = 5

// same returns the differences between two sets of facts as an error.
func (f *facts) same(other *facts) error {
	var all []error
	for i, section := range f.sections {
		if is := other.sections[i].lines; !section.forgotten && !slices.Equal(section.lines, is) {
			all = append(all, fmt.Errorf("%s\n--- was\n%s--- is\n%s", section.name, missing(section.lines, is), missing(is, section.lines)))
		}
	}
	return errors.Join(all...)
}

// forget excludes sections from the comparison, because older servers do not report them.
func (f *facts) forget(names ...string) {
	for i, section := range f.sections {
		f.sections[i].forgotten = slices.Contains(names, section.name)
	}
}

// missing returns the first lines that others lacks, with their number.
func missing(lines, others []string) string {
	text, count := "", 0
	for _, line := range lines {
		if !slices.Contains(others, line) {
			if count++; count <= shown {
				text += line + "\n"
			}
		}
	}
	return text + fmt.Sprintf("%d of %d lines\n", count, len(lines))
}

func (f *facts) keys(ctx context.Context, s *session) ([]string, error) {
	all, err := s.client.Get(ctx, "", clientv3.WithFromKey(), clientv3.WithRev(f.revision))
	if err != nil {
		return nil, err
	}
	if f.revision == present {
		f.revision = all.Header.Revision
	}
	for _, kv := range all.Kvs {
		f.values[string(kv.Key)] = string(kv.Value)
	}
	return append(texts(all.Kvs), fmt.Sprintf("revision %d", f.revision)), nil
}

// longest is the number of value bytes in a line. The length and the hash cover the rest.
const longest = 40

func texts(kvs []*mvccpb.KeyValue) []string {
	var lines []string
	for _, kv := range kvs {
		lines = append(lines, text(kv))
	}
	return lines
}

func text(kv *mvccpb.KeyValue) string {
	return fmt.Sprintf("%q created %d modified %d version %d lease %x %d bytes %q", kv.Key, kv.CreateRevision, kv.ModRevision,
		kv.Version, kv.Lease, len(kv.Value), kv.Value[:min(len(kv.Value), longest)])
}

// hashes returns HashKV of the revision and of some earlier ones that are not compacted.
func (f *facts) hashes(ctx context.Context, s *session) ([]string, error) {
	var lines []string
	for _, back := range []int64{0, 1, 7, 40} {
		// Only newer servers have a hash of the compacted revision itself.
		if f.revision-back < 1 || back > 0 && f.revision-back <= f.compacted {
			break
		}
		hash, err := s.client.HashKV(ctx, s.cluster.Members[0].Endpoint(), f.revision-back)
		if errors.Is(err, rpctypes.ErrCompacted) {
			break
		}
		if err != nil {
			return nil, err
		}
		// Older servers leave HashRevision empty.
		if of := hash.HashRevision; of != 0 && of != f.revision-back {
			return nil, fmt.Errorf("requested the hash of revision %d, got revision %d", f.revision-back, of)
		}
		f.compacted = hash.CompactRevision
		lines = append(lines, fmt.Sprintf("%d of revision %d, compacted %d", hash.Hash, f.revision-back, hash.CompactRevision))
	}
	return lines, nil
}

// firstRevision is the revision of an empty store.
const firstRevision = 1

// history returns all retained events up to the revision, as a watcher receives them.
func (f *facts) history(ctx context.Context, s *session) ([]string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var lines []string
	if f.revision == firstRevision {
		return nil, nil
	}
	watch := s.client.Watch(ctx, "", clientv3.WithFromKey(), clientv3.WithRev(max(f.compacted, 0)+1), clientv3.WithPrevKV())
	for response := range watch {
		if err := response.Err(); err != nil {
			return nil, err
		}
		for _, event := range response.Events {
			if event.Kv.ModRevision > f.revision {
				return lines, nil
			}
			line := event.Type.String() + " " + text(event.Kv)
			if event.PrevKv != nil {
				line += " after " + text(event.PrevKv)
			}
			lines = append(lines, line)
		}
		if n := len(response.Events); n > 0 && response.Events[n-1].Kv.ModRevision >= f.revision {
			return lines, nil
		}
	}
	return nil, errors.New("the watch ended before the last revision")
}

// earlierRevisions returns the keys at some earlier revisions.
func (f *facts) earlierRevisions(ctx context.Context, s *session) ([]string, error) {
	var lines []string
	for _, revision := range []int64{f.compacted, f.compacted + 10, f.revision - 20, f.revision - 1} {
		if revision < 1 || revision < f.compacted || revision > f.revision {
			continue
		}
		then, err := s.client.Get(ctx, "", clientv3.WithFromKey(), clientv3.WithRev(revision))
		if err != nil {
			return nil, err
		}
		for _, line := range texts(then.Kvs) {
			lines = append(lines, fmt.Sprintf("at %d: %s", revision, line))
		}
	}
	return lines, nil
}

func leases(ctx context.Context, s *session) ([]string, error) {
	all, err := s.client.Leases(ctx)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, lease := range all.Leases {
		left, err := s.client.TimeToLive(ctx, lease.ID, clientv3.WithAttachedKeys())
		if err != nil {
			return nil, err
		}
		if left.TTL > left.GrantedTTL || left.TTL <= 0 {
			return nil, fmt.Errorf("lease %x has %d s left of %d s", lease.ID, left.TTL, left.GrantedTTL)
		}
		slices.SortFunc(left.Keys, func(a, b []byte) int { return cmp.Compare(string(a), string(b)) })
		lines = append(lines, fmt.Sprintf("%x granted %d keys %q", lease.ID, left.GrantedTTL, left.Keys))
	}
	slices.Sort(lines)
	return lines, nil
}

func users(ctx context.Context, s *session) ([]string, error) {
	all, err := s.client.UserList(ctx)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, name := range all.Users {
		user, err := s.client.UserGet(ctx, name)
		if err != nil {
			return nil, err
		}
		lines = append(lines, fmt.Sprintf("%s %q", name, user.Roles))
	}
	return lines, nil
}

func roles(ctx context.Context, s *session) ([]string, error) {
	all, err := s.client.RoleList(ctx)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, name := range all.Roles {
		role, err := s.client.RoleGet(ctx, name)
		if err != nil {
			return nil, err
		}
		// The permissions of root are not stored, but newer servers report them.
		if name == root {
			role.Perm = nil
		}
		for _, perm := range role.Perm {
			lines = append(lines, fmt.Sprintf("%s %s %q %q", name, perm.PermType, perm.Key, perm.RangeEnd))
		}
		lines = append(lines, name)
	}
	return lines, nil
}

func auth(ctx context.Context, s *session) ([]string, error) {
	state, err := s.client.AuthStatus(ctx)
	if status.Code(err) == codes.Unimplemented {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return []string{fmt.Sprintf("enabled %v revision %d", state.Enabled, state.AuthRevision)}, nil
}

func alarms(ctx context.Context, s *session) ([]string, error) {
	all, err := s.client.AlarmList(ctx)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, alarm := range all.Alarms {
		lines = append(lines, fmt.Sprintf("%s of %x", alarm.Alarm, alarm.MemberID))
	}
	slices.Sort(lines)
	return lines, nil
}

// members returns the member list without client URLs, which differ on every start.
func members(ctx context.Context, s *session) ([]string, error) {
	all, err := s.client.MemberList(ctx)
	if err != nil {
		return nil, err
	}
	lines := []string{fmt.Sprintf("cluster %x, asked %x", all.Header.ClusterId, all.Header.MemberId)}
	for _, m := range all.Members {
		lines = append(lines, fmt.Sprintf("%x %q %s learner %v", m.ID, m.Name, strings.Join(m.PeerURLs, ","), m.IsLearner))
	}
	return lines, nil
}

func versions(ctx context.Context, s *session) ([]string, error) {
	state, err := pb.NewMaintenanceClient(s.client.ActiveConnection()).Status(ctx, &pb.StatusRequest{})
	if err != nil {
		return nil, err
	}
	return []string{fmt.Sprintf("server %s storage %s", state.Version, state.StorageVersion)}, nil
}
