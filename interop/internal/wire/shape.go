package wire

import (
	"fmt"
	"math"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Shape describes how a message is encoded, not its content: which fields occur, in which order,
// and whether each is zero. Two messages of one shape exercise an encoder and a decoder in the same
// way, so keeping one of them is enough.
//
// A MsgHeartbeat with a zero commit may have the shape "1=8 2:N 3:N 4:n 8:0": enum values are
// spelled out, numbers are n, N (the top bit set, as in half of all member ids) or 0, and
// repetitions of the same shape are folded into one with a +.
func Shape(kind protoreflect.MessageDescriptor, message []byte) (string, error) {
	return shape(kind, message, math.MaxInt)
}

// Outline returns the shape of the top-level fields, present or zero, without their content.
func Outline(kind protoreflect.MessageDescriptor, message []byte) (string, error) {
	outline, err := shape(kind, message, 0)
	return strings.ReplaceAll(outline, "N", "n"), err
}

// shape descends into nested messages down to a depth; below it they count as plain fields.
func shape(kind protoreflect.MessageDescriptor, message []byte, depth int) (string, error) {
	fields, err := Fields(message)
	if err != nil {
		return "", err
	}
	var parts []string
	for _, field := range fields {
		part, err := shapeOf(kind.Fields().ByNumber(field.Number), field, depth)
		if err != nil {
			return "", fmt.Errorf("%s.%d: %w", kind.FullName(), field.Number, err)
		}
		if last := len(parts) - 1; last >= 0 && strings.TrimSuffix(parts[last], "+") == part {
			parts[last] = part + "+"
			continue
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " "), nil
}

func shapeOf(known protoreflect.FieldDescriptor, field Field, depth int) (string, error) {
	switch {
	case known == nil:
		return fmt.Sprintf("%d?%d", field.Number, field.Type), nil
	case isMessage(known, field) && depth > 0:
		inner, err := shape(known.Message(), field.Bytes, depth-1)
		return fmt.Sprintf("%d{%s}", field.Number, inner), err
	case known.Kind() == protoreflect.EnumKind:
		return fmt.Sprintf("%d=%d", field.Number, field.Value), nil
	default:
		return fmt.Sprintf("%d:%s", field.Number, size(field)), nil
	}
}

func size(field Field) string {
	switch {
	case field.IsZero():
		return "0"
	case field.Value > math.MaxInt64:
		return "N"
	default:
		return "n"
	}
}

func isMessage(known protoreflect.FieldDescriptor, field Field) bool {
	return known.Kind() == protoreflect.MessageKind && field.Type == protowire.BytesType
}
