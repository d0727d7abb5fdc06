package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"bowline/interop/internal/suite"
)

// causes begins the lists of these tests.
const causes = "cause luck no luck$\ncause small one member\n"

func parsed(t *testing.T, list string) expectations {
	t.Helper()
	expected, err := parseExpected(causes + list + "\ncommon skip TestUnused luck x\ncommon skip TestUnused small x\n")
	if err != nil {
		t.Fatal(err)
	}
	return expected
}

func results() []*suite.Result {
	return []*suite.Result{
		{
			Test:       suite.Test{Suite: "e2e", Name: "TestA"},
			Outcomes:   map[string]string{"TestA": "fail", "TestA/one": "fail", "TestA/two": "skip", "TestA/three": "pass"},
			Assertions: map[string][]string{"TestA/one": {"Error: no luck"}},
			Notes:      map[string][]string{"TestA/one": {"a_test.go:7: begun"}, "TestA/two": {"a_test.go:8: one member"}},
		},
		{Test: suite.Test{Suite: "e2e", Name: "TestB"}, Outcomes: map[string]string{"TestB": "pass"}},
	}
}

func TestJudge(t *testing.T) {
	const skips = "e2e skip TestA/two small x\n"
	for _, c := range []struct {
		list string
		want []string
	}{
		{"e2e fail TestA/one luck x\ne2e skip TestA/two small why # comment\n", nil},
		{"# all\n\nproxy-e2e,e2e fail TestA/* luck x\n" + skips, nil},
		{"e2e fail TestA/one luck x", []string{"unexpected skip: e2e TestA/two: a_test.go:8: one member"}},
		{skips, []string{"unexpected fail: e2e TestA/one: Error: no luck"}},
		{"e2e fail TestA luck not of subtests\n" + skips,
			[]string{"unexpected fail: e2e TestA/one: Error: no luck", "fail did not occur, remove it from the list: e2e TestA"}},
		{"e2e fail TestA/one/* luck not of its parent\n" + skips,
			[]string{"unexpected fail: e2e TestA/one: Error: no luck", "fail did not occur, remove it from the list: e2e TestA/one/*"}},
		{"common fail TestA/one luck other suite\n" + skips, []string{"unexpected fail: e2e TestA/one: Error: no luck"}},
		{"e2e fail TestA/one small x\n" + skips,
			[]string{`fail for another reason than ["one member"]: e2e TestA/one: Error: no luck`}},
		{"e2e fail TestA/one luck x\ne2e skip TestA/two luck x",
			[]string{`skip for another reason than ["no luck$"]: e2e TestA/two: a_test.go:8: one member`}},
		{"e2e fail TestA/one small x\ne2e fail TestA/one luck x\n" + skips, nil},
		{"e2e fail TestA/one luck x\ne2e fail TestB luck x\n" + skips, []string{"fail did not occur, remove it from the list: e2e TestB"}},
		{"e2e fail TestA/one luck x\ne2e fail TestC luck not run\n" + skips, nil},
		{"e2e may-fail TestA/one luck x\ne2e may-fail TestB luck x\n" + skips, nil},
		{"e2e may-fail TestA/one small x\n" + skips, []string{`fail for another reason than ["one member"]: e2e TestA/one: Error: no luck`}},
		{"e2e may-fail TestA/one luck x\ne2e may-fail TestA/four luck x\n" + skips,
			[]string{"may-fail did not occur, remove it from the list: e2e TestA/four"}},
		{"e2e fail TestA/one luck x\ne2e with TestA A=1 x\n" + skips, nil},
		{"e2e with TestA A=1 x\n" + skips, []string{"unexpected fail: e2e TestA/one: Error: no luck"}},
		{"e2e may-fail TestA/one luck x", []string{"unexpected skip: e2e TestA/two: a_test.go:8: one member"}},
	} {
		if got := parsed(t, c.list).judge(results()); !slices.Equal(got, c.want) {
			t.Errorf("%q:\n got %q\nwant %q", c.list, got, c.want)
		}
	}
}

