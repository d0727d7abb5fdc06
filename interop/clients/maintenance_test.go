package clients

import (
	"bytes"
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/api/v3/version"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/snapshot"
	"go.uber.org/zap"
)

func TestStatus(t *testing.T) {
	ctx, client := within(t), shared.client(t)
	now := got(client.Put(ctx, prefixOf(t), "x"))(t)
	state := got(client.Status(ctx, shared.endpoint()))(t)
	equal(t, "version", state.Version, version.Version)
	equal(t, "leader", state.Leader, now.Header.MemberId)
	equal(t, "learner", state.IsLearner, false)
	equal(t, "quota", state.DbSizeQuota, 2<<30)
	equal(t, "errors", len(state.Errors), 0)
	equal(t, "term", state.RaftTerm, now.Header.RaftTerm)
	if state.RaftIndex < state.RaftAppliedIndex || state.RaftAppliedIndex == 0 || state.DbSize < state.DbSizeInUse {
		t.Errorf("unexpected status: %v", state)
	}
	_, err := client.MoveLeader(ctx, 12345)
	fails(t, "move to a missing member", err, rpctypes.ErrBadLeaderTransferee)
	got(client.MoveLeader(ctx, state.Leader))(t)
}

// TestHashes checks that hashes survive a defragmentation, and that the hash of a revision is
// stable.
func TestHashes(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), alone(t)
	client := s.client(t)
	fill(t, client, "k", 1000)
	first := got(client.HashKV(ctx, s.endpoint(), 0))(t)
	got(client.Defragment(ctx, s.endpoint()))(t)
	equal(t, "after defragmentation", got(client.HashKV(ctx, s.endpoint(), 0))(t).Hash, first.Hash)
	got(client.Put(ctx, "k", "more"))(t)
	equal(t, "of the past", got(client.HashKV(ctx, s.endpoint(), first.HashRevision))(t).Hash, first.Hash)
	if got(client.HashKV(ctx, s.endpoint(), 0))(t).Hash == first.Hash {
		t.Error("the hash did not change with a new key")
	}
	got(client.Compact(ctx, first.HashRevision, clientv3.WithCompactPhysical()))(t)
	compacted := got(client.HashKV(ctx, s.endpoint(), 0))(t)
	equal(t, "compacted", compacted.CompactRevision, first.HashRevision)
	s.kill(t)
	s.startAgain(t)
	again := got(client.HashKV(ctx, s.endpoint(), 0))(t)
	equal(t, "after a restart", again.Hash, compacted.Hash)
}

// TestSnapshot checks that a snapshot is a database followed by its hash.
func TestSnapshot(t *testing.T) {
	ctx, client := within(t), shared.client(t)
	fill(t, client, prefixOf(t), 500)
	path := filepath.Join(t.TempDir(), "saved")
	equal(t, "version", got(snapshot.SaveWithVersion(ctx, zap.NewNop(), shared.config(), path))(t), "3.7.0")
	saved := got(os.ReadFile(path))(t)
	contents, hash := saved[:len(saved)-sha256.Size], saved[len(saved)-sha256.Size:]
	if want := sha256.Sum256(contents); !bytes.Equal(hash, want[:]) {
		t.Error("the hash after the snapshot does not match")
	}
	must(t, os.WriteFile(path, contents, 0o600))
	equal(t, "is sound", revisionsIn(t, path) >= 500, true)

	stream := got(client.SnapshotWithVersion(ctx))(t)
	defer stream.Snapshot.Close()
	if n := got(io.Copy(io.Discard, stream.Snapshot))(t); n < int64(len(contents)) {
		t.Errorf("unexpected snapshot size of %d bytes", n)
	}
}

// revisionsIn counts the revisions in a database, after a check of all its pages.
func revisionsIn(t *testing.T, path string) int {
	t.Helper()
	db := got(bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true}))(t)
	defer db.Close()
	count := 0
	must(t, db.View(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			t.Error(err)
		}
		count = tx.Bucket([]byte("key")).Stats().KeyN
		return nil
	}))
	return count
}

// TestNoSpace checks that NOSPACE stays raised until it is disarmed, and that reads and deletes
// succeed meanwhile.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), alone(t, "--quota-backend-bytes=1000000")
	client := s.client(t)
	value := strings.Repeat("x", 100<<10)
	var err error
	for i := 0; i < 100 && err == nil; i++ {
		_, err = client.Put(ctx, "k", value)
	}
	fails(t, "full", err, rpctypes.ErrNoSpace)
	alarms := got(client.AlarmList(ctx))(t).Alarms
	equal(t, "alarms", len(alarms), 1)
	equal(t, "alarm", alarms[0].Alarm.String(), "NOSPACE")
	_, err = client.Put(ctx, "small", "x")
	fails(t, "still full", err, rpctypes.ErrNoSpace)
	_, err = client.Grant(ctx, 10)
	fails(t, "lease", err, rpctypes.ErrNoSpace)
	now := got(client.Delete(ctx, "k"))(t).Header.Revision

	got(client.Compact(ctx, now, clientv3.WithCompactPhysical()))(t)
	got(client.Defragment(ctx, s.endpoint()))(t)
	got(client.AlarmDisarm(ctx, &clientv3.AlarmMember{}))(t)
	got(client.Put(ctx, "k", "x"))(t)
	equal(t, "alarms", len(got(client.AlarmList(ctx))(t).Alarms), 0)
}

func TestMembers(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), alone(t)
	client := s.client(t)
	eventually(t, "the member reports its URLs", func() bool {
		return len(got(client.MemberList(ctx))(t).Members[0].ClientURLs) == 1
	})
	own := got(client.MemberList(ctx))(t).Members[0]
	equal(t, "name", own.Name, "m1")
	equal(t, "client", own.ClientURLs[0], "http://"+s.endpoint())
	_, err := client.MemberAdd(ctx, own.PeerURLs)
	fails(t, "add twice", err, rpctypes.ErrPeerURLExist)
	_, err = client.MemberRemove(ctx, 12345)
	fails(t, "remove", err, rpctypes.ErrMemberNotFound)

	added := got(client.MemberAddAsLearner(ctx, []string{"http://127.0.0.1:1"}))(t)
	equal(t, "learner", added.Member.IsLearner, true)
	equal(t, "members", len(added.Members), 2)
	_, err = client.MemberPromote(ctx, added.Member.ID)
	fails(t, "promote", err, rpctypes.ErrMemberLearnerNotReady)
	_, err = client.MemberPromote(ctx, own.ID)
	fails(t, "promote a voter", err, rpctypes.ErrMemberNotLearner)
	got(client.MemberUpdate(ctx, added.Member.ID, []string{"http://127.0.0.1:2"}))(t)
	got(client.Put(ctx, "k", "x"))(t)
	got(client.MemberRemove(ctx, added.Member.ID))(t)
	equal(t, "members", len(got(client.MemberList(ctx))(t).Members), 1)
	_, err = client.MemberRemove(ctx, added.Member.ID)
	fails(t, "remove twice", err, rpctypes.ErrMemberNotFound)
}
