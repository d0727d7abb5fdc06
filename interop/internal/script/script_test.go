package script

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestWords(t *testing.T) {
	for line, want := range map[string][]string{
		`put a  b`:               {"put", "a", "b"},
		`put "a b" '$x "y"'`:     {"put", "a b", `$x "y"`},
		`get --rev="3" ""`:       {"get", "--rev=3", ""},
		`put "\x01\n" a'b'"c"d `: {"put", "\x01\n", "abcd"},
	} {
		words, err := Words(line)
		if err != nil || !slices.Equal(words, want) {
			t.Errorf("%s: %q, %v", line, words, err)
		}
	}
}

func TestInvalidLines(t *testing.T) {
	for _, line := range []string{`put "a`, `put 'a`, `until get a`, `end`, `| input`, `   `} {
		if statements, err := Parse("x", line); err == nil {
			t.Errorf("%s: %+v", line, statements)
		}
	}
}

func TestStatements(t *testing.T) {
	text := strings.Join([]string{
		"# about this",
		"",
		"lease = lease grant 10",
		"txn -i",
		"| put a b",
		"|",
		"background w watch a",
		`until get a has "b c"`,
		`http POST /v3/kv/put {"key": "YQ=="}`,
		"unordered member list",
	}, "\n")
	want := []Statement{
		{Line: 3, Verb: Ctl, Name: "lease", Words: []string{"lease", "grant", "10"}},
		{Line: 4, Verb: Ctl, Words: []string{"txn", "-i"}, Stdin: "put a b\n\n"},
		{Line: 7, Verb: Background, Name: "w", Words: []string{"watch", "a"}},
		{Line: 8, Verb: Until, Words: []string{"get", "a"}, Text: "b c"},
		{Line: 9, Verb: HTTP, Words: []string{"POST", "/v3/kv/put", `{"key": "YQ=="}`}},
		{Line: 10, Verb: Ctl, Words: []string{"member", "list"}, Unordered: true},
	}
	statements, err := Parse("x", text)
	if err != nil || len(statements) != len(want) {
		t.Fatalf("%v, %+v", err, statements)
	}
	lines := strings.Split(text, "\n")
	for i, statement := range statements {
		want[i].File, want[i].Written = "x", lines[statement.Line-1]
		if !reflect.DeepEqual(statement, want[i]) {
			t.Errorf("got\n%+v\nwant\n%+v", statement, want[i])
		}
	}
}
