package compare

import (
	"fmt"
	"slices"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"bowline/interop/internal/target"
)

func reply(message proto.Message) target.Answer { return target.Answer{Reply: message} }

func header(cluster, member, term uint64, revision int64) *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: cluster, MemberId: member, RaftTerm: term, Revision: revision}
}

func expect(t *testing.T, what string, request, one, other proto.Message, want bool) {
	t.Helper()
	if got := Answers(request, reply(one), reply(other), 0); got != want {
		t.Errorf("%s: same is %t", what, got)
	}
}

func TestHeadersMayDifferExceptForTheRevision(t *testing.T) {
	request := &pb.PutRequest{}
	here := &pb.PutResponse{Header: header(1, 2, 3, 4)}
	expect(t, "ids", request, here, &pb.PutResponse{Header: header(5, 6, 7, 4)}, true)
	expect(t, "revision", request, here, &pb.PutResponse{Header: header(1, 2, 3, 5)}, false)
	expect(t, "no header", request, here, &pb.PutResponse{}, false)
}

func TestErrorsAreComparedByCodeAndText(t *testing.T) {
	denied := target.Answer{Code: codes.PermissionDenied, Text: "no"}
	for what, other := range map[string]target.Answer{
		"text":  {Code: codes.PermissionDenied, Text: "No"},
		"code":  {Code: codes.Unknown, Text: "no"},
		"reply": reply(&pb.PutResponse{}),
	} {
		if Answers(&pb.PutRequest{}, denied, other, 0) {
			t.Errorf("%s was not detected", what)
		}
	}
	if !Answers(&pb.PutRequest{}, denied, denied, 0) {
		t.Error("equal errors compare as different")
	}
}

func TestRemainingTTLsMustBeValidAndClose(t *testing.T) {
	request := &pb.LeaseTimeToLiveRequest{}
	of := func(left, granted int64, keys ...string) *pb.LeaseTimeToLiveResponse {
		r := &pb.LeaseTimeToLiveResponse{TTL: left, GrantedTTL: granted}
		for _, key := range keys {
			r.Keys = append(r.Keys, []byte(key))
		}
		return r
	}
	expect(t, "left", request, of(99, 100), of(98, 100), true)
	expect(t, "a minute less", request, of(99, 100), of(39, 100), true)
	expect(t, "more than a minute less", request, of(99, 100), of(38, 100), false)
	expect(t, "more than a minute more", request, of(38, 100), of(99, 100), false)
	expect(t, "an election timeout more than granted", request, of(99, 100), of(103, 100), true)
	expect(t, "still more", request, of(99, 100), of(104, 100), false)
	expect(t, "nothing", request, of(99, 100), of(0, 100), false)
	expect(t, "gone", request, of(99, 100), of(-1, 0), false)
	expect(t, "granted", request, of(99, 100), of(99, 101), false)
	expect(t, "order of keys", request, of(9, 10, "a", "b"), of(9, 10, "b", "a"), true)
	expect(t, "keys", request, of(9, 10, "a", "b"), of(9, 10, "a"), false)
	renewed := func(here, there int64) bool {
		return Answers(request, reply(of(here, 1000)), reply(of(there, 1000)), 100*time.Second)
	}
	if !renewed(500, 660) || renewed(500, 661) || renewed(661, 500) {
		t.Error("a restart may only restore the elapsed TTL of leases on one side")
	}
}

func TestLeasesAndAlarmsAreUnordered(t *testing.T) {
	leases := func(ids ...int64) *pb.LeaseLeasesResponse {
		r := &pb.LeaseLeasesResponse{}
		for _, id := range ids {
			r.Leases = append(r.Leases, &pb.LeaseStatus{ID: id})
		}
		return r
	}
	expect(t, "order", &pb.LeaseLeasesRequest{}, leases(1, 2), leases(2, 1), true)
	expect(t, "twice", &pb.LeaseLeasesRequest{}, leases(1, 2), leases(1, 1), false)
	one := &pb.AlarmMember{MemberID: 1, Alarm: pb.AlarmType_NOSPACE}
	two := &pb.AlarmMember{MemberID: 1, Alarm: pb.AlarmType_CORRUPT}
	expect(t, "alarms", &pb.AlarmRequest{},
		&pb.AlarmResponse{Alarms: []*pb.AlarmMember{one, two}}, &pb.AlarmResponse{Alarms: []*pb.AlarmMember{two, one}}, true)
}

// versions returns a reply with keys a, b, c, ... of these versions.
func versions(more bool, count int64, of ...int64) *pb.RangeResponse {
	r := &pb.RangeResponse{Count: count, More: more}
	for i, version := range of {
		r.Kvs = append(r.Kvs, &mvccpb.KeyValue{Key: fmt.Appendf(nil, "%c", 'a'+i), Version: version})
	}
	return r
}

func swap(r *pb.RangeResponse, i, j int) *pb.RangeResponse {
	r = proto.Clone(r).(*pb.RangeResponse)
	r.Kvs[i], r.Kvs[j] = r.Kvs[j], r.Kvs[i]
	return r
}

