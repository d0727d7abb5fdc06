package dump

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/etcdserver/api/snap"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestBytes(t *testing.T) {
	cases := map[string][]byte{
		"-":                                    {},
		"00ff":                                 {0, 255},
		strings.Repeat("61", 1024):             bytes.Repeat([]byte("a"), 1024),
		"sha256:" + digest(make([]byte, 1025)): make([]byte, 1025),
	}
	for want, in := range cases {
		if got := Bytes(in); got != want {
			t.Errorf("%d bytes: %s", len(in), got)
		}
	}
}

func TestBoltPrintsKeysBeforeNestedBuckets(t *testing.T) {
	db, err := bolt.Open(filepath.Join(t.TempDir(), "db"), 0o600, nil)
	check(t, err)
	defer db.Close()
	check(t, db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucket([]byte("b"))
		check(t, err)
		_, err = tx.CreateBucket([]byte("a"))
		check(t, err)
		inner, err := b.CreateBucket([]byte("c"))
		check(t, err)
		check(t, inner.Put([]byte("k"), []byte{1}))
		check(t, inner.SetSequence(7))
		return b.Put([]byte("d"), nil)
	}))
	var out strings.Builder
	check(t, db.View(func(tx *bolt.Tx) error { return Bolt(&out, tx) }))
	want := "bucket 61 seq 0\nbucket 62 seq 0\nkv 64 -\nbucket 62/63 seq 7\nkv 6b 01\n"
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
	check(t, db.View(func(tx *bolt.Tx) error {
		buckets, keys, err := Count(tx)
		if buckets != 3 || keys != 2 {
			t.Errorf("%d buckets, %d keys", buckets, keys)
		}
		return err
	}))
}

// writeLog writes a log with one entry and a snapshot record.
func writeLog(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "wal")
	w, err := wal.Create(zap.NewNop(), dir, []byte{1})
	check(t, err)
	entry := &raftpb.Entry{Type: raftpb.EntryConfChange.Enum(), Term: new(uint64(2)), Index: new(uint64(1)), Data: []byte{9}}
	check(t, w.Save(&raftpb.HardState{Term: new(uint64(2)), Vote: new(uint64(3)), Commit: new(uint64(1))}, []*raftpb.Entry{entry}))
	check(t, w.SaveSnapshot(&walpb.Snapshot{
		Index: new(uint64(1)), Term: new(uint64(2)), ConfState: &raftpb.ConfState{Voters: []uint64{3, 4}, Learners: []uint64{5}},
	}))
	check(t, w.Close())
	return dir
}

const logText = "crc 0\nmetadata 01\nsnapshot 0 0\nentry 2 1 1 09\nstate 2 3 1\n" +
	"snapshot 1 2 voters=3,4 learners=5 voters_outgoing= learners_next= auto_leave=false\n"

func TestWALPrintsEveryRecord(t *testing.T) {
	var out strings.Builder
	check(t, WAL(&out, writeLog(t)))
	if out.String() != logText {
		t.Errorf("got\n%s", out.String())
	}
}

func TestWALReportsATornTail(t *testing.T) {
	dir := writeLog(t)
	file := filepath.Join(dir, "0000000000000000-0000000000000000.wal")
	bytes, err := os.ReadFile(file)
	check(t, err)
	end := len(strings.TrimRight(string(bytes), "\x00"))
	check(t, os.Truncate(file, int64(end-10)))
	var out strings.Builder
	check(t, WAL(&out, dir))
	if !strings.HasSuffix(out.String(), "state 2 3 1\ntorn\n") {
		t.Errorf("got\n%s", out.String())
	}
}

func TestWALRefusesADamagedRecord(t *testing.T) {
	dir := writeLog(t)
	file := filepath.Join(dir, "0000000000000000-0000000000000000.wal")
	bytes, err := os.ReadFile(file)
	check(t, err)
	end := len(strings.TrimRight(string(bytes), "\x00"))
	bytes[end-1] ^= 0xff
	check(t, os.WriteFile(file, bytes, 0o600))
	var out strings.Builder
	if err := WAL(&out, dir); err == nil || !strings.Contains(err.Error(), "crc mismatch") {
		t.Errorf("error %v", err)
	}
}

func TestWALRefusesAnEmptyDirectory(t *testing.T) {
	if err := WAL(&strings.Builder{}, t.TempDir()); err == nil {
		t.Error("an empty directory was accepted as a log")
	}
}

func TestSnapshots(t *testing.T) {
	dir := t.TempDir()
	check(t, snap.New(zap.NewNop(), dir).SaveSnap(&raftpb.Snapshot{
		Data:     []byte("state"),
		Metadata: &raftpb.SnapshotMetadata{Index: new(uint64(11)), Term: new(uint64(2)), ConfState: &raftpb.ConfState{}},
	}))
	var out strings.Builder
	check(t, Snapshots(&out, dir))
	if !strings.HasPrefix(out.String(), "snap 0000000000000002-000000000000000b.snap 11 2 ") ||
		!strings.HasSuffix(out.String(), " "+digest([]byte("state"))+"\n") {
		t.Errorf("got %s", out.String())
	}
	check(t, os.Truncate(filepath.Join(dir, "0000000000000002-000000000000000b.snap"), 9))
	out.Reset()
	check(t, Snapshots(&out, dir))
	if out.String() != "snap 0000000000000002-000000000000000b.snap unreadable\n" {
		t.Errorf("a truncated snapshot was accepted: %s", out.String())
	}
}
