package scenario

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"bowline/interop/internal/machine"
)

// play goes through a scenario in which nothing ever succeeds.
func play(s *Scenario, steps int, see func(Step)) {
	for range steps {
		step := s.Next()
		see(step)
		switch step.Kind {
		case Call:
			s.Learn(step, machine.Answer{Code: codes.Unknown, Text: "no"})
		case Restart:
			s.LearnRestart()
		}
	}
}

func TestASeedDecides(t *testing.T) {
	for _, auth := range []bool{false, true} {
		one, other := New(7, auth), New(7, auth)
		play(one, 3000, func(step Step) {
			again := other.Next()
			if step.Kind != again.Kind || step.User != again.User || step.Stream != again.Stream || step.Method != again.Method {
				t.Fatalf("%s\nis not\n%s", step, again)
			}
			if step.Request != nil && !proto.Equal(step.Request, again.Request) {
				t.Fatalf("%s\nis not\n%s", step, again)
			}
			other.Learn(again, machine.Answer{Code: codes.Unknown, Text: "no"})
			if again.Kind == Restart {
				other.LearnRestart()
			}
		})
	}
}

func TestNeighbouringSeedsHaveNothingInCommon(t *testing.T) {
	drawn := map[uint64]bool{}
	for seed := range uint64(10) {
		d := newDice(seed)
		for range 1000 {
			n := d.random.Next()
			if drawn[n] {
				t.Fatalf("seed %d repeats another", seed)
			}
			drawn[n] = true
		}
	}
}

func TestEveryMethodIsUsed(t *testing.T) {
	seen := map[machine.Method]bool{}
	kinds := map[Kind]bool{}
	play(New(1, true), 20000, func(step Step) {
		kinds[step.Kind] = true
		if step.Kind == Call {
			seen[step.Method] = true
		}
	})
	for method := machine.Range; method <= machine.RoleRevokePermission; method++ {
		if method > machine.HashKV && method < machine.AuthEnable {
			continue
		}
		if !seen[method] {
			t.Errorf("%s is never used", method)
		}
	}
	if !seen[machine.Alarm] {
		t.Error("there is no alarm")
	}
	if len(kinds) != 4 {
		t.Errorf("kinds: %v", kinds)
	}
}

func TestNothingIsAskedThatEtcdDoesNotDecide(t *testing.T) {
	play(New(3, false), 20000, func(step Step) {
		switch request := step.Request.(type) {
		case *pb.LeaseGrantRequest:
			if request.ID == 0 && request.TTL <= maxLeaseTTL {
				t.Errorf("a lease whose id the server chooses: %s", step)
			}
		case *pb.TxnRequest:
			if crashes(request) || proto.Size(request) > maxMessage {
				t.Errorf("this crashes etcd, or does not reach it: %s", step)
			}
		}
	})
}

func crashes(request *pb.TxnRequest) bool {
	open, behind := false, false
	each(request, func(op *pb.RequestOp) {
		open = open || string(op.GetRequestDeleteRange().GetRangeEnd()) == "\x00"
		behind = behind || open && op.GetRequestPut() != nil
	})
	return behind
}

func TestAShortLeaseIsRevokedInTime(t *testing.T) {
	s := New(1, false)
	s.Learn(Step{Request: &pb.LeaseGrantRequest{ID: 9, TTL: 1}}, machine.Answer{Reply: &pb.LeaseGrantResponse{}})
	for range shortLife + settleEvery {
		step := s.Next()
		if revoke, ok := step.Request.(*pb.LeaseRevokeRequest); ok && revoke.ID == 9 {
			return
		}
	}
	t.Error("it lives on")
}

func TestACompactionIsWaitedFor(t *testing.T) {
	s := New(1, false)
	s.Learn(Step{Request: &pb.PutRequest{}}, machine.Answer{Reply: &pb.PutResponse{Header: &pb.ResponseHeader{Revision: 9}}})
	s.Learn(Step{Request: &pb.CompactionRequest{Revision: 5}}, machine.Answer{Reply: &pb.CompactionResponse{}})
	for range 5000 {
		step := s.Next()
		switch request := step.Request.(type) {
		case *pb.HashKVRequest:
			t.Fatal("a hash while a compaction is at work")
		case *pb.CompactionRequest:
			if request.Revision == 5 && request.Physical {
				return
			}
		}
	}
	t.Error("there was no compaction")
}

func TestPrefixEnds(t *testing.T) {
	for prefix, want := range map[string]string{"a": "b", "a\xff": "b", "\xff": "\x00", "": "\x00"} {
		if got := string(prefixEnd([]byte(prefix))); got != want {
			t.Errorf("%q: %q", prefix, got)
		}
	}
}
