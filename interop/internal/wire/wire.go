// Package wire reads protobuf bytes without decoding them into structs.
//
// A struct would lose two properties of the encoding that we compare: whether a field with value
// zero was encoded, and the order of fields. So the bytes are read field by field, and the
// descriptors of etcd's own packages serve only for names and nesting.
package wire

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	// Imported for their descriptors, which register themselves.
	_ "go.etcd.io/etcd/api/v3/authpb"
	_ "go.etcd.io/etcd/api/v3/etcdserverpb"
	_ "go.etcd.io/etcd/api/v3/membershippb"
	_ "go.etcd.io/etcd/api/v3/mvccpb"
	_ "go.etcd.io/etcd/server/v3/etcdserver/api/snap/snappb"
	_ "go.etcd.io/etcd/server/v3/lease/leasepb"
	_ "go.etcd.io/etcd/server/v3/storage/wal/walpb"
	_ "go.etcd.io/raft/v3/raftpb"
)

// Field is one encoded field.
type Field struct {
	Number protowire.Number
	Type   protowire.Type
	// Value is the number of a varint or fixed field, and the length of a bytes field.
	Value uint64
	// Bytes is the payload of a bytes field.
	Bytes []byte
}

// IsZero reports whether the field has its type's zero value.
func (f Field) IsZero() bool { return f.Value == 0 }

// Fields splits a message into its fields, in encoded order.
func Fields(message []byte) ([]Field, error) {
	var fields []Field
	for rest := message; len(rest) > 0; {
		field, size, err := next(rest)
		if err != nil {
			return nil, fmt.Errorf("field at offset %d: %w", len(message)-len(rest), err)
		}
		fields = append(fields, field)
		rest = rest[size:]
	}
	return fields, nil
}

func next(b []byte) (Field, int, error) {
	number, kind, tag := protowire.ConsumeTag(b)
	if tag < 0 {
		return Field{}, 0, protowire.ParseError(tag)
	}
	field := Field{Number: number, Type: kind}
	var size int
	switch value := b[tag:]; kind {
	case protowire.VarintType:
		field.Value, size = protowire.ConsumeVarint(value)
	case protowire.Fixed64Type:
		field.Value, size = protowire.ConsumeFixed64(value)
	case protowire.Fixed32Type:
		var narrow uint32
		narrow, size = protowire.ConsumeFixed32(value)
		field.Value = uint64(narrow)
	case protowire.BytesType:
		field.Bytes, size = protowire.ConsumeBytes(value)
		field.Value = uint64(len(field.Bytes))
	default:
		return Field{}, 0, fmt.Errorf("wire type %d is not used by etcd", kind)
	}
	if size < 0 {
		return Field{}, 0, protowire.ParseError(size)
	}
	return field, tag + size, nil
}

// Bytes returns the payload of a bytes field, and whether it is present.
func Bytes(message []byte, number protowire.Number) ([]byte, bool) {
	field, found := find(message, number)
	return field.Bytes, found && field.Type == protowire.BytesType
}

// Number returns a varint field, zero if it is absent.
func Number(message []byte, number protowire.Number) uint64 {
	field, _ := find(message, number)
	return field.Value
}

func find(message []byte, number protowire.Number) (Field, bool) {
	fields, err := Fields(message)
	if err != nil {
		return Field{}, false
	}
	for _, field := range fields {
		if field.Number == number {
			return field, true
		}
	}
	return Field{}, false
}

// Describe finds a message type by its full name, for example "raftpb.Entry".
func Describe(kind string) (protoreflect.MessageDescriptor, error) {
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(kind))
	if err != nil {
		return nil, fmt.Errorf("message type %s: %w", kind, err)
	}
	message, ok := found.(protoreflect.MessageDescriptor)
	if !ok {
		return nil, fmt.Errorf("%s is not a message type", kind)
	}
	return message, nil
}
