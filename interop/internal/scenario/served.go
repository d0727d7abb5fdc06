package scenario

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	"bowline/interop/internal/machine"
)

// served is what there is to do beyond the state machine: with clocks, tokens and streams.
var served = []choice{
	{250, (*Scenario).keepAlive},
	{400, (*Scenario).rangeStream},
	{60, (*Scenario).authenticate},
	{20, func(s *Scenario) *Step { return s.call(machine.Defragment, &pb.DefragmentRequest{}) }},
	{3, (*Scenario).expire},
}

func (s *Scenario) keepAlive() *Step {
	return s.call(machine.LeaseKeepAlive, &pb.LeaseKeepAliveRequest{ID: s.knownLease()})
}

// rangeStream has no order by anything but keys unless it is refused for that: etcd goes on after the last key of a piece
// that it has sorted, which need not be the last of the piece.
func (s *Scenario) rangeStream() *Step {
	request := s.rangeRequest()
	if request.SortOrder == pb.RangeRequest_NONE {
		request.SortTarget = pb.RangeRequest_KEY
	}
	return s.call(machine.RangeStream, request)
}

// authenticate lets somebody in, or not.
func (s *Scenario) authenticate() *Step {
	name := s.userName()
	password := s.world.users[name].password
	if s.dice.chance(400) {
		password = one(s.dice, []string{"", "wrong"})
	}
	return s.call(machine.Authenticate, &pb.AuthenticateRequest{Name: name, Password: password})
}

// expiring is the first of the leases that run out. They are no others' ids.
const expiring = 1 << 20

// expire lets a lease run out that has keys, after its time has begun anew, and looks at what that leaves. Nothing else
// is done meanwhile, because when exactly it runs out nobody decides.
func (s *Scenario) expire() *Step {
	id := int64(expiring + s.steps)
	as := func(method machine.Method, request proto.Message) func() *Step {
		return func() *Step { return s.callAs(s.admin(), method, request) }
	}
	ttl := s.dice.between(1, machine.MinLeaseTTL)
	steps := []func() *Step{s.settle, s.endShortLease, as(machine.LeaseGrant, &pb.LeaseGrantRequest{ID: id, TTL: ttl})}
	for range s.dice.below(4) {
		put := &pb.PutRequest{Key: one(s.dice, keys), Value: one(s.dice, values), Lease: id}
		steps = append(steps, as(machine.Put, put))
	}
	return s.then(append(steps,
		as(machine.LeaseKeepAlive, &pb.LeaseKeepAliveRequest{ID: id}),
		as(machine.LeaseTimeToLive, &pb.LeaseTimeToLiveRequest{ID: id, Keys: true}),
		func() *Step { return &Step{Kind: Expire, User: s.admin(), Lease: id} },
		as(machine.Range, &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}}),
		as(machine.LeaseLeases, &pb.LeaseLeasesRequest{}),
		s.settle,
	)...)
}

// LearnExpired takes note that a lease has run out.
func (s *Scenario) LearnExpired(step Step) { s.world.forgetLease(step.Lease) }
