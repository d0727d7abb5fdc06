package suite

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"bowline/interop/internal/netns"
)

func TestMain(m *testing.M) {
	netns.Main()
	os.Exit(m.Run())
}

const events = `{"Action":"start"}
{"Action":"run","Test":"TestA"}
{"Action":"run","Test":"TestA/one"}
{"Action":"output","Test":"TestA/one","Output":"=== RUN   TestA/one\n"}
{"Action":"output","Test":"TestA/one","Output":"    a_test.go:7: no luck\n"}
{"Action":"fail","Test":"TestA/one"}
{"Action":"skip","Test":"TestA/two"}
{"Action":"pass","Test":"TestA/three"}
{"Action":"fail","Test":"TestA"}
{"Action":"fail"}
`

func resultOf(name, text string, err error) *Result {
	return readResult(Test{"e2e", name}, []byte(text), err)
}

func TestResult(t *testing.T) {
	r := resultOf("TestA", events, errors.New("exit status 1"))
	if got := r.Leaves("fail"); !slices.Equal(got, []string{"TestA/one"}) {
		t.Errorf("failed: %v", got)
	}
	if got := r.Leaves("skip"); !slices.Equal(got, []string{"TestA/two"}) {
		t.Errorf("skipped: %v", got)
	}
	if want := "e2e: 0 passed, 1 failed, 0 skipped; with subtests 1, 2, 1; 0 s of tests"; Summarize("e2e", []*Result{r}) != want {
		t.Error(Summarize("e2e", []*Result{r}))
	}
	if !strings.Contains(string(r.Output), "no luck") {
		t.Errorf("output: %s", r.Output)
	}
}

// assertions has two failed assertions of one test, with its log, and a skip without a message.
const assertions = `=== RUN   TestA
    a_test.go:5: begun
    logger.go:146: a log line
    a_test.go:7: 
        \tError Trace:\t/a_test.go:7
        \tError:      \tNot equal: 
        \t            \texpected: 1
        \t            \tactual  : 2
        \tTest:       \tTestA
        \tMessages:   \tmembers,
        \t            \tall
    a_test.go:8: body is:
        Error: none
    a_test.go:9: 
        \tError Trace:\t/a_test.go:9
        \t            \t\t\t\t/b_test.go:1
        \tError:      \tShould be true
        \tTest:       \tTestA
    a_test.go:10: 
`

func TestAssertions(t *testing.T) {
	var text strings.Builder
	for line := range strings.Lines(strings.ReplaceAll(assertions, `\t`, "\t")) {
		encoded, err := json.Marshal(map[string]string{"Action": "output", "Test": "TestA", "Output": line})
		if err != nil {
			t.Fatal(err)
		}
		text.Write(append(encoded, '\n'))
	}
	r := resultOf("TestA", text.String()+`{"Action":"fail","Test":"TestA"}`, nil)
	want := []string{"Error: Not equal: expected: 1 actual : 2 Messages: members, all", "Error: Should be true"}
	if got := r.Assertions["TestA"]; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got, want := r.Notes["TestA"], []string{"a_test.go:5: begun", "a_test.go:7:", "a_test.go:8: body is:", "a_test.go:9:", "a_test.go:10:"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	for pattern, want := range map[string]bool{"Not equal|be true": true, "be true": false, "begun": false} {
		if got := r.ExplainedBy("TestA", regexp.MustCompile(pattern)); got != want {
			t.Errorf("%q: %v", pattern, got)
		}
	}
	r.Assertions = nil
	for pattern, want := range map[string]bool{`^a_test\.go:10:$`: true, "begun": true, "log line": false} {
		if got := r.ExplainedBy("TestA", regexp.MustCompile(pattern)); got != want {
			t.Errorf("%q: %v", pattern, got)
		}
	}
}

func TestATestThatDoesNotEndHasFailed(t *testing.T) {
	begun := `{"Action":"run","Test":"TestA"}` + "\npanic: test timed out\n"
	for _, err := range []error{nil, errors.New("signal: killed")} {
		if r := resultOf("TestA", begun, err); !r.Failed() || r.Broken == "" {
			t.Errorf("%v: %v", err, r.Outcomes)
		}
	}
}

func TestAFailedProcessIsAFailedTest(t *testing.T) {
	passed := `{"Action":"pass","Test":"TestA"}` + "\n"
	if r := resultOf("TestA", passed, errors.New("exit status 2")); !r.Failed() {
		t.Error("passed although its process failed")
	}
	if r := resultOf("TestA", passed+leaked, errors.New("exit status 1")); r.Failed() {
		t.Error("failed for the goroutines of the test itself")
	}
	if r := resultOf("TestA", passed, nil); r.Failed() {
		t.Error("failed")
	}
}

// TestRun runs a script in place of test2json: a test that passes, one that fails, and one that
// hangs. Each starts a process that outlives it.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// Its arguments: -t SUITE -bin-dir DIR, then the flags of the test.
	converter := write("test2json", `#!/bin/sh
test -x "$4/etcd" -a -x "$4/etcd-last-release" -a -d ../fixtures -a -e ../../etcd.conf.yml.sample -a -d "$TMPDIR" || exit 3
case "$*" in
*-test.list*) for name in TestGood TestBad ok; do echo "{\"Action\":\"output\",\"Output\":\"$name\"}"; done; exit;;
*'^TestGood$/^one$'*) name=TestGood/one action=$ACTION;;
*) name=TestBad action=fail;;
esac
sleep 600 &
echo "{\"Action\":\"$action\",\"Test\":\"$name\"}"
test $action = pass
`)
	if err := os.Mkdir(filepath.Join(dir, "fixtures"), 0o755); err != nil {
		t.Fatal(err)
	}
	program := write("program", "#!/bin/sh\n")
	bench, err := New(Options{Etcd: program, LastRelease: program, Ctl: program, Utl: program, Module: dir, Sample: program,
		Compiled: dir + "/", Converter: converter, Out: filepath.Join(dir, "out"), Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer bench.Close()
	tests, err := bench.List("program")
	if want := []Test{{"program", "TestGood"}, {"program", "TestBad"}}; err != nil || !slices.Equal(tests, want) {
		t.Errorf("tests: %v, %v", tests, err)
	}
	if r := bench.Run(Test{"program", "TestGood/one"}, "ACTION=pass"); r.Verdict() != "pass" {
		t.Errorf("%s: %s", r.Verdict(), r.Output)
	}
	r := bench.Run(Test{"program", "TestBad"})
	if r.Verdict() != "fail" {
		t.Errorf("%s: %s", r.Verdict(), r.Output)
	}
	path, err := bench.Keep(r, "first-")
	if err != nil || filepath.Base(path) != "first-program-TestBad.log" {
		t.Errorf("kept as %s, %v", path, err)
	}
}
