// Package frames splits etcd's log files and its three kinds of peer traffic into protobuf
// messages. It returns the original bytes.
package frames

import (
	"encoding/binary"
	"fmt"
)

// Log splits a WAL segment into its records (walpb.Record).
//
//	length field, 8 bytes little-endian   record   zeros up to a multiple of 8
//
// The low 56 bits of the length field are the length of the record. If the top bit is set, the low
// 3 bits of the top byte count the zeros. A length field of zero, or the end of the file, ends the
// log.
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

// Messages splits a message stream into raftpb.Message: each is preceded by its length, 8 bytes
// big-endian. A connection can end anywhere, so an incomplete last frame is dropped.
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

// Appends splits a msgapp stream, which carries only MsgApp and omits from most of them the fields
// that the receiver can derive. Each item starts with a type byte:
//
//	0  nothing                                  a link heartbeat
//	1  count, count × (length, entry), commit   entries that follow the previous ones
//	2  length, message                          a complete raftpb.Message
//
// It returns the complete messages and the bare entries (raftpb.Entry).
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

// Envelope returns the message that precedes the database in a snapshot request.
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
