package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestDiffers(t *testing.T) {
	if err := differs("a: 1\nb: 2\n", "a: 1\nb: 2\n", nil); err != nil {
		t.Error(err)
	}
	for actual, want := range map[string]string{
		"a: 1\nb: 3\n":       "line 2",
		"a: 1\n":             "should be b: 2",
		"a: 1\nb: 2\nc: 3\n": "and is    c: 3",
		"":                   "line 1",
	} {
		err := differs("a: 1\nb: 2\n", actual, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", actual, err)
		}
	}
}

func TestKnownDifferences(t *testing.T) {
	if err := differs("a: 1\nb: 2\n", "a: 1\nb: 3\n", []string{"b"}); err != nil {
		t.Error(err)
	}
	for actual, known := range map[string]string{"a: 1\nb: 2\n": "b", "a: 2\nb: 3\n": "b"} {
		if differs("a: 1\nb: 2\n", actual, []string{known}) == nil {
			t.Errorf("%q passed, known difference %s", actual, known)
		}
	}
	path := filepath.Join(t.TempDir(), "known.txt")
	if err := os.WriteFile(path, []byte("# Why.\nraw tls method GET\nraw plain no path\nraw * no text\ngo tls put\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	steps, err := knownOf(path, language{name: "raw"}, mode{name: "tls"})
	if err != nil || !slices.Equal(steps, []string{"method GET", "no text"}) {
		t.Errorf("%q, %v", steps, err)
	}
	if _, err := knownOf("../../languages/known.txt", language{name: "raw"}, mode{name: "tls"}); err != nil {
		t.Error(err)
	}
}

func TestChoose(t *testing.T) {
	name := func(l language) string { return l.name }
	some, err := choose(languages, "rust,go", name)
	if err != nil || len(some) != 2 || some[0].name != "rust" {
		t.Errorf("%v, %v", some, err)
	}
	if _, err := choose(languages, "cobol", name); err == nil {
		t.Error("an unknown language was accepted")
	}
	if all, _ := choose(languages, "", name); len(all) != len(languages) {
		t.Error("an empty name list did not select all languages")
	}
}
