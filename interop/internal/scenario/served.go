package scenario

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	"bowline/interop/internal/target"
)

// served lists the choices that need a running server: clocks, tokens and streams.
var served = []choice{
	{250, (*Scenario).keepAlive},
	{400, (*Scenario).rangeStream},
	{60, (*Scenario).authenticate},
	{20, func(s *Scenario) *Step { return s.call(target.Defragment, &pb.DefragmentRequest{}) }},
	{3, (*Scenario).expire},
}

func (s *Scenario) keepAlive() *Step {
	return s.call(target.LeaseKeepAlive, &pb.LeaseKeepAliveRequest{ID: s.knownLease()})
}

// rangeStream sorts only by key, unless the request is refused for its order: etcd continues after
// the last key of a sorted chunk, which need not be its largest key.
func (s *Scenario) rangeStream() *Step {
	request := s.rangeRequest()
	if request.SortOrder == pb.RangeRequest_NONE {
		request.SortTarget = pb.RangeRequest_KEY
	}
	return s.call(target.RangeStream, request)
}

// authenticate logs in a user, with a correct or a wrong password.
func (s *Scenario) authenticate() *Step {
	name := s.userName()
	password := s.world.users[name].password
	if s.dice.chance(400) {
		password = one(s.dice, []string{"", "wrong"})
	}
	return s.call(target.Authenticate, &pb.AuthenticateRequest{Name: name, Password: password})
}

// expiring is the first id of leases that expire. No other leases have these ids.
const expiring = 1 << 20

// expire lets a lease with keys expire after a renewal, and reads the remaining keys. No other step
// runs meanwhile, because the exact time of the expiry is not deterministic.
func (s *Scenario) expire() *Step {
	id := int64(expiring + s.steps)
	as := func(method target.Method, request proto.Message) func() *Step {
		return func() *Step { return s.callAs(s.admin(), method, request) }
	}
	ttl := s.dice.between(1, target.MinLeaseTTL)
	steps := []func() *Step{s.settle, s.endShortLease, as(target.LeaseGrant, &pb.LeaseGrantRequest{ID: id, TTL: ttl})}
	for range s.dice.below(4) {
		put := &pb.PutRequest{Key: one(s.dice, keys), Value: one(s.dice, values), Lease: id}
		steps = append(steps, as(target.Put, put))
	}
	return s.then(append(steps,
		as(target.LeaseKeepAlive, &pb.LeaseKeepAliveRequest{ID: id}),
		as(target.LeaseTimeToLive, &pb.LeaseTimeToLiveRequest{ID: id, Keys: true}),
		func() *Step { return &Step{Kind: Expire, User: s.admin(), Lease: id} },
		as(target.Range, &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}}),
		as(target.LeaseLeases, &pb.LeaseLeasesRequest{}),
		s.settle,
	)...)
}

// LearnExpired records that a lease has expired.
func (s *Scenario) LearnExpired(step Step) { s.world.forgetLease(step.Lease) }
