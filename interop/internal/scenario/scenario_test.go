package scenario

import (
	"slices"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"bowline/interop/internal/target"
)

// play runs a scenario in which every request fails.
func play(s *Scenario, steps int, see func(Step)) {
	for range steps {
		step := s.Next()
		see(step)
		switch step.Kind {
		case Call:
			s.Learn(step, target.Answer{Code: codes.Unknown, Text: "no"})
		case Restart:
			s.LearnRestart()
		}
	}
}

func TestASeedDeterminesTheSequence(t *testing.T) {
	for _, auth := range []bool{false, true} {
		one, other := New(7, auth), New(7, auth)
		play(one, 3000, func(step Step) {
			again := other.Next()
			if step.Kind != again.Kind || step.User != again.User || step.Stream != again.Stream || step.Method != again.Method {
				t.Fatalf("got step\n%s\nwant\n%s", step, again)
			}
			if step.Request != nil && !proto.Equal(step.Request, again.Request) {
				t.Fatalf("got step\n%s\nwant\n%s", step, again)
			}
			other.Learn(again, target.Answer{Code: codes.Unknown, Text: "no"})
			if again.Kind == Restart {
				other.LearnRestart()
			}
		})
	}
}

func TestNeighboringSeedsGiveDifferentSequences(t *testing.T) {
	drawn := map[uint64]bool{}
	for seed := range uint64(10) {
		d := newDice(seed)
		for range 1000 {
			n := d.random.Next()
			if drawn[n] {
				t.Fatalf("seed %d repeats the sequence of another seed", seed)
			}
			drawn[n] = true
		}
	}
}

func TestEveryMethodIsUsed(t *testing.T) {
	seen := map[target.Method]bool{}
	kinds := map[Kind]bool{}
	play(New(1, true), 20000, func(step Step) {
		kinds[step.Kind] = true
		if step.Kind == Call {
			seen[step.Method] = true
		}
	})
	for method := target.Range; method <= target.RoleRevokePermission; method++ {
		if method > target.HashKV && method < target.AuthEnable {
			continue
		}
		if !seen[method] {
			t.Errorf("%s is never used", method)
		}
	}
	for _, method := range []target.Method{
		target.Alarm, target.LeaseKeepAlive, target.RangeStream, target.Authenticate, target.Defragment,
	} {
		if !seen[method] {
			t.Errorf("%s is never used", method)
		}
	}
	if len(kinds) != 5 {
		t.Errorf("kinds: %v", kinds)
	}
}

func TestRequestsAreDeterministic(t *testing.T) {
	play(New(3, false), 20000, func(step Step) {
		switch request := step.Request.(type) {
		case *pb.LeaseGrantRequest:
			if request.ID == 0 && request.TTL <= maxLeaseTTL {
				t.Errorf("a lease whose id the server chooses: %s", step)
			}
		case *pb.TxnRequest:
			if crashes(request) || proto.Size(request) > maxMessage {
				t.Errorf("a request that crashes etcd or exceeds the message limit: %s", step)
			}
		}
	})
}

// crashes reports whether any path through a transaction puts a key after a delete to the end of
// all keys has deleted it.
func crashes(request *pb.TxnRequest) bool {
	for _, path := range paths(request) {
		var deleted []string
		for _, op := range path {
			if remove := op.GetRequestDeleteRange(); string(remove.GetRangeEnd()) == "\x00" && len(remove.Key) > 0 {
				deleted = append(deleted, string(remove.Key))
			}
			put := op.GetRequestPut()
			if put != nil && slices.ContainsFunc(deleted, func(from string) bool { return string(put.Key) >= from }) {
				return true
			}
		}
	}
	return false
}

// paths returns the executed operations for every choice of branches.
func paths(request *pb.TxnRequest) [][]*pb.RequestOp {
	return append(pathsOf(request.Success), pathsOf(request.Failure)...)
}

