// Package scenario generates long sequences of requests over few keys. Most requests are valid and
// find keys to work on; the others are invalid in every way that a client can get wrong.
//
// A sequence depends only on the seed and on etcd's responses to the earlier steps, from which a
// scenario learns the existing revisions, leases, watches and users. It leaves out cases in which
// etcd itself is not deterministic:
//
//   - leases whose id the server chooses, and leases that expire during other steps
//   - the events that a watcher gets if it is canceled, or history compacted, while events are in
//     flight: a settle step precedes such a step
//   - hashes during a compaction: the scenario waits for its end
//   - inverted ranges by users without permission to read all keys
//   - requests that crash a server (see dropCrashingPuts and alarms)
package scenario

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"bowline/interop/internal/target"
)

// Kind is the kind of a step.
type Kind int

const (
	// Call is a unary request.
	Call Kind = iota
	// Watch is a request on a watch stream.
	Watch
	// Settle writes the marker and waits until all streams have delivered it.
	Settle
	// Restart ends all streams and restarts the servers that can restart.
	Restart
	// Expire waits until a lease has expired on both sides.
	Expire
)

// Step is one action on both sides.
type Step struct {
	Kind    Kind
	Method  target.Method
	User    string
	Stream  uint32
	Request proto.Message
	// Lease is the lease that expires.
	Lease int64
}

func (s Step) String() string {
	switch s.Kind {
	case Call:
		return fmt.Sprintf("%s by %q\n%s", s.Method, s.User, target.Text(s.Request))
	case Watch:
		return fmt.Sprintf("Watch on stream %d by %q\n%s", s.Stream, s.User, target.Text(s.Request))
	case Settle:
		return "Settle"
	case Expire:
		return fmt.Sprintf("Expire lease %d", s.Lease)
	default:
		return "Restart"
	}
}

const (
	// settleEvery bounds the number of steps between two comparisons of the streams.
	settleEvery = 60
	// shortLife is the number of steps that a lease of MinLeaseTTL may live, a fraction of its TTL.
	shortLife = 20
)

// Scenario is an infinite sequence of steps.
type Scenario struct {
	dice  *dice
	world world
	kinds *weighted
	// auth is set for scenarios with users.
	auth bool
	// next holds steps that must follow the previous one. A nil step is no longer needed.
	next []func() *Step
	// steps counts all steps, unsettled those since the last comparison of the streams.
	steps     int
	unsettled int
	// alarmed is the number of steps until the alarm is disarmed.
	alarmed int
	// historic is set once a long history was made, which is not repeated.
	historic bool
}

// New returns a scenario without users, or one that concentrates on them. It begins with the marker
// and with steps too rare to be left to chance.
func New(seed uint64, auth bool) *Scenario {
	s := &Scenario{dice: newDice(seed), world: newWorld(), auth: auth}
	kinds := slices.Concat(plain, served)
	if auth {
		kinds = slices.Concat(plain, guarded, served)
	}
	s.kinds = newWeighted(kinds)
	s.then(s.settle, s.openStream, s.bulk)
	return s
}

// Next returns the next step.
func (s *Scenario) Next() Step {
	s.steps++
	s.unsettled++
	for {
		if step := s.draw(); step != nil {
			return *step
		}
	}
}

func (s *Scenario) draw() *Step {
	switch {
	case len(s.next) > 0:
		first := s.next[0]
		s.next = s.next[1:]
		return first()
	case s.alarmed > 0:
		return s.whileAlarmed()
	case s.unsettled > settleEvery:
		return s.settle()
	case s.world.overdue(s.steps) != 0:
		return s.callAs(s.admin(), target.LeaseRevoke, revokeOf(s.world.overdue(s.steps)))
	default:
		return s.kinds.pick(s.dice)(s)
	}
}

// then queues steps before all pending ones.
func (s *Scenario) then(steps ...func() *Step) *Step {
	s.next = append(steps, s.next...)
	return nil
}

func (s *Scenario) settle() *Step {
	s.unsettled = 0
	return &Step{Kind: Settle, User: s.admin()}
}

// call returns a request by a random user.
func (s *Scenario) call(method target.Method, request proto.Message) *Step {
	return s.callAs(s.caller(), method, request)
}

func (s *Scenario) callAs(user string, method target.Method, request proto.Message) *Step {
	return &Step{Kind: Call, Method: method, User: user, Request: request}
}

// restart compares the state restored from the files. Streams do not survive it. A short lease
// could expire on one side only, since the restarts take different times.
func (s *Scenario) restart() *Step {
	return s.then(s.endShortLease, s.settle, func() *Step { return &Step{Kind: Restart} })
}

// choice is a kind of step with its weight.
type choice struct {
	weight int
	draw   func(*Scenario) *Step
}

// plain lists the choices without auth, with weights that add up to about 10,000.
var plain = []choice{
	{2700, (*Scenario).put},
	{900, (*Scenario).deleteRange},
	{2400, (*Scenario).rangeKeys},
	{1900, (*Scenario).txn},
	{400, (*Scenario).grant},
	{250, (*Scenario).revoke},
	{300, (*Scenario).timeToLive},
	{60, (*Scenario).leases},
	{150, (*Scenario).compact},
	{20, (*Scenario).emptied},
	{150, (*Scenario).hash},
	{400, (*Scenario).watch},
	{200, (*Scenario).cancel},
	{100, (*Scenario).progress},
	{4, (*Scenario).bulk},
	{5, (*Scenario).history},
	{15, (*Scenario).alarms},
	{5, (*Scenario).restart},
}

// weighted picks one of the choices by weight.
type weighted struct {
	choices []choice
	total   int
}

func newWeighted(choices []choice) *weighted {
	w := &weighted{choices: choices}
	for _, c := range choices {
		w.total += c.weight
	}
	return w
}

func (w *weighted) pick(d *dice) func(*Scenario) *Step {
	n := d.below(w.total)
	for _, c := range w.choices {
		if n -= c.weight; n < 0 {
			return c.draw
		}
	}
	panic("the weights do not add up")
}
