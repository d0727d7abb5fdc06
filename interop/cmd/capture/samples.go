package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/reflect/protoreflect"

	"bowline/interop/internal/wire"
)

// oldRequest is a message type that 3.7 no longer has.
const oldRequest = "etcdserverpb.Request"

// samples keeps some messages of every kind and shape.
type samples struct {
	kinds    map[string]*kindSamples
	presence *wire.Presence
}

// kindSamples holds the samples of one kind by variant, origin and shape.
type kindSamples struct {
	seen map[string]*sample
}

// sample is one shape, with its shortest message and its longest within longMax.
type sample struct {
	label, origin string
	// outline is the shape of the top-level fields, shape includes nested messages.
	outline, shape    string
	shortest, longest []byte
	// first is the position of this shape in the order of discovery.
	first int
}

// longMax is the length above which a longer message adds no information.
const longMax = 200

func newSamples() *samples {
	return &samples{kinds: map[string]*kindSamples{}, presence: wire.NewPresence()}
}

func (s *samples) add(kind, origin string, message []byte) error {
	one := sample{origin: origin}
	if kind != oldRequest {
		descriptor, err := wire.Describe(kind)
		if err != nil {
			return err
		}
		one.label = labelOf(descriptor, message)
		if one.shape, err = wire.Shape(descriptor, message); err != nil {
			return fmt.Errorf("%s from %s: %w", kind, origin, err)
		}
		if one.outline, err = wire.Outline(descriptor, message); err != nil {
			return err
		}
		if err := s.presence.Add(descriptor, tableLabel(kind, one.label), message); err != nil {
			return err
		}
	}
	if s.kinds[kind] == nil {
		s.kinds[kind] = &kindSamples{seen: map[string]*sample{}}
	}
	// The memory of a database is unmapped on close, so the bytes are copied.
	s.kinds[kind].add(one, bytes.Clone(message))
	return nil
}

func (k *kindSamples) add(one sample, message []byte) {
	key := one.label + "|" + one.origin + "|" + one.shape
	seen, ok := k.seen[key]
	if !ok {
		one.first = len(k.seen)
		one.shortest, one.longest = message, message
		k.seen[key] = &one
		return
	}
	if len(message) < len(seen.shortest) {
		seen.shortest = message
	}
	if len(message) > len(seen.longest) && len(message) <= longMax {
		seen.longest = message
	}
}

// missing lists the message types between members that were not captured.
func (s *samples) missing() []string {
	seen := map[string]bool{}
	if messages := s.kinds["raftpb.Message"]; messages != nil {
		for _, one := range messages.seen {
			seen[one.label] = true
		}
	}
	var missing []string
	for _, kind := range []raftpb.MessageType{
		raftpb.MsgProp, raftpb.MsgApp, raftpb.MsgAppResp, raftpb.MsgVote, raftpb.MsgVoteResp, raftpb.MsgSnap,
		raftpb.MsgHeartbeat, raftpb.MsgHeartbeatResp, raftpb.MsgTimeoutNow, raftpb.MsgReadIndex,
		raftpb.MsgReadIndexResp, raftpb.MsgPreVote, raftpb.MsgPreVoteResp,
	} {
		if !seen[kind.String()] {
			missing = append(missing, kind.String())
		}
	}
	return missing
}

// labelOf names the variant of a message: its type field, or the request inside.
func labelOf(kind protoreflect.MessageDescriptor, message []byte) string {
	switch kind.FullName() {
	case "raftpb.Message":
		return raftpb.MessageType(wire.Number(message, messageType)).String()
	case "raftpb.Entry":
		return raftpb.EntryType(wire.Number(message, entryType)).String()
	case "raftpb.ConfChange":
		return raftpb.ConfChangeType(wire.Number(message, 2)).String()
	case "walpb.Record":
		return [...]string{"?", "metadata", "entry", "state", "crc", "snapshot"}[min(wire.Number(message, recordType), 5)]
	case "etcdserverpb.InternalRaftRequest":
		return requestName(kind, message)
	default:
		return ""
	}
}

func requestName(kind protoreflect.MessageDescriptor, message []byte) string {
	fields, err := wire.Fields(message)
	if err != nil {
		return ""
	}
	for _, field := range fields {
		known := kind.Fields().ByNumber(field.Number)
		if known != nil && known.Kind() == protoreflect.MessageKind && known.Name() != "header" {
			return string(known.Name())
		}
	}
	return "unknown"
}

// tableLabel puts all raft requests into one presence table.
func tableLabel(kind, label string) string {
	if kind == "etcdserverpb.InternalRaftRequest" {
		return ""
	}
	return label
}

// write writes the samples and the presence tables to a directory.
func (s *samples) write(dir, version string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, kind := range slices.Sorted(maps.Keys(s.kinds)) {
		text := fmt.Sprintf("# %s as written by etcd %s.\n%s", kind, version, lines(kind, s.kinds[kind].chosen()))
		if err := os.WriteFile(filepath.Join(dir, kind+".hex"), []byte(text), 0o644); err != nil {
			return err
		}
	}
	var tables strings.Builder
	s.presence.Write(&tables, version)
	return os.WriteFile(filepath.Join(dir, "presence.md"), []byte(tables.String()), 0o644)
}

func lines(kind string, chosen []choice) string {
	var out strings.Builder
	last := ""
	for _, c := range chosen {
		if heading := c.heading(); heading != last {
			fmt.Fprintf(&out, "# %s\n", heading)
			last = heading
		}
		fmt.Fprintf(&out, "%s %s\n", kind, hex.EncodeToString(c.bytes))
	}
	return out.String()
}