func pathsOf(ops []*pb.RequestOp) [][]*pb.RequestOp {
	all := [][]*pb.RequestOp{nil}
	for _, op := range ops {
		ways := [][]*pb.RequestOp{{op}}
		if inner := op.GetRequestTxn(); inner != nil {
			ways = paths(inner)
		}
		var longer [][]*pb.RequestOp
		for _, path := range all {
			for _, way := range ways {
				longer = append(longer, slices.Concat(path, way))
			}
		}
		all = longer
	}
	return all
}

func putOf(key string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(key)}}}
}

func deleteFrom(key string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{
		RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(key), RangeEnd: []byte{0}},
	}}
}

func nested(success, failure []*pb.RequestOp) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{Success: success, Failure: failure}}}
}

func TestSpareRemovesOnlyPutsOfDeletedKeys(t *testing.T) {
	type ops = []*pb.RequestOp
	for what, c := range map[string]struct {
		success, failure ops
		taken            bool
	}{
		"after":                 {ops{deleteFrom("b"), putOf("b")}, nil, true},
		"before":                {ops{putOf("b"), deleteFrom("b")}, nil, false},
		"a lower key":           {ops{deleteFrom("b"), putOf("a")}, nil, false},
		"the lower of two":      {ops{deleteFrom("a"), deleteFrom("c"), putOf("b")}, nil, true},
		"the other branch":      {ops{deleteFrom("b")}, ops{putOf("b")}, false},
		"further down":          {ops{deleteFrom("b"), nested(nil, ops{putOf("b")})}, nil, true},
		"further up":            {ops{nested(nil, ops{deleteFrom("b")}), putOf("b")}, nil, true},
		"beside":                {ops{nested(ops{deleteFrom("b")}, nil), nested(ops{putOf("b")}, nil)}, nil, true},
		"the other branch down": {ops{nested(ops{deleteFrom("b")}, ops{putOf("b")})}, nil, false},
	} {
		request := &pb.TxnRequest{Success: c.success, Failure: c.failure}
		if crashes(request) != c.taken {
			t.Errorf("%s: crashes is %t", what, !c.taken)
		}
		before := proto.Clone(request)
		dropCrashingPuts(request)
		if crashes(request) || proto.Equal(before, request) == c.taken {
			t.Errorf("%s: %s", what, target.Text(request))
		}
	}
}

func TestAShortLeaseIsRevokedInTime(t *testing.T) {
	s := New(1, false)
	s.Learn(Step{Request: &pb.LeaseGrantRequest{ID: 9, TTL: 1}}, target.Answer{Reply: &pb.LeaseGrantResponse{}})
	for range shortLife + settleEvery {
		step := s.Next()
		if revoke, ok := step.Request.(*pb.LeaseRevokeRequest); ok && revoke.ID == 9 {
			return
		}
	}
	t.Error("the short lease was not revoked")
}

func TestHashRequestsWaitForACompaction(t *testing.T) {
	s := New(1, false)
	s.Learn(Step{Request: &pb.PutRequest{}}, target.Answer{Reply: &pb.PutResponse{Header: &pb.ResponseHeader{Revision: 9}}})
	s.Learn(Step{Request: &pb.CompactionRequest{Revision: 5}}, target.Answer{Reply: &pb.CompactionResponse{}})
	for range 5000 {
		step := s.Next()
		switch request := step.Request.(type) {
		case *pb.HashKVRequest:
			t.Fatal("a hash request during a compaction")
		case *pb.CompactionRequest:
			if request.Revision == 5 && request.Physical {
				return
			}
		}
	}
	t.Error("the scenario contains no compaction")
}

func TestPrefixEnd(t *testing.T) {
	for prefix, want := range map[string]string{"a": "b", "a\xff": "b", "\xff": "\x00", "": "\x00"} {
		if got := string(prefixEnd([]byte(prefix))); got != want {
			t.Errorf("%q: %q", prefix, got)
		}
	}
}
