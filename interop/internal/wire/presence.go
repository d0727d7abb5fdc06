package wire

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Presence counts, for each kind of message and each of its fields, how often
// the field stood in the bytes with a value, stood there with zero, or was
// left out.
type Presence struct {
	tables map[string]*table
}

// table is what was seen of one kind.
type table struct {
	kind     protoreflect.MessageDescriptor
	messages int
	fields   map[protowire.Number]*count
	// unordered counts messages whose fields were not in ascending order, and keeps one such order.
	unordered int
	order     string
}

type count struct{ set, zero int }

// NewPresence returns an empty count.
func NewPresence() *Presence { return &Presence{tables: map[string]*table{}} }

// Add counts a message and those inside it. The label tells apart what one
// message type is used for, such as the raft message type.
func (p *Presence) Add(kind protoreflect.MessageDescriptor, label string, message []byte) error {
	name := string(kind.FullName())
	if label != "" {
		name += " " + label
	}
	return p.add(kind, name, message)
}

func (p *Presence) add(kind protoreflect.MessageDescriptor, name string, message []byte) error {
	fields, err := Fields(message)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	p.table(kind, name).add(fields)
	for _, field := range fields {
		known := kind.Fields().ByNumber(field.Number)
		if known == nil || !isMessage(known, field) {
			continue
		}
		if err := p.add(known.Message(), nested(name, known), field.Bytes); err != nil {
			return err
		}
	}
	return nil
}

// nested names the table of a message inside another. The raft library fills
// the same type in several places, which need not treat zeros alike, so
// those are kept apart by where they stand.
func nested(parent string, field protoreflect.FieldDescriptor) string {
	name := string(field.Message().FullName())
	if !strings.HasPrefix(name, "raftpb.") {
		return name
	}
	parent, _, _ = strings.Cut(parent, " in ")
	return fmt.Sprintf("%s in %s, %s", name, parent, field.Name())
}

func (p *Presence) table(kind protoreflect.MessageDescriptor, name string) *table {
	found, ok := p.tables[name]
	if !ok {
		found = &table{kind: kind, fields: map[protowire.Number]*count{}}
		p.tables[name] = found
	}
	return found
}

func (t *table) add(fields []Field) {
	t.messages++
	zero := map[protowire.Number]bool{}
	for _, field := range fields {
		already, seen := zero[field.Number]
		zero[field.Number] = field.IsZero() && (!seen || already)
	}
	for number, isZero := range zero {
		if t.fields[number] == nil {
			t.fields[number] = &count{}
		}
		if isZero {
			t.fields[number].zero++
		} else {
			t.fields[number].set++
		}
	}
	if !slices.IsSortedFunc(fields, byNumber) {
		t.unordered++
		t.order = order(fields)
	}
}

func byNumber(a, b Field) int { return cmp.Compare(a.Number, b.Number) }

func order(fields []Field) string {
	var numbers []string
	for _, field := range fields {
		numbers = append(numbers, fmt.Sprint(field.Number))
	}
	return strings.Join(numbers, " ")
}

// Write prints the tables as Markdown. Messages of proto2 syntax come in
// full. Of proto3 only the surprises are worth a reader's time: a field
// without presence that was written although zero.
func (p *Presence) Write(out io.Writer, version string) {
	fmt.Fprintf(out, "# Presence of fields in what etcd %s wrote\n\n", version)
	fmt.Fprintf(out, "Counted over every message seen while capturing, not only over those kept here. *set*: present and not zero; ")
	fmt.Fprintf(out, "*zero*: present\nwith a zero value or empty; *absent*: not in the bytes. Written by `interop/cmd/capture`.\n")
	names := slices.Sorted(maps.Keys(p.tables))
	for _, name := range names {
		if table := p.tables[name]; table.kind.Syntax() == protoreflect.Proto2 {
			table.write(out, name)
		}
	}
	fmt.Fprintf(out, "\n## Messages of proto3 syntax\n\n| message | seen | fields present although zero | order |\n| --- | ---: | --- | --- |\n")
	for _, name := range names {
		if table := p.tables[name]; table.kind.Syntax() == protoreflect.Proto3 {
			fmt.Fprintf(out, "| %s | %d | %s | %s |\n", name, table.messages, table.surprises(), table.orderText())
		}
	}
}

func (t *table) write(out io.Writer, name string) {
	fmt.Fprintf(out, "\n## %s\n\n%d seen; fields %s.\n\n| # | field | set | zero | absent |\n| ---: | --- | ---: | ---: | ---: |\n",
		name, t.messages, t.orderText())
	for _, number := range t.numbers() {
		seen := t.fields[number]
		if seen == nil {
			seen = &count{}
		}
		fmt.Fprintf(out, "| %d | %s | %d | %d | %d |\n",
			number, t.fieldName(number), seen.set, seen.zero, t.messages-seen.set-seen.zero)
	}
}

// numbers lists the fields of the descriptor and any others that were seen.
func (t *table) numbers() []protowire.Number {
	all := map[protowire.Number]bool{}
	for i := range t.kind.Fields().Len() {
		all[t.kind.Fields().Get(i).Number()] = true
	}
	for number := range t.fields {
		all[number] = true
	}
	return slices.Sorted(maps.Keys(all))
}

func (t *table) fieldName(number protowire.Number) string {
	if known := t.kind.Fields().ByNumber(number); known != nil {
		return string(known.Name())
	}
	return "(unknown to 3.7.1)"
}

func (t *table) surprises() string {
	var found []string
	for _, number := range t.numbers() {
		if seen := t.fields[number]; seen != nil && seen.zero > 0 {
			found = append(found, fmt.Sprintf("%s (%d)", t.fieldName(number), seen.zero))
		}
	}
	if len(found) == 0 {
		return "none"
	}
	return strings.Join(found, ", ")
}

func (t *table) orderText() string {
	if t.unordered == 0 {
		return "ascending"
	}
	return fmt.Sprintf("not ascending in %d, e.g. %s", t.unordered, t.order)
}
