package dump

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// WAL prints the records of all segments in a directory, as etcd's decoder reads them, including
// overwritten entries:
//
//	crc 0
//	metadata 08011002
//	snapshot 0 0
//	entry 1 1 1 0a0b              term, index, type, data
//	state 1 1 1                   term, vote, commit
//	torn                          if the last record is incomplete
func WAL(w io.Writer, dir string) error {
	decoder, closeAll, err := openSegments(dir)
	if err != nil {
		return err
	}
	defer closeAll()
	for {
		var record walpb.Record
		err := decoder.Decode(&record)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			_, err = fmt.Fprintln(w, "torn")
			return err
		case err != nil:
			return fmt.Errorf("record at %d: %w", decoder.LastOffset(), err)
		}
		if err := chain(decoder, &record); err != nil {
			return err
		}
		if err := dumpRecord(w, &record); err != nil {
			return err
		}
	}
}

func openSegments(dir string) (wal.Decoder, func(), error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil {
		return nil, nil, err
	}
	if len(paths) == 0 {
		return nil, nil, fmt.Errorf("no log in %s", dir)
	}
	var files []*os.File
	var readers []fileutil.FileReader
	closeAll := func() {
		for _, file := range files {
			file.Close()
		}
	}
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		files = append(files, file)
		readers = append(readers, fileutil.NewFileReader(file))
	}
	return wal.NewDecoder(readers...), closeAll, nil
}

// chain compares a crc record, with which each segment starts, with the running checksum and
// continues from it. The decoder leaves that to its caller.
func chain(decoder wal.Decoder, record *walpb.Record) error {
	if record.GetType() != wal.CrcType {
		return nil
	}
	if crc := decoder.LastCRC(); crc != 0 {
		if err := record.Validate(crc); err != nil {
			return err
		}
	}
	decoder.UpdateCRC(record.GetCrc())
	return nil
}

func dumpRecord(w io.Writer, record *walpb.Record) error {
	line, err := recordLine(record)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, line)
	return err
}

func recordLine(record *walpb.Record) (string, error) {
	switch record.GetType() {
	case wal.MetadataType:
		return "metadata " + Bytes(record.GetData()), nil
	case wal.CrcType:
		return fmt.Sprintf("crc %d", record.GetCrc()), nil
	case wal.EntryType:
		var e raftpb.Entry
		err := proto.Unmarshal(record.GetData(), &e)
		return fmt.Sprintf("entry %d %d %d %s", e.GetTerm(), e.GetIndex(), e.GetType(), Bytes(e.GetData())), err
	case wal.StateType:
		var s raftpb.HardState
		err := proto.Unmarshal(record.GetData(), &s)
		return fmt.Sprintf("state %d %d %d", s.GetTerm(), s.GetVote(), s.GetCommit()), err
	case wal.SnapshotType:
		var s walpb.Snapshot
		err := proto.Unmarshal(record.GetData(), &s)
		return fmt.Sprintf("snapshot %d %d%s", s.GetIndex(), s.GetTerm(), members(s.GetConfState())), err
	default:
		return "", fmt.Errorf("record of unknown type %d", record.GetType())
	}
}

func members(c *raftpb.ConfState) string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf(" voters=%s learners=%s voters_outgoing=%s learners_next=%s auto_leave=%t",
		numbers(c.GetVoters()), numbers(c.GetLearners()), numbers(c.GetVotersOutgoing()), numbers(c.GetLearnersNext()),
		c.GetAutoLeave())
}
