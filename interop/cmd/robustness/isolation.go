package main

import (
	"path"
	"regexp"
	"slices"
	"strconv"

	"bowline/interop/internal/suite"
)

// longReadTimeout makes a member fall behind whose links a proxy swallows, as etcd's does.
//
// With the default read timeout, ours may keep up: it closes a silent stream and sends single
// requests instead, which pass the proxy. A failpoint that waits for the member to need a snapshot
// is then not triggered, unless the load is high.
const longReadTimeout = "ETCD_RAFT_READ_TIMEOUT=1m"

// isolating lists the failpoints that may wait for a swallowed member to fall behind.
var isolating = []string{
	"blackholePeerNetwork", "raftBeforeApplySnap=panic", "raftAfterApplySnap=panic", "raftAfterWALRelease=panic",
	"raftBeforeSaveSnap=panic", "raftAfterSaveSnap=panic", "applyBeforeOpenSnapshot=panic",
}

// isolates reports whether an exploratory run has longReadTimeout: those of every other round, so
// that each scenario runs with it and with the default.
func isolates(number int) bool {
	return number/len(exploratory)%2 == 1
}

var (
	// notTriggered matches the complaint about a failpoint that was not reached in time.
	notTriggered = regexp.MustCompile(`^failed triggering failpoint, err: context deadline exceeded$`)
	// canceled matches complaints that follow from it: the test then ends its own requests.
	canceled = regexp.MustCompile(`context canceled`)
	// distance matches how far the swallowed member is behind, and how far it must be.
	distance = regexp.MustCompile(`(?m)^ *network\.go:\d+: clusterRevision: (\d+), blackholedMemberRevision: (\d+), minEntriesToGuarantee: (\d+)$`)
)

// keptUp reports whether a test failed only because the member that its failpoint isolates did not
// fall behind.
func keptUp(r *suite.Result, complaints []string) bool {
	if !slices.Contains(isolating, path.Base(longest(r))) || len(complaints) == 0 || !notTriggered.MatchString(complaints[0]) {
		return false
	}
	other := func(complaint string) bool { return !canceled.MatchString(complaint) }
	if slices.ContainsFunc(complaints[1:], other) {
		return false
	}
	measured := distance.FindAllSubmatch(r.Output, -1)
	if len(measured) == 0 {
		return false
	}
	var numbers [3]int64
	for i, text := range measured[len(measured)-1][1:] {
		numbers[i], _ = strconv.ParseInt(string(text), 10, 64)
	}
	return numbers[0]-numbers[1] <= numbers[2]
}
