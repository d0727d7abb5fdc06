package normal

import (
	"fmt"
	"strings"
	"testing"
)

// pair is the output of two servers for the same command.
type pair struct{ command, one, other string }

func (p pair) same() bool {
	words := []string{p.command}
	one := New("127.0.0.1:11111", "<client>", "/tmp/one", "<dir>").Text(words, p.one)
	other := New("127.0.0.1:22222", "<client>", "/tmp/other", "<dir>").Text(words, p.other)
	return one == other
}

func TestMayDiffer(t *testing.T) {
	for _, p := range []pair{
		{"member list", "8e9e05c52164694d, http://127.0.0.1:11111", "1e9e05c52164694d, http://127.0.0.1:22222"},
		{"get", `"cluster_id":14841639068965178418,"raft_term":2`, `"cluster_id":10276657743932975437,"raft_term":3`},
		{"get", `"RaftTerm" : 2`, `"RaftTerm" : 14`},
		{"get", `{"ts":"2026-11-15T18:20:53.635044Z","target":"etcd-endpoints://0x2799caff4e00/127.0.0.1:11111"}`,
			`{"ts":"2026-11-15T18:20:54.6Z","target":"etcd-endpoints://0x1/127.0.0.1:22222"}`},
		{"endpoint health", "is healthy: successfully committed proposal: took = 1.25ms", "is healthy: successfully committed proposal: took = 932.1µs"},
		{"endpoint health", `"took":"4.1351ms"`, `"took":"1s"`},
		{"endpoint status", "127.0.0.1:11111, 3.7.0, 20 kB, 16 kB, 20%, 2.1 GB, true, false, 2, 4, 4, , , false",
			"127.0.0.1:22222, 3.7.0, 1.2 MB, 160 kB, 2%, 2.1 GB, true, false, 12, 47, 46, , , false"},
		{"endpoint status", "│ 127.0.0.1:11111 │   20 kB │  16 kB │     20% │ 2.1 GB │ true │ false │ 2 │  5 │  5 │",
			"│ 127.0.0.1:22222 │ 1.2 MB │ 8 B │ 0% │ 2.1 GB │ true │ false │ 12 │  47 │  46 │"},
		{"snapshot status", `{"hash":1,"revision":2,"totalKey":1,"totalSize":20480}`, `{"hash":2,"revision":2,"totalKey":1,"totalSize":24576}`},
		{"snapshot status", "5a8d1c3e, 4, 3, 20 kB, 3.7.0", "ff, 4, 3, 33 kB, 3.7.0"},
		{"lease timetolive", "granted with TTL(100s), remaining(99s)", "granted with TTL(100s), remaining(100s)"},
		{"GET /version", `{"etcdcluster":"3.7.0","storage":"3.7.0"}`, `{"etcdcluster":"3.7.0","storage":"3.5.0"}`},
		{"endpoint status", `"storageVersion":"3.7.0"`, `"storageVersion":"3.5.0"`},
		{"endpoint status", "│ 3.7.2 │ 3.7.0 │ 20 kB", "│ 3.7.2 │ 3.5.0 │ 20 kB"},
	} {
		if !p.same() {
			t.Errorf("normalized outputs differ: %+v", p)
		}
	}
}

func TestMustNotDiffer(t *testing.T) {
	for _, p := range []pair{
		{"get", `"revision":2`, `"revision":3`},
		{"get", "a\n1\n", "a\n1\n\n"},
		{"get", "a  b", "a b"},
		{"get", `"dbSizeQuota":2147483648`, `"dbSizeQuota":8589934592`},
		{"endpoint hashkv", `"hash":2587454935`, `"hash":2587454936`},
		{"endpoint status", "3.7.2, 3.7.0, 20 kB, 16 kB, 20%, 2.1 GB, true, false, 2, 4, 4, , , false", "3.7.2, 3.7.0, 20 kB, 16 kB, 20%, 2.1 GB, true, true, 2, 4, 4, , , false"},
		{"snapshot status", "5a8d1c3e, 4, 3, 20 kB, 3.7.0", "5a8d1c3e, 5, 3, 20 kB, 3.7.0"},
		{"lease timetolive", "granted with TTL(100s)", "granted with TTL(99s)"},
		{"GET /version", `{"etcdcluster":"3.7.0","storage":"3.7.0"}`, `{"etcdcluster":"3.7.0","storage":"3.6.0"}`},
		{"endpoint status", "│ 3.7.2 │ 3.7.0 │ 20 kB", "│ 3.7.9 │ 3.5.0 │ 20 kB"},
		{"lease grant", "granted with TTL(100s)", "granted with TTL(99s)"},
		{"lease timetolive", "already expired", "remaining(1s)"},
		// Different ids stay different.
		{"x", "8e9e05c52164694d 8e9e05c52164694d", "1e9e05c52164694d 2e9e05c52164694d"},
		{"x", "8e9e05c52164694d", ""},
		{"get", "http://127.0.0.1:11111", "http://127.0.0.1:33333"},
	} {
		if p.same() {
			t.Errorf("a difference was not detected: %+v", p)
		}
	}
}

