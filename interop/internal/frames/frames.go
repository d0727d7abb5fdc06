// Package frames finds whole protobuf messages in what etcd writes: log files
// on disk and the three ways members send each other raft messages. It hands
// out the very bytes that stood there.
package frames

import (
	"encoding/binary"
	"fmt"
)

// Log splits a write-ahead log file into its records (walpb.Record).
//
//	length field, 8 bytes little-endian   record   zeros up to a multiple of 8
//
// The low 56 bits of the length field are the record's length. If its top bit
// is set, the low 3 bits of the top byte count the zeros. A length field of
// zero, or the end of the file, ends the log.
func Log(file []byte) ([][]byte, error) {
	var records [][]byte
	for at := uint64(0); at+8 <= uint64(len(file)); {
		field := binary.LittleEndian.Uint64(file[at:])
		if field == 0 {
			break
		}
		length := field & (1<<56 - 1)
		padding := uint64(0)
		if field>>63 == 1 {
			padding = field >> 56 & 7
		}
		at += 8
		if length+padding > uint64(len(file))-at {
			return nil, fmt.Errorf("record of %d bytes at offset %d runs past the end of the file", length, at)
		}
		records = append(records, file[at:at+length])
		at += length + padding
	}
	return records, nil
}

// Messages splits a message stream into raftpb.Message: each is preceded by
// its length, 8 bytes big-endian. A connection can end anywhere, so a cut
// last frame is dropped.
func Messages(stream []byte) [][]byte {
	var messages [][]byte
	for {
		message, rest, whole := counted(stream)
		if !whole {
			return messages
		}
		messages, stream = append(messages, message), rest
	}
}

// Appends splits a msgapp stream, which carries MsgApp alone and leaves out
// of most what the receiver can work out. First a type byte:
//
//	0  nothing                                  the link is alive
//	1  count, count × (length, entry), commit   entries that follow those before
//	2  length, message                          a whole raftpb.Message
//
// It returns the whole messages and the bare entries (raftpb.Entry).
func Appends(stream []byte) (messages, entries [][]byte, err error) {
	for len(stream) > 0 {
		kind, rest := stream[0], stream[1:]
		whole := true
		switch kind {
		case 0:
		case 1:
			var some [][]byte
			some, rest, whole = bareEntries(rest)
			entries = append(entries, some...)
		case 2:
			var message []byte
			if message, rest, whole = counted(rest); whole {
				messages = append(messages, message)
			}
		default:
			return nil, nil, fmt.Errorf("frame type %d on a msgapp stream", kind)
		}
		if !whole {
			break
		}
		stream = rest
	}
	return messages, entries, nil
}

func bareEntries(stream []byte) (entries [][]byte, rest []byte, whole bool) {
	if len(stream) < 8 {
		return nil, nil, false
	}
	count := binary.BigEndian.Uint64(stream)
	stream = stream[8:]
	for range count {
		entry, after, ok := counted(stream)
		if !ok {
			return nil, nil, false
		}
		entries, stream = append(entries, entry), after
	}
	const commit = 8
	if len(stream) < commit {
		return nil, nil, false
	}
	return entries, stream[commit:], true
}

// Envelope returns the message that precedes the database in a posted snapshot.
func Envelope(body []byte) ([]byte, bool) {
	message, _, whole := counted(body)
	return message, whole
}

func counted(stream []byte) (payload, rest []byte, whole bool) {
	if len(stream) < 8 {
		return nil, nil, false
	}
	length := binary.BigEndian.Uint64(stream)
	stream = stream[8:]
	if length > uint64(len(stream)) {
		return nil, nil, false
	}
	return stream[:length], stream[length:], true
}
