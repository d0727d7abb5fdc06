package frames

import (
	"bytes"
	"reflect"
	"testing"
)

func TestLogSkipsPaddingAndEndsAtZero(t *testing.T) {
	file := bytes.Join([][]byte{
		{3, 0, 0, 0, 0, 0, 0, 0x85}, []byte("abc"), make([]byte, 5),
		{8, 0, 0, 0, 0, 0, 0, 0}, []byte("whatever"),
		make([]byte, 32), []byte("not part of the log"),
	}, nil)
	records, err := Log(file)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, records, "abc", "whatever")
}

func TestLogRefusesARecordBeyondTheFile(t *testing.T) {
	if records, err := Log([]byte{9, 0, 0, 0, 0, 0, 0, 0, 'x'}); err == nil {
		t.Fatalf("read %q from a truncated file", records)
	}
}

func TestMessagesDropsAnIncompleteLastFrame(t *testing.T) {
	stream := append(counts(2), "hi"...)
	stream = append(stream, counts(5)...)
	stream = append(stream, "cut"...)
	expect(t, Messages(stream), "hi")
}

func TestAppendsTellsMessagesFromEntries(t *testing.T) {
	stream := bytes.Join([][]byte{
		{0},
		{2}, counts(4), []byte("whole"[:4]),
		{1}, counts(2), counts(1), []byte("a"), counts(2), []byte("bc"), counts(77),
		{0},
		// The commit index is incomplete.
		{1}, counts(1), counts(1), []byte("d"), {0, 0, 0},
	}, nil)
	messages, entries, err := Appends(stream)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, messages, "whol")
	expect(t, entries, "a", "bc")
}

func TestAppendsRefusesAnUnknownFrame(t *testing.T) {
	if _, _, err := Appends([]byte{3}); err == nil {
		t.Fatal("accepted a frame of type 3")
	}
}

func TestEnvelopeStopsBeforeTheDatabase(t *testing.T) {
	message, whole := Envelope(append(counts(3), "msgdatabase"...))
	if !whole || string(message) != "msg" {
		t.Fatalf("got %q", message)
	}
}

// counts encodes a number below 256 as on the streams.
func counts(n byte) []byte { return []byte{0, 0, 0, 0, 0, 0, 0, n} }

func expect(t *testing.T, got [][]byte, want ...string) {
	t.Helper()
	var texts []string
	for _, one := range got {
		texts = append(texts, string(one))
	}
	if !reflect.DeepEqual(texts, want) {
		t.Fatalf("got %q, want %q", texts, want)
	}
}
