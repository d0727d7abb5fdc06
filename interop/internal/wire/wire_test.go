package wire

import (
	"strings"
	"testing"
)

func TestShapeTellsZeroFromAbsent(t *testing.T) {
	for _, c := range []struct{ kind, message, shape string }{
		{"raftpb.HardState", "\x08\x01\x10\x00\x18\x03", "1:n 2:0 3:n"},
		{"raftpb.HardState", "\x08\x01\x18\x03", "1:n 3:n"},
		{"raftpb.Entry", "\x08\x01\x10\x02", "1=1 2:n"},
		{"raftpb.Entry", "\x10\x02\x22\x00", "2:n 4:0"},
		{"raftpb.Message", "\x08\x02\x3a\x03\x22\x01x\x3a\x03\x22\x01y", "1=2 7{4:n}+"},
		{"raftpb.Message", "\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "2:N"},
	} {
		kind, err := Describe(c.kind)
		if err != nil {
			t.Fatal(err)
		}
		if shape, err := Shape(kind, []byte(c.message)); err != nil || shape != c.shape {
			t.Errorf("%s %x: got %q, %v; want %q", c.kind, c.message, shape, err, c.shape)
		}
	}
}

func TestOutlineCoversOnlyTopLevelFields(t *testing.T) {
	kind, err := Describe("raftpb.Message")
	if err != nil {
		t.Fatal(err)
	}
	message := "\x08\x02\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x28\x00\x3a\x03\x22\x01x\x3a\x02\x10\x01"
	if outline, err := Outline(kind, []byte(message)); err != nil || outline != "1=2 2:n 5:0 7:n+" {
		t.Fatalf("got %q, %v", outline, err)
	}
}

func TestPresenceCountsNestedMessagesByPlace(t *testing.T) {
	kind, err := Describe("raftpb.Message")
	if err != nil {
		t.Fatal(err)
	}
	p := NewPresence()
	// Type MsgProp, an entry of data "x", and reject false out of order.
	if err := p.Add(kind, "MsgProp", []byte("\x08\x02\x50\x00\x3a\x03\x22\x01x")); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	p.Write(&out, "test")
	for _, line := range []string{
		"## raftpb.Message MsgProp",
		"1 seen; fields not ascending in 1, e.g. 1 10 7.",
		"| 10 | reject | 0 | 1 | 0 |",
		"## raftpb.Entry in raftpb.Message MsgProp, entries",
		"| 1 | Type | 0 | 0 | 1 |",
		"| 4 | Data | 1 | 0 | 0 |",
	} {
		if !strings.Contains(out.String(), line+"\n") {
			t.Errorf("no line %q in\n%s", line, out.String())
		}
	}
}

func TestFieldsRefusesTruncatedBytes(t *testing.T) {
	if fields, err := Fields([]byte{0x22, 5, 'x'}); err == nil {
		t.Fatalf("read %v from truncated bytes", fields)
	}
}
