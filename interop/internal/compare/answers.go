// Package compare decides whether two servers gave the same responses.
//
// It ignores only properties that differ between any two servers:
//
//   - cluster, member and term in a header, and the content of a token
//   - the order of leases, of a lease's keys and of alarms, which etcd takes from a map
//   - the remaining TTL of a lease, by at most a minute, if it is positive and at most the granted
//     TTL; a restart renews leases and extends them by an election timeout
//   - the order of equal elements in a sorted range of more than 12 keys, for which etcd's sort is
//     not stable
//   - the grouping of watch events into responses, if each response is valid (see Watch)
//   - progress notifications on a stream with a watch that a compaction canceled: etcd sends none
package compare

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	"bowline/interop/internal/target"
)

// Answers returns an error unless two responses to a request are equal. The remaining TTL of a
// lease may be larger on a side that has restarted, since a restart renews leases; renewed bounds
// that difference.
func Answers(request proto.Message, one, other target.Answer, renewed time.Duration) bool {
	if one.Code != other.Code || one.Text != other.Text || one.Refused != other.Refused {
		return false
	}
	if one.Reply == nil || other.Reply == nil {
		return one.Reply == nil && other.Reply == nil
	}
	return closeInTime(one.Reply, other.Reply, renewed) &&
		proto.Equal(normal(request, one.Reply), normal(request, other.Reply))
}

// normal returns a copy of a reply with all properties that may differ normalized.
func normal(request, reply proto.Message) proto.Message {
	reply = proto.Clone(reply)
	if headed, ok := reply.(interface{ GetHeader() *pb.ResponseHeader }); ok {
		normalHeader(headed.GetHeader())
	}
	switch reply := reply.(type) {
	case *pb.RangeResponse:
		normalRange(request.(*pb.RangeRequest), reply)
	case *pb.TxnResponse:
		normalTxn(request.(*pb.TxnRequest), reply)
	case *pb.LeaseTimeToLiveResponse:
		normalTimeToLive(reply)
	case *pb.AuthenticateResponse:
		reply.Token = anyToken(reply.Token)
	case *pb.LeaseLeasesResponse:
		slices.SortFunc(reply.Leases, func(a, b *pb.LeaseStatus) int { return cmp.Compare(a.ID, b.ID) })
	case *pb.AlarmResponse:
		slices.SortFunc(reply.Alarms, func(a, b *pb.AlarmMember) int {
			return cmp.Or(cmp.Compare(a.Alarm, b.Alarm), cmp.Compare(a.MemberID, b.MemberID))
		})
	}
	return reply
}

// anyToken replaces all tokens.
func anyToken(token string) string {
	if token == "" {
		return token
	}
	return "a token"
}

func normalHeader(header *pb.ResponseHeader) {
	if header != nil {
		header.ClusterId, header.MemberId, header.RaftTerm = 0, 0, 0
	}
}

// secondsApart bounds the time between the same request on both sides, in seconds.
const secondsApart = 60

// closeInTime reports whether the remaining TTLs of a lease are close.
func closeInTime(one, other proto.Message, renewed time.Duration) bool {
	here, ok := one.(*pb.LeaseTimeToLiveResponse)
	if !ok {
		return true
	}
	there, ok := other.(*pb.LeaseTimeToLiveResponse)
	if !ok {
		return false
	}
	more := there.TTL - here.TTL
	return more >= -secondsApart && more <= secondsApart+int64(renewed.Seconds())
}

// extension is the time that a new leader adds to each lease, in seconds: an election timeout.
const extension = 3

// normalTimeToLive removes a valid remaining TTL, which closeInTime compares.
func normalTimeToLive(reply *pb.LeaseTimeToLiveResponse) {
	slices.SortFunc(reply.Keys, bytes.Compare)
	if reply.TTL > 0 && reply.TTL <= reply.GrantedTTL+extension {
		reply.TTL = reply.GrantedTTL
	}
}

// normalTxn normalizes the ranges in the branch that was taken.
func normalTxn(request *pb.TxnRequest, reply *pb.TxnResponse) {
	ops := request.Success
	if !reply.Succeeded {
		ops = request.Failure
	}
	for i, response := range reply.Responses {
		if i >= len(ops) {
			// More responses than operations are a difference; keep it.
			return
		}
		if inner := response.GetResponseRange(); inner != nil && ops[i].GetRequestRange() != nil {
			normalRange(ops[i].GetRequestRange(), inner)
		}
		if inner := response.GetResponseTxn(); inner != nil && ops[i].GetRequestTxn() != nil {
			normalTxn(ops[i].GetRequestTxn(), inner)
		}
	}
}
