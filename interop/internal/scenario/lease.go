package scenario

import (
	"math"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"bowline/interop/internal/target"
)

// maxLeaseTTL is the longest TTL that etcd grants.
const maxLeaseTTL = 9_000_000_000

// someLease returns an id from a small pool, so that requests meet existing and missing leases.
func (s *Scenario) someLease() int64 {
	if s.dice.chance(50) {
		return one(s.dice, []int64{-7, math.MaxInt64, math.MinInt64, 1 << 40})
	}
	return s.dice.between(1, 30)
}

// leaseID returns the lease of a put: mostly none, else an existing one, rarely a missing one.
func (s *Scenario) leaseID() int64 {
	switch n := s.dice.below(100); {
	case n < 65 || len(s.world.leases) == 0:
		return 0
	case n < 95:
		return one(s.dice, s.world.leases).id
	default:
		return s.someLease()
	}
}

func (s *Scenario) grant() *Step {
	request := &pb.LeaseGrantRequest{ID: s.someLease(), TTL: s.ttl()}
	// The server chooses the id of a lease with id 0, so only requests that fail use it.
	if request.TTL > maxLeaseTTL && s.dice.chance(300) {
		request.ID = 0
	}
	return s.call(target.LeaseGrant, request)
}

func (s *Scenario) ttl() int64 {
	switch n := s.dice.below(100); {
	case n < 75:
		return s.dice.between(3600, 100000)
	case n < 90:
		return one(s.dice, []int64{0, 1, -1, target.MinLeaseTTL - 1, target.MinLeaseTTL, math.MinInt64})
	default:
		return one(s.dice, []int64{maxLeaseTTL, maxLeaseTTL + 1, math.MaxInt64})
	}
}

func (s *Scenario) revoke() *Step { return s.call(target.LeaseRevoke, revokeOf(s.knownLease())) }

func revokeOf(id int64) *pb.LeaseRevokeRequest { return &pb.LeaseRevokeRequest{ID: id} }

func (s *Scenario) timeToLive() *Step {
	return s.call(target.LeaseTimeToLive, &pb.LeaseTimeToLiveRequest{ID: s.knownLease(), Keys: s.dice.chance(700)})
}

func (s *Scenario) leases() *Step { return s.call(target.LeaseLeases, &pb.LeaseLeasesRequest{}) }

func (s *Scenario) knownLease() int64 {
	if len(s.world.leases) == 0 || s.dice.chance(150) {
		return s.someLease()
	}
	return one(s.dice, s.world.leases).id
}
