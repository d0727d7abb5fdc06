package main

import (
	"slices"
	"testing"

	"bowline/interop/internal/suite"
)

func TestJudge(t *testing.T) {
	results := []*suite.Result{
		{
			Test:     suite.Test{Suite: "e2e", Name: "TestA"},
			Outcomes: map[string]string{"TestA": "fail", "TestA/one": "fail", "TestA/two": "skip", "TestA/three": "pass"},
			Reasons:  map[string]string{"TestA/one": "a_test.go:7: no luck"},
		},
		{Test: suite.Test{Suite: "e2e", Name: "TestB"}, Outcomes: map[string]string{"TestB": "pass"}},
	}
	for _, c := range []struct {
		list string
		want []string
	}{
		{"e2e fail TestA/one no luck\ne2e skip TestA/two why # comment\n", nil},
		{"# all\n\ne2e fail TestA no luck\ne2e skip TestA why\n", nil},
		{"e2e fail TestA/one no luck", []string{"unexpected skip: e2e TestA/two: "}},
		{"e2e skip TestA why", []string{"unexpected fail: e2e TestA/one: a_test.go:7: no luck"}},
		{"common fail TestA other suite\ne2e skip TestA why", []string{"unexpected fail: e2e TestA/one: a_test.go:7: no luck"}},
		{"e2e fail TestA/on a prefix only\ne2e fail TestA/one x\ne2e skip TestA why",
			[]string{"expected fail did not occur, remove it from the list: e2e TestA/on"}},
		{"e2e fail TestA x\ne2e skip TestA x\ne2e fail TestB x", []string{"expected fail did not occur, remove it from the list: e2e TestB"}},
		{"e2e fail TestA x\ne2e skip TestA x\ne2e fail TestC not run", nil},
		{"e2e may-fail TestA x\ne2e skip TestA x\ne2e may-fail TestB x", nil},
		{"e2e fail TestA x\ne2e skip TestA x\ne2e with TestA A=1 x", nil},
		{"e2e with TestA A=1 x\ne2e skip TestA x", []string{"unexpected fail: e2e TestA/one: a_test.go:7: no luck"}},
		{"e2e may-fail TestA x", []string{"unexpected skip: e2e TestA/two: "}},
	} {
		list, err := parseExpected(c.list)
		if err != nil {
			t.Fatal(err)
		}
		if got := list.judge(results); !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.list, got, c.want)
		}
	}
}

func TestSettings(t *testing.T) {
	list, err := parseExpected("e2e with TestA A=1 x\ncommon with TestA B=2 x\ne2e with TestA C=3 y z\ne2e fail TestA D=4")
	if err != nil {
		t.Fatal(err)
	}
	if got := list.settings(suite.Test{Suite: "e2e", Name: "TestA"}); !slices.Equal(got, []string{"A=1", "C=3"}) {
		t.Errorf("got %q", got)
	}
	if got := list.settings(suite.Test{Suite: "e2e", Name: "TestB"}); got != nil {
		t.Errorf("got %q", got)
	}
}

func TestBadLists(t *testing.T) {
	for _, list := range []string{"e2e fail TestA", "e2e passes TestA x", "TestA", "e2e with TestA x", "e2e with TestA A=1"} {
		if _, err := parseExpected(list); err == nil {
			t.Errorf("%q: no error", list)
		}
	}
}
