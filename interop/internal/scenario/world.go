package scenario

import (
	"math"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"

	"bowline/interop/internal/target"
)

// world is the state of etcd as known from its responses.
type world struct {
	revision  int64
	compacted int64
	// compactions are the compacted revisions, whose hashes a server caches.
	compactions []int64
	// tombstones are the last revisions at which a request deleted keys.
	tombstones []int64
	// compacting is set while a compaction may be running.
	compacting bool
	// forgotten is the last compaction before a restart. Only one side caches hashes up to it.
	forgotten int64

	leases []lease
	alarms []*pb.AlarmMember

	streams    []*stream
	nextStream uint32

	authEnabled bool
	users       map[string]user
}

type lease struct {
	id int64
	// due is the step before which a short lease must be revoked, 0 for a long one.
	due int
}

// stream is a watch stream and the watches on it.
type stream struct {
	number  uint32
	user    string
	watches []int64
}

type user struct {
	// password is empty if the user cannot log in.
	password string
	// unkeyed users were created without a password; a later password does not enable login.
	unkeyed bool
}

func newWorld() world {
	return world{revision: 1, compacted: -1, forgotten: math.MinInt64, users: map[string]user{}}
}

// Learn records etcd's response to a step.
func (s *Scenario) Learn(step Step, answer target.Answer) {
	w := &s.world
	if compact, ok := step.Request.(*pb.CompactionRequest); ok {
		w.learnCompaction(compact, answer)
	}
	if answer.Code != codes.OK {
		return
	}
	if header := headerOf(answer); header != nil {
		w.revision = max(w.revision, header.Revision)
	}
	switch request := step.Request.(type) {
	case *pb.DeleteRangeRequest:
		w.learnDeletion(answer.Reply.(*pb.DeleteRangeResponse))
	case *pb.LeaseGrantRequest:
		w.leases = append(w.leases, newLease(request, s.steps))
	case *pb.LeaseRevokeRequest:
		w.forgetLease(request.ID)
	case *pb.AlarmRequest:
		w.learnAlarm(request, answer.Reply.(*pb.AlarmResponse))
	default:
		w.learnAuth(step.Request)
	}
}

func (w *world) forgetLease(id int64) {
	w.leases = slices.DeleteFunc(w.leases, func(l lease) bool { return l.id == id })
}

func headerOf(answer target.Answer) *pb.ResponseHeader {
	if reply, ok := answer.Reply.(interface{ GetHeader() *pb.ResponseHeader }); ok {
		return reply.GetHeader()
	}
	return nil
}

// learnCompaction relies on the fact that a physical compaction waits for the running one, even if
// it has nothing to do.
func (w *world) learnCompaction(request *pb.CompactionRequest, answer target.Answer) {
	switch {
	case answer.Code == codes.OK:
		w.compacted = request.Revision
		w.compactions = append(w.compactions, request.Revision)
		w.compacting = !request.Physical
	case request.Physical && answer.Text == rpctypes.ErrorDesc(rpctypes.ErrGRPCCompacted):
		w.compacting = false
	}
}

// rememberedTombstones is the number of recent deletions to compact at.
const rememberedTombstones = 5

func (w *world) learnDeletion(reply *pb.DeleteRangeResponse) {
	if reply.Deleted == 0 {
		return
	}
	w.tombstones = append(w.tombstones, reply.Header.Revision)
	w.tombstones = w.tombstones[max(0, len(w.tombstones)-rememberedTombstones):]
}

func (w *world) learnAlarm(request *pb.AlarmRequest, reply *pb.AlarmResponse) {
	switch request.Action {
	case pb.AlarmRequest_ACTIVATE:
		w.alarms = append(w.alarms, reply.Alarms...)
	case pb.AlarmRequest_DEACTIVATE:
		w.alarms = slices.DeleteFunc(w.alarms, func(a *pb.AlarmMember) bool {
			return a.MemberID == request.MemberID && a.Alarm == request.Alarm
		})
	}
}

// LearnWatch records etcd's response to the creation of a watch.
func (s *Scenario) LearnWatch(step Step, created *pb.WatchResponse) {
	if created == nil || created.Canceled || created.WatchId == target.MarkerID {
		return
	}
	for _, stream := range s.world.streams {
		if stream.number == step.Stream {
			stream.watches = append(stream.watches, created.WatchId)
		}
	}
}

// LearnRestart records that streams are closed, and that one side has lost its cached hashes.
func (s *Scenario) LearnRestart() {
	s.world.streams = nil
	s.world.forgotten = s.world.compacted
}

// overdue returns a lease that must be revoked before it expires, or 0.
func (w *world) overdue(step int) int64 {
	for _, l := range w.leases {
		if l.due != 0 && l.due < step {
			return l.id
		}
	}
	return 0
}

func newLease(request *pb.LeaseGrantRequest, step int) lease {
	if request.TTL <= target.MinLeaseTTL {
		return lease{request.ID, step + shortLife}
	}
	return lease{request.ID, 0}
}
