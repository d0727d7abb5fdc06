package main

import (
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/proto"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"

	"bowline/interop/internal/cluster"
	"bowline/interop/internal/frames"
	"bowline/interop/internal/proxy"
	"bowline/interop/internal/wire"
)

// Numbers of the fields that tell message types apart or contain other messages.
const (
	messageType   = 1
	messageReject = 10
	recordType    = 1
	recordData    = 3
	entryType     = 1
	entryData     = 4
	snapFileData  = 2
)

// fromNetwork collects the messages between members.
func fromNetwork(into *samples, tapes []*proxy.Tape) error {
	for _, tape := range tapes {
		var messages, entries [][]byte
		var origin string
		var err error
		switch bytes := tape.Bytes(); {
		case strings.HasPrefix(tape.Path, "/raft/stream/message/"):
			origin, messages = "message stream", frames.Messages(bytes)
		case strings.HasPrefix(tape.Path, "/raft/stream/msgapp/"):
			origin = "msgapp stream"
			messages, entries, err = frames.Appends(bytes)
		case tape.Path == "/raft/snapshot":
			origin = "snapshot post"
			if message, whole := frames.Envelope(bytes); whole {
				messages = [][]byte{message}
			}
		case len(bytes) > 0:
			origin, messages = "pipeline post", [][]byte{bytes}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", tape.Path, err)
		}
		if err := addRaft(into, origin, messages, entries); err != nil {
			return err
		}
	}
	return nil
}

func addRaft(into *samples, origin string, messages, entries [][]byte) error {
	for _, message := range messages {
		if err := into.add("raftpb.Message", origin, message); err != nil {
			return err
		}
	}
	for _, entry := range entries {
		if err := into.add("raftpb.Entry", origin, entry); err != nil {
			return err
		}
	}
	return nil
}

// fromDisk collects the messages in the files of a stopped member.
func fromDisk(into *samples, m *cluster.Member) error {
	for _, part := range []struct {
		pattern string
		origin  string
		read    func(into *samples, origin, file string) error
	}{
		{"wal/*.wal", "log", fromLog},
		{"snap/*.snap", "snap file", fromSnapshot},
		{"snap/db", "database", fromDatabase},
	} {
		files, err := m.Files(part.pattern)
		if err != nil {
			return err
		}
		for _, file := range files {
			if err := part.read(into, strings.TrimSpace(m.Note+" "+part.origin), file); err != nil {
				return fmt.Errorf("%s: %w", path.Base(file), err)
			}
		}
	}
	return nil
}

func fromLog(into *samples, origin, file string) error {
	bytes, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	records, err := frames.Log(bytes)
	if err != nil {
		return err
	}
	for _, record := range records {
		if err := into.add("walpb.Record", origin, record); err != nil {
			return err
		}
		if err := fromRecord(into, origin, record); err != nil {
			return err
		}
	}
	return nil
}

func fromRecord(into *samples, origin string, record []byte) error {
	data, _ := wire.Bytes(record, recordData)
	switch kind := wire.Number(record, recordType); kind {
	case 1:
		return into.add("etcdserverpb.Metadata", origin, data)
	case 2:
		return fromEntry(into, origin, data)
	case 3:
		return into.add("raftpb.HardState", origin, data)
	case 4:
		return nil
	case 5:
		return into.add("walpb.Snapshot", origin, data)
	default:
		return fmt.Errorf("unknown log record type %d", kind)
	}
}

func fromEntry(into *samples, origin string, entry []byte) error {
	if err := into.add("raftpb.Entry", origin, entry); err != nil {
		return err
	}
	data, _ := wire.Bytes(entry, entryData)
	switch kind := raftpb.EntryType(wire.Number(entry, entryType)); {
	case len(data) == 0:
		return nil
	case kind == raftpb.EntryConfChange:
		return into.add("raftpb.ConfChange", origin, data)
	case kind == raftpb.EntryConfChangeV2:
		return into.add("raftpb.ConfChangeV2", origin, data)
	case proto.Unmarshal(data, &etcdserverpb.InternalRaftRequest{}) != nil:
		// Before 3.6, requests of the v2 store were proposed without the envelope.
		return into.add(oldRequest, origin, data)
	default:
		return into.add("etcdserverpb.InternalRaftRequest", origin, data)
	}
}

func fromSnapshot(into *samples, origin, file string) error {
	bytes, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := into.add("snappb.snapshot", origin, bytes); err != nil {
		return err
	}
	data, _ := wire.Bytes(bytes, snapFileData)
	return into.add("raftpb.Snapshot", origin, data)
}

// messageBuckets lists the buckets of the database that hold messages, as keys or as values.
var messageBuckets = []struct {
	bucket, kind string
	inKey        bool
}{
	{"key", "mvccpb.KeyValue", false},
	{"lease", "leasepb.Lease", false},
	{"authUsers", "authpb.User", false},
	{"authRoles", "authpb.Role", false},
	{"alarm", "etcdserverpb.AlarmMember", true},
}

func fromDatabase(into *samples, origin, file string) error {
	db, err := bbolt.Open(file, 0o600, &bbolt.Options{ReadOnly: true, Timeout: 5 * time.Second})
	if err != nil {
		return err
	}
	defer db.Close()
	return db.View(func(tx *bbolt.Tx) error {
		for _, k := range messageBuckets {
			bucket := tx.Bucket([]byte(k.bucket))
			if bucket == nil {
				continue
			}
			err := bucket.ForEach(func(key, value []byte) error {
				if k.inKey {
					value = key
				}
				return into.add(k.kind, origin, value)
			})
			if err != nil {
				return fmt.Errorf("bucket %s: %w", k.bucket, err)
			}
		}
		return nil
	})
}