func TestEqualElementsOfALongSortAreUnordered(t *testing.T) {
	byVersion := &pb.RangeRequest{SortTarget: pb.RangeRequest_VERSION}
	long := versions(false, 13, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3)
	expect(t, "equals", byVersion, long, swap(long, 0, 7), true)
	expect(t, "across", byVersion, long, swap(long, 7, 8), false)
	expect(t, "by key", &pb.RangeRequest{}, long, swap(long, 0, 7), false)
	short := versions(false, 99, 1, 1, 2)
	expect(t, "few", byVersion, short, swap(short, 0, 1), false)
}

func TestWithoutAnOrderOnlyReturnedElementsAreSorted(t *testing.T) {
	cut := versions(true, 99, slices.Repeat([]int64{1}, 11)...)
	expect(t, "no order", &pb.RangeRequest{SortTarget: pb.RangeRequest_VERSION, Limit: 11}, cut, swap(cut, 0, 1), false)
	expect(t, "an order", &pb.RangeRequest{
		Key: []byte("a"), RangeEnd: []byte{0}, Limit: 11, SortTarget: pb.RangeRequest_VERSION, SortOrder: pb.RangeRequest_DESCEND,
	}, cut, swap(cut, 0, 1), true)
	expect(t, "a filter", &pb.RangeRequest{
		Key: []byte("a"), RangeEnd: []byte{0}, Limit: 11, SortTarget: pb.RangeRequest_VERSION, MinModRevision: -1,
	}, cut, swap(cut, 0, 1), true)
	longer := versions(true, 99, slices.Repeat([]int64{1}, 12)...)
	expect(t, "too many", &pb.RangeRequest{
		Key: []byte("a"), RangeEnd: []byte{0}, Limit: 12, SortTarget: pb.RangeRequest_VERSION,
	}, longer, swap(longer, 0, 1), true)
}

func TestALimitMayKeepAnyOfEqualElements(t *testing.T) {
	byVersion := &pb.RangeRequest{
		Key: []byte("a"), RangeEnd: []byte{0}, Limit: 4, SortTarget: pb.RangeRequest_VERSION, SortOrder: pb.RangeRequest_ASCEND,
	}
	cut := versions(true, 13, 1, 1, 2, 2)
	other := proto.Clone(cut).(*pb.RangeResponse)
	other.Kvs[3].Key = []byte("z")
	expect(t, "last", byVersion, cut, other, true)
	other.More = false
	expect(t, "more", byVersion, cut, other, false)
	other = proto.Clone(cut).(*pb.RangeResponse)
	other.Kvs[0].Key = []byte("z")
	expect(t, "first", byVersion, cut, other, false)
	other = proto.Clone(cut).(*pb.RangeResponse)
	other.Kvs[3].Version = 3
	expect(t, "another version", byVersion, cut, other, false)
}

func TestEqualElementsKeptByALimitMustBeInTheRange(t *testing.T) {
	byValue := &pb.RangeRequest{
		Key: []byte("a"), RangeEnd: []byte("m"), Limit: 3, KeysOnly: true,
		SortTarget: pb.RangeRequest_VALUE, SortOrder: pb.RangeRequest_ASCEND,
	}
	cut := versions(true, 13, 1, 1, 1)
	with := func(key string) *pb.RangeResponse {
		r := proto.CloneOf(cut)
		r.Kvs[2].Key = []byte(key)
		return r
	}
	expect(t, "another key", byValue, cut, with("l"), true)
	expect(t, "a key beyond", byValue, cut, with("m"), false)
	expect(t, "a key before", byValue, cut, with("Z"), false)
	expect(t, "a key twice", byValue, cut, with("b"), false)
	expect(t, "fewer", byValue, cut, versions(true, 13, 1, 1), false)
	valued := with("c")
	valued.Kvs[2].Value = []byte("1")
	expect(t, "a value", byValue, cut, valued, false)
}

func TestRangesInTransactionsAreNormalized(t *testing.T) {
	sorted := &pb.RequestOp{Request: &pb.RequestOp_RequestRange{
		RequestRange: &pb.RangeRequest{SortTarget: pb.RangeRequest_VERSION},
	}}
	inner := &pb.TxnRequest{Success: []*pb.RequestOp{sorted}}
	request := &pb.TxnRequest{Failure: []*pb.RequestOp{{Request: &pb.RequestOp_RequestTxn{RequestTxn: inner}}}}
	answer := func(r *pb.RangeResponse) *pb.TxnResponse {
		within := &pb.TxnResponse{Succeeded: true, Responses: []*pb.ResponseOp{
			{Response: &pb.ResponseOp_ResponseRange{ResponseRange: r}},
		}}
		return &pb.TxnResponse{Responses: []*pb.ResponseOp{
			{Response: &pb.ResponseOp_ResponseTxn{ResponseTxn: within}},
		}}
	}
	long := versions(false, 13, slices.Repeat([]int64{1}, 13)...)
	expect(t, "equals", request, answer(long), answer(swap(long, 0, 12)), true)
	long.Kvs[0].Version = 0
	expect(t, "unequal", request, answer(long), answer(swap(long, 0, 12)), false)
}

func TestComparisonLeavesAnswersUnchanged(t *testing.T) {
	long := versions(true, 13, 1, 1, 1)
	before := proto.Clone(long)
	Answers(&pb.RangeRequest{SortTarget: pb.RangeRequest_VERSION}, reply(long), reply(long), 0)
	if !proto.Equal(before, long) {
		t.Error("the comparison modified a response")
	}
}
