package compare

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	"bowline/interop/internal/machine"
)

// Watch compares what two streams deliver, watch by watch:
//
//	watch 3   created | put a@5 | put b@5 | delete a@7 | canceled
//
// Events of one revision come together, unless they are marked as fragments;
// beyond that it does not matter in how many responses they come. Everything
// else is compared as it is. What watches get is not ordered among them.
type Watch struct {
	sides [2]side
}

// side is what one stream has delivered and the other not yet.
type side struct {
	lanes map[lane][]proto.Message
	// last is the revision at which each watch's last response ended.
	last map[int64]ending
	// compacted are the watches that were ended because of a compaction, until their client cancels them.
	compacted map[int64]bool
}

// lane is one watch, or the reports of progress, which have a watch id that failed creations have as well.
type lane struct {
	id       int64
	progress bool
}

// allWatches is the id of reports about a whole stream.
const allWatches = -1

type ending struct {
	revision int64
	fragment bool
}

// NewWatch compares two streams that are both new.
func NewWatch() *Watch {
	w := &Watch{}
	for i := range w.sides {
		w.sides[i] = side{map[lane][]proto.Message{}, map[int64]ending{}, map[int64]bool{}}
	}
	return w
}

// Add takes what a side has delivered. It fails if that breaks a promise that any server makes.
func (w *Watch) Add(which int, responses []*pb.WatchResponse) error {
	for _, response := range responses {
		if err := w.sides[which].add(response); err != nil {
			return fmt.Errorf("%w:\n%s", err, machine.Text(response))
		}
	}
	return nil
}

func (s *side) add(response *pb.WatchResponse) error {
	at := lane{id: response.WatchId}
	if len(response.Events) == 0 {
		plain := proto.Clone(response).(*pb.WatchResponse)
		normalHeader(plain.Header)
		at.progress = !plain.Created && !plain.Canceled
		s.lanes[at] = append(s.lanes[at], plain)
		if plain.Created || plain.Canceled {
			delete(s.last, at.id)
			delete(s.compacted, at.id)
		}
		if plain.CompactRevision != 0 {
			s.compacted[at.id] = true
		}
		return nil
	}
	if err := s.promises(response); err != nil {
		return err
	}
	for _, event := range response.Events {
		s.lanes[at] = append(s.lanes[at], event)
	}
	return nil
}

// promises are in order, nothing twice, and a revision in one piece.
func (s *side) promises(response *pb.WatchResponse) error {
	before := s.last[response.WatchId]
	revision := before.revision
	for i, event := range response.Events {
		at := event.Kv.ModRevision
		switch {
		case at < revision:
			return fmt.Errorf("revision %d after %d", at, revision)
		case at == revision && i == 0 && !before.fragment:
			return fmt.Errorf("revision %d in pieces", at)
		}
		revision = at
	}
	switch {
	case response.Created || response.Canceled || response.CompactRevision != 0 || response.CancelReason != "":
		return errors.New("events together with something else")
	case response.Header.GetRevision() < revision:
		return fmt.Errorf("events of revision %d under a header of %d", revision, response.Header.GetRevision())
	}
	s.last[response.WatchId] = ending{revision, response.Fragment}
	return nil
}

// Settled forgets what both sides have delivered, and tells the first difference there is beyond it.
func (w *Watch) Settled() error {
	one, other := w.sides[0].lanes, w.sides[1].lanes
	for at := range one {
		n := common(one[at], other[at])
		one[at], other[at] = one[at][n:], other[at][n:]
	}
	if reports := (lane{allWatches, true}); len(w.sides[0].compacted) > 0 && len(one[reports]) == 0 {
		// etcd does not answer for a stream on which a compaction ended a watch; that is what it may do and we need not.
		delete(other, reports)
	}
	for _, at := range lanes(one, other) {
		if len(one[at])+len(other[at]) > 0 {
			return fmt.Errorf("watch %d:\n--- etcd ---\n%s--- ours ---\n%s", at.id, texts(one[at]), texts(other[at]))
		}
		delete(one, at)
		delete(other, at)
	}
	return nil
}

// common counts how many at the start of two lists are equal.
func common(one, other []proto.Message) int {
	n := 0
	for n < len(one) && n < len(other) && proto.Equal(one[n], other[n]) {
		n++
	}
	return n
}

func lanes(one, other map[lane][]proto.Message) []lane {
	all := slices.AppendSeq(slices.Collect(maps.Keys(one)), maps.Keys(other))
	slices.SortFunc(all, func(a, b lane) int { return cmp.Compare(a.id, b.id) })
	return all
}

// shown is how much of a difference is printed.
const shown = 3

func texts(messages []proto.Message) string {
	text := ""
	for i, message := range messages {
		if i == shown {
			return text + fmt.Sprintf("and %d more\n", len(messages)-shown)
		}
		text += machine.Text(message) + "\n"
	}
	if text == "" {
		return "nothing more\n"
	}
	return text
}
