package compare

import (
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// events returns a response with one event for each revision.
func events(id int64, revisions ...int64) *pb.WatchResponse {
	r := &pb.WatchResponse{WatchId: id, Header: &pb.ResponseHeader{}}
	for _, revision := range revisions {
		r.Header.Revision = revision
		r.Events = append(r.Events, &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: []byte("k"), ModRevision: revision}})
	}
	return r
}

func created(id, revision int64) *pb.WatchResponse {
	return &pb.WatchResponse{WatchId: id, Created: true, Header: &pb.ResponseHeader{Revision: revision}}
}

// newest is above all revisions in these tests.
const newest = 9

// fragment returns a response that another one must follow.
func fragment(id int64, revisions ...int64) *pb.WatchResponse {
	r := events(id, revisions...)
	r.Fragment = true
	return r
}

// asking returns a comparison of streams on which these watches are created, all with fragments or
// all without.
func asking(watches int, fragments bool) *Watch {
	w := NewWatch()
	for range watches {
		w.Asked(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
			CreateRequest: &pb.WatchCreateRequest{Fragment: fragments},
		}})
	}
	return w
}

func progress(revision int64) *pb.WatchResponse {
	return &pb.WatchResponse{WatchId: -1, Header: &pb.ResponseHeader{Revision: revision}}
}

// verdict returns the result of comparing two streams.
func verdict(one, other []*pb.WatchResponse) error {
	w := asking(2, false)
	for which, responses := range [][]*pb.WatchResponse{one, other} {
		if err := w.Add(which, responses, newest); err != nil {
			return err
		}
	}
	return w.Settled()
}

func TestEqualStreams(t *testing.T) {
	cases := map[string][2][]*pb.WatchResponse{
		"in other pieces":  {{created(1, 5), events(1, 6, 7, 7, 8)}, {created(1, 5), events(1, 6), events(1, 7, 7), events(1, 8)}},
		"in another order": {{events(1, 6), events(2, 6)}, {events(2, 6), events(1, 6)}},
		"one id twice":     {{events(1, 6), created(1, 6), events(1, 6)}, {events(1, 6), created(1, 6), events(1, 6)}},
		"progress beside a failure": {
			{progress(6), {WatchId: -1, Created: true, Canceled: true}}, {{WatchId: -1, Created: true, Canceled: true}, progress(6)},
		},
	}
	for what, streams := range cases {
		if err := verdict(streams[0], streams[1]); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestDifferentStreams(t *testing.T) {
	cases := map[string]struct {
		one, other []*pb.WatchResponse
		why        string
	}{
		"lost":             {[]*pb.WatchResponse{events(1, 6, 7)}, []*pb.WatchResponse{events(1, 6)}, "nothing more"},
		"too much":         {nil, []*pb.WatchResponse{events(1, 6)}, "nothing more"},
		"another watch":    {[]*pb.WatchResponse{events(1, 6)}, []*pb.WatchResponse{events(2, 6)}, "watch 1"},
		"created when":     {[]*pb.WatchResponse{created(1, 6)}, []*pb.WatchResponse{created(1, 7)}, "watch 1"},
		"progress to what": {[]*pb.WatchResponse{progress(6)}, []*pb.WatchResponse{progress(7)}, "watch -1"},
		"created late":     {[]*pb.WatchResponse{created(1, 6), events(1, 7)}, []*pb.WatchResponse{events(1, 7), created(1, 6)}, "watch 1"},
	}
	for what, c := range cases {
		if err := verdict(c.one, c.other); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestBrokenWatchGuaranteesAreDetected(t *testing.T) {
	late := events(1, 7)
	late.Header.Revision = 6
	future := events(1, 7)
	future.Header.Revision = newest + 1
	mixed := events(1, 7)
	mixed.Canceled = true
	cases := map[string][]*pb.WatchResponse{
		"revision 7 is split":         {events(1, 7), events(1, 7)},
		"revision 6 after 7":          {events(1, 7), events(1, 6)},
		"revision 7 after 8":          {events(1, 8, 7)},
		"with header revision 6":      {late},
		"above the newest revision 9": {future},
		"carries other fields":        {mixed},
		"was not requested":           {created(1, 6), created(2, 6)},
		"fragment was not requested":  {created(1, 6), fragment(1, 7)},
	}
	for why, responses := range cases {
		if err := asking(1, false).Add(1, responses, newest); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", why, err)
		}
	}
}

func TestFragmentsMustEnd(t *testing.T) {
	w := asking(1, true)
	must(t, w.Add(1, []*pb.WatchResponse{created(1, 6), fragment(1, 7)}, newest))
	must(t, w.Add(0, []*pb.WatchResponse{created(1, 6), events(1, 7, 7)}, newest))
	if err := w.Settled(); err == nil || !strings.Contains(err.Error(), "ours: watch 1 ends in an unfinished fragment") {
		t.Errorf("an unfinished fragment was not detected: %v", err)
	}
	must(t, w.Add(1, []*pb.WatchResponse{events(1, 7)}, newest))
	must(t, w.Settled())
	canceled := &pb.WatchResponse{WatchId: 1, Canceled: true}
	if err := w.Add(1, []*pb.WatchResponse{fragment(1, 8), canceled}, newest); err == nil {
		t.Error("a cancellation after an unfinished fragment was accepted")
	}
}

func TestFragmentsMustBeBelowTheLimit(t *testing.T) {
	sized := func(bytes int, revisions ...int64) *pb.WatchResponse {
		r := events(1, revisions...)
		r.Events[0].Kv.Value = make([]byte, bytes)
		return r
	}
	for _, c := range []struct {
		what      string
		which     int
		fragments bool
		response  *pb.WatchResponse
		small     bool
	}{
		{"two events", 1, true, sized(maxFragment, 7, 7), false},
		{"a little less", 1, true, sized(maxFragment-100, 7, 7), true},
		{"one event", 1, true, sized(maxFragment, 7), true},
		{"without fragments", 1, false, sized(maxFragment, 7, 7), true},
		{"etcd", 0, true, sized(maxFragment, 7, 7), true},
	} {
		err := asking(1, c.fragments).Add(c.which, []*pb.WatchResponse{created(1, 6), c.response}, newest)
		if (err == nil) != c.small {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

func TestALateEventSettlesADifference(t *testing.T) {
	w := NewWatch()
	must(t, w.Add(0, []*pb.WatchResponse{events(1, 6)}, newest))
	must(t, w.Add(1, []*pb.WatchResponse{events(1, 6, 7)}, newest))
	if w.Settled() == nil {
		t.Error("a missing event was not detected")
	}
	must(t, w.Add(0, []*pb.WatchResponse{events(1, 7)}, newest))
	if err := w.Settled(); err != nil {
		t.Error(err)
	}
}

func TestProgressBesideACompactedWatch(t *testing.T) {
	compacted := &pb.WatchResponse{WatchId: 3, Canceled: true, CompactRevision: 7}
	progress := &pb.WatchResponse{WatchId: -1, Header: &pb.ResponseHeader{Revision: 9}}
	both := func(ended bool) error {
		w := NewWatch()
		for which := range 2 {
			if ended {
				must(t, w.Add(which, []*pb.WatchResponse{compacted}, newest))
			}
		}
		must(t, w.Add(1, []*pb.WatchResponse{progress}, newest))
		return w.Settled()
	}
	if err := both(true); err != nil {
		t.Errorf("missing progress notifications of etcd are a difference: %v", err)
	}
	if both(false) == nil {
		t.Error("a progress notification of one side was not detected")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
