// Package compare tells whether two state machines have answered the same.
//
// Not compared is what two servers cannot have in common, and little else:
//
//   - cluster, member and term in a header
//   - the order of leases, of a lease's keys and of alarms, which etcd takes from a map
//   - how much of a lease is left, as long as something is and not more than was granted
//   - the order of equals in a sorted range of more than a dozen keys, where etcd's sort is not stable
//   - how many responses the events of a watch come in (see Watch)
//   - reports of progress on a stream with a watch that a compaction ended: etcd gives none
package compare

import (
	"bytes"
	"cmp"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	"bowline/interop/internal/machine"
)

// Answers says whether two answers to a request are the same.
func Answers(request proto.Message, one, other machine.Answer) bool {
	if one.Code != other.Code || one.Text != other.Text {
		return false
	}
	if one.Reply == nil || other.Reply == nil {
		return one.Reply == nil && other.Reply == nil
	}
	return proto.Equal(normal(request, one.Reply), normal(request, other.Reply))
}

// normal is a reply with all that may differ made the same. It is a copy.
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
	case *pb.LeaseLeasesResponse:
		slices.SortFunc(reply.Leases, func(a, b *pb.LeaseStatus) int { return cmp.Compare(a.ID, b.ID) })
	case *pb.AlarmResponse:
		slices.SortFunc(reply.Alarms, func(a, b *pb.AlarmMember) int {
			return cmp.Or(cmp.Compare(a.Alarm, b.Alarm), cmp.Compare(a.MemberID, b.MemberID))
		})
	}
	return reply
}

func normalHeader(header *pb.ResponseHeader) {
	if header != nil {
		header.ClusterId, header.MemberId, header.RaftTerm = 0, 0, 0
	}
}

func normalTimeToLive(reply *pb.LeaseTimeToLiveResponse) {
	slices.SortFunc(reply.Keys, bytes.Compare)
	if reply.TTL > 0 && reply.TTL <= reply.GrantedTTL {
		reply.TTL = reply.GrantedTTL
	}
}

// normalTxn looks for ranges in the branch that was taken.
func normalTxn(request *pb.TxnRequest, reply *pb.TxnResponse) {
	ops := request.Success
	if !reply.Succeeded {
		ops = request.Failure
	}
	for i, response := range reply.Responses {
		if i >= len(ops) {
			// Too many answers: that is a difference, and it stays one.
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