func TestABrokenTestIsNeverExpected(t *testing.T) {
	list := parsed(t, "e2e fail TestA/one luck x\ne2e skip TestA/two small x")
	broken := results()[:1]
	broken[0].Broken = "the test did not end: exit status 2"
	if got, want := list.judge(broken), []string{"e2e TestA: the test did not end: exit status 2"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAnExpectedFailureIsNotRepeated(t *testing.T) {
	for list, want := range map[string]bool{
		"e2e fail TestA/one luck x\ne2e skip TestA/two small x":                              false,
		"e2e fail TestA/one small x\ne2e skip TestA/two small x":                             true,
		"e2e may-fail TestA/one luck x\ne2e skip TestA/two small x":                          true,
		"e2e fail TestA/one luck x\ne2e fail TestA/three luck x\ne2e skip TestA/two small x": true,
	} {
		if got := parsed(t, list).retries(results()[0]); got != want {
			t.Errorf("%q: %v", list, got)
		}
	}
	if parsed(t, "e2e may-fail TestB luck x").retries(results()[1]) {
		t.Error("a test that passed is repeated")
	}
}

func TestSecondRunsAreBounded(t *testing.T) {
	for _, c := range []struct {
		again, tests int
		want         bool
	}{{2, 2, false}, {3, 29, true}, {3, 30, false}, {20, 200, false}, {21, 200, true}} {
		if got := tooMany(c.again, c.tests); got != c.want {
			t.Errorf("%d of %d: %v", c.again, c.tests, got)
		}
	}
}

func TestATestThatIsGoneIsReported(t *testing.T) {
	list := parsed(t, "e2e,proxy-e2e fail TestA/one luck x\ne2e with TestGone A=1 x\ne2e may-fail TestLost/one luck x")
	all := []suite.Test{{Suite: "e2e", Name: "TestA"}, {Suite: "proxy-e2e", Name: "TestB"}}
	for _, c := range []struct{ suites, want []string }{
		{[]string{"e2e"}, []string{"no such test, remove it from the list: e2e TestGone", "no such test, remove it from the list: e2e TestLost/one"}},
		{[]string{"proxy-e2e"}, []string{"no such test, remove it from the list: proxy-e2e TestA/one"}},
		{[]string{"proxy-common"}, nil},
	} {
		if got := list.missing(c.suites, all); !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.suites, got, c.want)
		}
	}
}

func TestSettings(t *testing.T) {
	list := parsed(t, "e2e with TestA A=1 x\ncommon with TestA B=2 x\ne2e with TestA C=3 y z\ne2e fail TestA luck D=4")
	if got := list.settings(suite.Test{Suite: "e2e", Name: "TestA"}); !slices.Equal(got, []string{"A=1", "C=3"}) {
		t.Errorf("got %q", got)
	}
	if got := list.settings(suite.Test{Suite: "e2e", Name: "TestB"}); got != nil {
		t.Errorf("got %q", got)
	}
}

func TestBadLists(t *testing.T) {
	for _, list := range []string{
		"e2e fail TestA", "e2e fail TestA luck", "e2e passes TestA luck x", "TestA", "e2e with TestA x y", "e2e with TestA A=1",
		"e2e fail TestA unknown x", "integration fail TestA luck x", "e2e,integration fail TestA luck x",
		"cause luck again", "cause broken (", "cause unused x",
	} {
		if _, err := parseExpected("cause luck no luck\ne2e skip TestZ luck x\n" + list); err == nil {
			t.Errorf("%q: no error", list)
		}
	}
}

func TestChoose(t *testing.T) {
	all := []suite.Test{{Suite: "common", Name: "TestA"}, {Suite: "common", Name: "TestB"}}
	path := filepath.Join(t.TempDir(), "names")
	for _, c := range []struct {
		names, only string
		want        []suite.Test
	}{
		{"common TestA # quick", "", all[:1]},
		{"common TestA\ncommon TestB", "B$", all[1:]},
		{"common TestC", "", nil},
		{"e2e TestA", "", nil},
		{"unknown TestA", "", nil},
		{"common TestA", "B", nil},
	} {
		if err := os.WriteFile(path, []byte(c.names), 0o644); err != nil {
			t.Fatal(err)
		}
		o := options{suites: []string{"common"}, names: path, only: regexp.MustCompile(c.only)}
		got, err := o.choose(all)
		if !slices.Equal(got, c.want) || (err == nil) != (c.want != nil) {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
}

// TestTheListsAreValid reads the lists that CI uses.
func TestTheListsAreValid(t *testing.T) {
	if _, err := readExpected("../../suites/expected.txt"); err != nil {
		t.Error(err)
	}
	if names, err := readNames("../../suites/brief.txt"); err != nil || len(names) == 0 {
		t.Error(names, err)
	}
}
