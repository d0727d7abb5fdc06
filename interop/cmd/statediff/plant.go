package main

import (
	"context"
	"fmt"
	"log"
	"math"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"bowline/interop/internal/target"
)

// plant is a way to falsify the responses of a server, which must be detected.
type plant struct {
	name string
	auth bool
	// answer falsifies a response, and watch some watch responses, if they are of the right kind.
	answer func(*target.Answer) bool
	watch  func([]*pb.WatchResponse) ([]*pb.WatchResponse, bool)
	done   bool
}

var plants = []plant{
	{name: "revision", answer: in(func(r *pb.PutResponse) bool { r.Header.Revision++; return true })},
	{name: "previous", answer: in(func(r *pb.PutResponse) bool { return changed(&r.PrevKv, nil) })},
	{name: "value", answer: in(func(r *pb.RangeResponse) bool {
		return len(r.Kvs) > 0 && changed(&r.Kvs[0].Value, append(r.Kvs[0].Value, 0))
	})},
	{name: "lease of a key", answer: in(func(r *pb.RangeResponse) bool {
		return len(r.Kvs) > 0 && changed(&r.Kvs[0].Lease, 0)
	})},
	{name: "order", answer: in(func(r *pb.RangeResponse) bool { return swapped(r.Kvs) })},
	{name: "count", answer: in(func(r *pb.RangeResponse) bool { r.Count++; return true })},
	{name: "more", answer: in(func(r *pb.RangeResponse) bool { return changed(&r.More, false) })},
	{name: "text", answer: func(a *target.Answer) bool { a.Text += "."; return a.Code != codes.OK }},
	{name: "code", answer: func(a *target.Answer) bool {
		return a.Code == codes.InvalidArgument && changed(&a.Code, codes.NotFound)
	}},
	{name: "deleted", answer: in(func(r *pb.DeleteRangeResponse) bool { r.Deleted++; return true })},
	{name: "branch", answer: in(func(r *pb.TxnResponse) bool { r.Succeeded = !r.Succeeded; return true })},
	{name: "range in a transaction", answer: in(func(r *pb.TxnResponse) bool {
		for _, op := range r.Responses {
			if inner := op.GetResponseTxn(); inner != nil && len(inner.Responses) > 0 {
				inner.Responses = inner.Responses[1:]
				return true
			}
		}
		return false
	})},
	{name: "granted", answer: in(func(r *pb.LeaseTimeToLiveResponse) bool { return r.TTL > 0 && changed(&r.TTL, r.GrantedTTL+longLease) })},
	{name: "left", answer: in(func(r *pb.LeaseTimeToLiveResponse) bool { return r.TTL > longLease && changed(&r.TTL, 1) })},
	{name: "key of a lease", answer: in(func(r *pb.LeaseTimeToLiveResponse) bool { return shorter(&r.Keys) })},
	{name: "lease", answer: in(func(r *pb.LeaseLeasesResponse) bool { return shorter(&r.Leases) })},
	{name: "hash", answer: in(func(r *pb.HashKVResponse) bool { r.Hash++; return true })},
	{name: "compact revision", answer: in(func(r *pb.HashKVResponse) bool { r.CompactRevision++; return true })},
	{name: "alarm", answer: in(func(r *pb.AlarmResponse) bool { return shorter(&r.Alarms) })},

	{name: "lost event", watch: response(func(r *pb.WatchResponse) bool { return shorter(&r.Events) })},
	{name: "previous of an event", watch: response(func(r *pb.WatchResponse) bool {
		return len(r.Events) > 0 && changed(&r.Events[0].PrevKv, nil)
	})},
	{name: "order of events", watch: response(func(r *pb.WatchResponse) bool { return swapped(r.Events) })},
	{name: "created revision", watch: response(func(r *pb.WatchResponse) bool { r.Header.Revision++; return r.Created })},
	{name: "cancel reason", watch: response(func(r *pb.WatchResponse) bool { return changed(&r.CancelReason, "") })},
	{name: "compacted", watch: response(func(r *pb.WatchResponse) bool { return changed(&r.CompactRevision, 0) })},
	{name: "progress", watch: response(func(r *pb.WatchResponse) bool {
		r.Header.Revision--
		return !r.Created && !r.Canceled && len(r.Events) == 0
	})},
	{name: "future", watch: response(func(r *pb.WatchResponse) bool {
		return len(r.Events) > 0 && changed(&r.Header.Revision, math.MaxInt64)
	})},
	{name: "fragment without a watcher", watch: response(func(r *pb.WatchResponse) bool {
		return r.WatchId == target.MarkerID && len(r.Events) > 0 && changed(&r.Fragment, true)
	})},
	{name: "fragments without end", watch: endless},
	{name: "fragments in one", watch: fragmented(func(pieces []*pb.WatchResponse) []*pb.WatchResponse {
		whole := pieces[len(pieces)-1]
		whole.Events = nil
		for _, piece := range pieces {
			whole.Events = append(whole.Events, piece.Events...)
		}
		return pieces[len(pieces)-1:]
	})},
	{name: "twice", watch: func(r []*pb.WatchResponse) ([]*pb.WatchResponse, bool) {
		return append(r, r...), len(r) > 0
	}},

	{name: "role of a user", auth: true, answer: in(func(r *pb.AuthUserGetResponse) bool { return shorter(&r.Roles) })},
	{name: "user", auth: true, answer: in(func(r *pb.AuthUserListResponse) bool { return shorter(&r.Users) })},
	{name: "permission", auth: true, answer: in(func(r *pb.AuthRoleGetResponse) bool {
		return len(r.Perm) > 0 && changed(&r.Perm[0].PermType, authpb.Permission_READWRITE)
	})},
	{name: "auth revision", auth: true, answer: in(func(r *pb.AuthStatusResponse) bool { r.AuthRevision++; return true })},
	{name: "denied", auth: true, answer: func(a *target.Answer) bool {
		if a.Code != codes.PermissionDenied {
			return false
		}
		*a = target.Answer{Reply: &pb.PutResponse{Header: &pb.ResponseHeader{}}}
		return true
	}},
}

