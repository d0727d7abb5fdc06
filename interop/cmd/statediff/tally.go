package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"

	"bowline/interop/internal/target"
)

// tally counts etcd's responses, to show the coverage of a run.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func newTally() *tally { return &tally{counts: map[string]int{}} }

func (t *tally) add(method target.Method, answer target.Answer) {
	what := answer.Text
	if answer.Code == codes.OK {
		what = "ok"
	}
	t.count(fmt.Sprintf("%s: %s", method, what), 1)
}

// addWatch counts the responses of etcd's side.
func (t *tally) addWatch(which int, responses []*pb.WatchResponse) {
	if which != 0 {
		return
	}
	for _, response := range responses {
		switch {
		case response.CancelReason != "":
			t.count("Watch: "+response.CancelReason, 1)
		case response.CompactRevision != 0:
			t.count("Watch: compacted", 1)
		case response.Created:
			t.count("Watch: created", 1)
		case response.Canceled:
			t.count("Watch: canceled", 1)
		case response.Fragment:
			t.count("Watch: fragments", 1)
		case len(response.Events) == 0:
			t.count("Watch: progress", 1)
		default:
			t.count("Watch: events", len(response.Events))
		}
	}
}

func (t *tally) count(what string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[what] += n
}

func (t *tally) print(w io.Writer) {
	for _, what := range slices.Sorted(maps.Keys(t.counts)) {
		fmt.Fprintf(w, "%8d %s\n", t.counts[what], what)
	}
}