func TestAnIDIsTheSameInHexAndDecimal(t *testing.T) {
	n := New()
	if one, other := n.Text(nil, "8e9e05c52164694d"), n.Text(nil, `"10276657743932975437"`); `"`+one+`"` != other {
		t.Errorf("got ids %s and %s", one, other)
	}
	if id := FirstID(`{"revision":1,"ID":7587898932526418698}`); id != "694da1e070cd8b0a" {
		t.Errorf("unexpected first id %s", id)
	}
}

// TestASmallIDIsTheSameInHexAndDecimal checks ids whose first byte is zero: their decimal form may
// have as few digits as an id in hex.
func TestASmallIDIsTheSameInHexAndDecimal(t *testing.T) {
	const id, other = 0x0012_3456_789a_bcde, 0x0000_0123_4567_89ab
	for _, known := range []bool{true, false} {
		for _, id := range []uint64{id, other} {
			n := New()
			if known {
				n.Know(id)
			} else if id == other {
				// Too short to be recognized without being known.
				continue
			}
			for format, want := range map[string]string{
				"lease %016x granted": "lease <id 1> granted",
				"%x, started":         "<id 1>, started",
				`"ID":%d,`:            `"ID":<id 1>,`,
				`"ID":"%d",`:          `"ID":"<id 1>",`,
				`"ID" : %d`:           `"ID" : <id 1>`,
				"memberID:%d alarm:":  "memberID:<id 1> alarm:",
			} {
				if got := n.Text(nil, fmt.Sprintf(format, id)); got != want {
					t.Errorf("known %v: got %q, want %q", known, got, want)
				}
			}
		}
	}
}

// TestAnIDInHexMayHaveOnlyDecimalDigits checks that such an id is not read as decimal.
func TestAnIDInHexMayHaveOnlyDecimalDigits(t *testing.T) {
	const id = 0x1234_5678_9012_3456
	n := New()
	for _, text := range []string{"lease 1234567890123456 granted", `"ID":1311768467284833366`} {
		if got := n.Text(nil, text); !strings.Contains(got, "<id 1>") {
			t.Errorf("got %q", got)
		}
	}
	n.Know(id)
	if got := n.Text(nil, `"ID":"1234567890123456"`); got != `"ID":"<id 1>"` {
		t.Errorf("a known id: got %q", got)
	}
	if got := New().Text([]string{"member", "list", "--hex"}, `"ID":"1234567890123456" 1311768467284833366`); got != `"ID":"<id 1>" <id 1>` {
		t.Errorf("with --hex: got %q", got)
	}
}

func TestFirstID(t *testing.T) {
	for text, want := range map[string]string{
		"lease 00123456789abcde granted with TTL(5s)":                  "123456789abcde",
		`{"revision":1,"ID":5124095576030430}`:                         "123456789abcde",
		`{"cluster_id":14841639068965178418,"ID":7587898932526418698}`: "cdf818194e3a8c32",
		"nothing of 12345": "",
	} {
		if got := FirstID(text); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func TestUnordered(t *testing.T) {
	if Unordered("b\na") != Unordered("a\nb") || Unordered("b\na") == Unordered("a\na") {
		t.Error("lines are not sorted")
	}
	if Unordered(`[{"a"},{"b"}]`) != Unordered(`[{"b"},{"a"}]`) || Unordered(`[{"a"},{"b"}]`) == Unordered(`[{"a"},{"c"}]`) {
		t.Error("objects are not sorted")
	}
}

func TestMembersAreUnordered(t *testing.T) {
	text := func(list string) string { return New().Text(nil, `ETCD_INITIAL_CLUSTER="`+list+`"`) }
	if text("a=<peer>,b=x") != text("b=x,a=<peer>") || text("a=x,b=x") == text("a=x,b=y") {
		t.Error(text("b=x,a=<peer>"))
	}
}