// longLease is more than the seconds by which remaining TTLs may differ.
const longLease = 1000

// in falsifies replies of one type.
func in[Reply proto.Message](falsify func(Reply) bool) func(*target.Answer) bool {
	return func(a *target.Answer) bool {
		reply, ok := a.Reply.(Reply)
		return ok && falsify(reply)
	}
}

// response falsifies the first response for which it can be done.
func response(falsify func(*pb.WatchResponse) bool) func([]*pb.WatchResponse) ([]*pb.WatchResponse, bool) {
	return func(responses []*pb.WatchResponse) ([]*pb.WatchResponse, bool) {
		for i, r := range responses {
			r = proto.Clone(r).(*pb.WatchResponse)
			if falsify(r) {
				responses[i] = r
				return responses, true
			}
		}
		return responses, false
	}
}

// fragmented falsifies the first fragmented response, whose fragments it moves to the place of the
// last.
func fragmented(falsify func([]*pb.WatchResponse) []*pb.WatchResponse) func([]*pb.WatchResponse) ([]*pb.WatchResponse, bool) {
	return func(responses []*pb.WatchResponse) ([]*pb.WatchResponse, bool) {
		first := slices.IndexFunc(responses, func(r *pb.WatchResponse) bool { return r.Fragment })
		if first < 0 {
			return responses, false
		}
		falsified := slices.Clone(responses[:first])
		var pieces []*pb.WatchResponse
		for i, r := range responses[first:] {
			if r.WatchId != responses[first].WatchId {
				falsified = append(falsified, r)
				continue
			}
			pieces = append(pieces, proto.CloneOf(r))
			if !r.Fragment {
				return slices.Concat(falsified, falsify(pieces), responses[first+i+1:]), true
			}
		}
		return responses, false
	}
}

// endless marks the last response of a fragmented watch as a fragment that another follows.
func endless(responses []*pb.WatchResponse) ([]*pb.WatchResponse, bool) {
	first := slices.IndexFunc(responses, func(r *pb.WatchResponse) bool { return r.Fragment })
	for i := len(responses) - 1; first >= 0 && i > first; i-- {
		if responses[i].WatchId == responses[first].WatchId {
			responses[i] = proto.CloneOf(responses[i])
			return responses, len(responses[i].Events) > 0 && changed(&responses[i].Fragment, true)
		}
	}
	return responses, false
}

// changed sets a value and reports whether it differed before.
func changed[T any](what *T, to T) bool {
	was := fmt.Sprint(*what)
	*what = to
	return was != fmt.Sprint(to)
}

func shorter[T any](list *[]T) bool {
	if len(*list) == 0 {
		return false
	}
	*list = (*list)[1:]
	return true
}

func swapped[T any](list []T) bool {
	if len(list) < 2 {
		return false
	}
	list[0], list[1] = list[1], list[0]
	return true
}

// planted is a server that falsifies one response.
type planted struct {
	target.Target
	plant *plant
}

func (p *planted) Call(
	ctx context.Context, method target.Method, user string, request proto.Message,
) (target.Answer, error) {
	answer, err := p.Target.Call(ctx, method, user, request)
	if err != nil || p.plant.answer == nil || p.plant.done {
		return answer, err
	}
	falsified := answer
	if answer.Reply != nil {
		falsified.Reply = proto.Clone(answer.Reply)
	}
	if !p.plant.answer(&falsified) {
		return answer, nil
	}
	p.plant.done = true
	return falsified, nil
}

func (p *planted) Drain(ctx context.Context, stream uint32, marker int64) ([]*pb.WatchResponse, error) {
	responses, err := p.Target.Drain(ctx, stream, marker)
	if err == nil && p.plant.watch != nil && !p.plant.done {
		responses, p.plant.done = p.plant.watch(responses)
	}
	return responses, err
}

// findPlanted runs a sequence for each plant, which must end with a difference.
func (c *config) findPlanted(ctx context.Context) error {
	var group errgroup.Group
	group.SetLimit(c.sequences)
	found := 0
	for i := range plants {
		p := &plants[i]
		if c.plant != "all" && c.plant != p.name {
			continue
		}
		found++
		group.Go(func() error {
			err := c.runSequence(ctx, c.seed, c.ops, map[bool]string{false: "kv", true: "auth"}[p.auth], p, newTally())
			switch {
			case !p.done:
				return fmt.Errorf("%q could not be planted within %d steps: %v", p.name, c.ops, err)
			case err == nil:
				return fmt.Errorf("%q was planted and not detected", p.name)
			case !strings.Contains(err.Error(), "---") && !strings.Contains(err.Error(), "ours: "):
				return fmt.Errorf("%q was planted and a different change was detected: %w", p.name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if found == 0 {
		return fmt.Errorf("no plant is called %q", c.plant)
	}
	log.Printf("planted %d falsified responses, and detected each", found)
	return nil
}
