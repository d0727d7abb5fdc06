package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"bowline/interop/internal/cluster"
)

func TestAReadMayFailWhenALeaderChangesOrItsMemberIsAway(t *testing.T) {
	here, away := &cluster.Member{Name: "m1"}, &cluster.Member{Name: "m2"}
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	l := &clientLoad{
		terms:  []termSeen{{at(10), 2}},
		absent: []absence{{away, at(20), at(22)}},
		failed: []failure{
			{here, at(5), at(12), errors.New("the leader changed meanwhile")},
			{away, at(21), at(25), errors.New("its member was away")},
			{here, at(20), at(22), errors.New("another was away")},
			{here, at(30), at(31), errors.New("nothing happened")},
		},
	}
	failed := l.unexplained()
	if len(failed) != 2 || failed[0].err.Error() != "another was away" || failed[1].err.Error() != "nothing happened" {
		t.Fatal(failed)
	}
}

func TestHalvesCoverAllFaults(t *testing.T) {
	c := &config{times: 1, seed: 7, faulty: "a library"}
	seen := map[string]bool{}
	for half := range 2 {
		for _, f := range c.chosenFaults(half) {
			seen[f.name] = true
		}
	}
	if all := len(faults) + len(diskAndClockFaults); len(seen) != all {
		t.Fatalf("the halves cover %d of %d faults", len(seen), all)
	}
}

// TestABlindCheckerIsDetected checks that a checker which accepts every history is rejected.
func TestABlindCheckerIsDetected(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	line := `{"body":{"range":{"kvs":[{"key":"k1","value":"2.7","create":2,"mod":2,"version":1}],"count":1}}}`
	if err := os.WriteFile(path, []byte(line), 0o644); err != nil {
		t.Fatal(err)
	}
	blind := filepath.Join(t.TempDir(), "blind")
	if err := os.WriteFile(blind, []byte("#!/bin/sh\necho linearizable: all\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if findsPlanted(t.Context(), blind, path) == nil {
		t.Fatal("a checker that accepts everything was not detected")
	}
	planted, err := os.ReadFile(path + ".planted")
	if want := `{"body":{"range":{"kvs":[{"key":"k1","value":"2.79","create":2,"mod":2,"version":1}],"count":1}}}`; string(planted) != want {
		t.Fatal(string(planted), err)
	}
}

func TestAMemberDiesAtEveryFailpoint(t *testing.T) {
	source, err := os.ReadFile("../../../crates/failpoint/src/points.rs")
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, line := range regexp.MustCompile(`(?m)^    "(\w+)",$`).FindAllSubmatch(source, -1) {
		named = append(named, string(line[1]))
	}
	known := slices.Clone(newMemberPoints)
	for _, kind := range allPanicPoints {
		known = append(known, kind.points...)
	}
	slices.Sort(named)
	slices.Sort(known)
	if !slices.Equal(known, named) {
		t.Errorf("failpoints in this test: %v, in the code: %v", known, named)
	}
}
