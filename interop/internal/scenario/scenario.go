// Package scenario generates long sequences of requests over few keys. Most requests are valid and
// find keys to work on; the others are invalid in every way that a client can get wrong.
//
// A sequence depends only on the seed and on etcd's responses to the earlier steps, from which a
// scenario learns the existing revisions, leases, watches and users. It leaves out cases in which
// etcd itself is not deterministic:
//
//   - a lease whose id the server chooses, and leases that end by themselves while there is something else to do
//   - what a watcher is sent if it is canceled, or history compacted, while events are on their way to it: such a step
//     is preceded by one that lets everything arrive
//   - hashes while a compaction runs: it is waited for
//   - ranges that end before they begin, by users who may not read everything
//   - what crashes a server (see spare and alarms)
package scenario

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"bowline/interop/internal/machine"
)

// Kind is the kind of a step.
type Kind int

const (
	// Call is a request with an answer.
	Call Kind = iota
	// Watch is a request over a stream.
	Watch
	// Settle writes the marker and waits until all streams have delivered it.
	Settle
	// Restart ends all streams and restarts the machines that can restart.
	Restart
	// Expire waits until a lease has run out on both sides.
	Expire
)

// Step is one action on both sides.
type Step struct {
	Kind    Kind
	Method  machine.Method
	User    string
	Stream  uint32
	Request proto.Message
	// Lease is the one that runs out.
	Lease int64
}

func (s Step) String() string {
	switch s.Kind {
	case Call:
		return fmt.Sprintf("%s by %q\n%s", s.Method, s.User, machine.Text(s.Request))
	case Watch:
		return fmt.Sprintf("Watch on stream %d by %q\n%s", s.Stream, s.User, machine.Text(s.Request))
	case Settle:
		return "Settle"
	case Expire:
		return fmt.Sprintf("Expire lease %d", s.Lease)
	default:
		return "Restart"
	}
}

const (
	// settleEvery is how many steps at most go by before streams are looked at.
	settleEvery = 60
	// shortLife is how many steps a lease of MinLeaseTTL may live, which is a fraction of that time.
	shortLife = 20
)

// Scenario is an infinite sequence of steps.
type Scenario struct {
	dice  *dice
	world world
	kinds *weighted
	// auth is set where there are users.
	auth bool
	// next are steps that belong together with one before them. One that has no longer any point is
	// nil.
	next []func() *Step
	// steps counts all, unsettled those since the streams were looked at.
	steps     int
	unsettled int
	// alarmed is for how many more steps an alarm is to stand.
	alarmed int
	// historic is set when there has been a long history, of which one is enough.
	historic bool
}

// New returns a scenario without users, or one that is mostly about them. It begins with the marker
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
		return s.callAs(s.admin(), machine.LeaseRevoke, revokeOf(s.world.overdue(s.steps)))
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
func (s *Scenario) call(method machine.Method, request proto.Message) *Step {
	return s.callAs(s.caller(), method, request)
}

func (s *Scenario) callAs(user string, method machine.Method, request proto.Message) *Step {
	return &Step{Kind: Call, Method: method, User: user, Request: request}
}

// restart is rare: everything is held to what the files say. Streams do not outlive it.
func (s *Scenario) restart() *Step {
	return s.then(s.settle, func() *Step { return &Step{Kind: Restart} })
}

// choice is a kind of step with its weight.
type choice struct {
	weight int
	draw   func(*Scenario) *Step
}

// plain are the choices without auth, with weights that add up to about 10,000.
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
	{150, (*Scenario).hash},
	{400, (*Scenario).watch},
	{200, (*Scenario).cancel},
	{100, (*Scenario).progress},
	{4, (*Scenario).bulk},
	{5, (*Scenario).history},
	{15, (*Scenario).alarms},
	{5, (*Scenario).restart},
}

// weighted picks among choices.
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
