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
// Events of one revision come together, unless they are marked as fragments, which only a watch
// that asked for them gets, and of which there is a last; beyond that it does not matter in how
// many responses they come. Everything else is compared as it is. What watches get is not ordered
// among them.
type Watch struct {
	sides [2]side
}

// side is the part of one stream that the other has not delivered yet.
type side struct {
	lanes map[lane][]proto.Message
	// last is the revision at which each watch's last response ended.
	last map[int64]ending
	// compacted are the watches that were ended because of a compaction, until their client cancels
	// them.
	compacted map[int64]bool
	// asked are the creations that have not been answered yet, and fragments the watches that want
	// fragments.
	asked     []*pb.WatchCreateRequest
	fragments map[int64]bool
	// whole is set where a response may be of any size: until it has announced a watch, etcd keeps
	// back what there is for it, and then sends that as it is.
	whole bool
}

// lane is one watch, or the reports of progress, which have a watch id that failed creations have
// as well.
type lane struct {
	id       int64
	progress bool
}

// allWatches is the id of reports about a whole stream.
const allWatches = -1

// maxFragment is what a response with several events stays below, if its watch wants fragments: the
// default of --max-request-bytes and what etcd adds to it.
const maxFragment = 1536<<10 + 512<<10

type ending struct {
	revision int64
	fragment bool
}

// NewWatch compares two streams that are both new.
func NewWatch() *Watch {
	w := &Watch{}
	for i := range w.sides {
		w.sides[i] = side{
			lanes:     map[lane][]proto.Message{},
			last:      map[int64]ending{},
			compacted: map[int64]bool{},
			fragments: map[int64]bool{},
			whole:     i == 0,
		}
	}
	return w
}

// Asked takes note of a request to both sides. Creations are answered in order.
func (w *Watch) Asked(request *pb.WatchRequest) {
	if create := request.GetCreateRequest(); create != nil {
		for i := range w.sides {
			w.sides[i].asked = append(w.sides[i].asked, create)
		}
	}
}

// Add takes the responses of a side up to a revision. It returns an error if they break a guarantee
// of watches.
func (w *Watch) Add(which int, responses []*pb.WatchResponse, newest int64) error {
	for _, response := range responses {
		if err := w.sides[which].add(response, newest); err != nil {
			return fmt.Errorf("%w:\n%s", err, machine.Text(response))
		}
	}
	return nil
}

func (s *side) add(response *pb.WatchResponse, newest int64) error {
	if len(response.Events) == 0 {
		return s.addPlain(response)
	}
	if err := s.promises(response, newest); err != nil {
		return err
	}
	at := lane{id: response.WatchId}
	for _, event := range response.Events {
		s.lanes[at] = append(s.lanes[at], event)
	}
	return nil
}

// addPlain takes a response without events.
func (s *side) addPlain(response *pb.WatchResponse) error {
	plain := proto.Clone(response).(*pb.WatchResponse)
	normalHeader(plain.Header)
	at := lane{plain.WatchId, !plain.Created && !plain.Canceled}
	s.lanes[at] = append(s.lanes[at], plain)
	if s.last[at.id].fragment {
		return errors.New("after a fragment that is not the last")
	}
	if plain.Created || plain.Canceled {
		delete(s.last, at.id)
		delete(s.compacted, at.id)
	}
	if plain.CompactRevision != 0 {
		s.compacted[at.id] = true
	}
	if plain.Created {
		return s.created(at.id)
	}
	return nil
}

// created finds out what was asked of a watch.
func (s *side) created(id int64) error {
	if len(s.asked) == 0 {
		return errors.New("a watch that was not requested")
	}
	s.fragments[id] = s.asked[0].Fragment
	s.asked = s.asked[1:]
	return nil
}

// promises are in order, nothing twice, a revision in one piece, no future and no size that was not
// asked for.
func (s *side) promises(response *pb.WatchResponse, newest int64) error {
	revision, err := s.ordered(response)
	if err != nil {
		return err
	}
	fragments := s.fragments[response.WatchId]
	switch header := response.Header.GetRevision(); {
	case response.Created || response.Canceled || response.CompactRevision != 0 || response.CancelReason != "":
		return errors.New("events together with something else")
	case header < revision:
		return fmt.Errorf("events of revision %d under a header of %d", revision, header)
	case header > newest:
		return fmt.Errorf("a header of %d when the newest revision was %d", header, newest)
	case response.Fragment && !fragments:
		return errors.New("a fragment that was not asked for")
	case fragments && !s.whole && len(response.Events) > 1 && proto.Size(response) >= maxFragment:
		return fmt.Errorf("%d bytes in one response", proto.Size(response))
	}
	s.last[response.WatchId] = ending{revision, response.Fragment}
	return nil
}

// ordered is the last revision of a response's events, which follow on those before.
func (s *side) ordered(response *pb.WatchResponse) (int64, error) {
	before := s.last[response.WatchId]
	revision := before.revision
	for i, event := range response.Events {
		at := event.Kv.ModRevision
		switch {
		case at < revision:
			return 0, fmt.Errorf("revision %d after %d", at, revision)
		case at == revision && i == 0 && !before.fragment:
			return 0, fmt.Errorf("revision %d in pieces", at)
		}
		revision = at
	}
	return revision, nil
}

// unended is a watch whose last response is a fragment that another must follow.
func (s *side) unended() (int64, bool) {
	for _, id := range slices.Sorted(maps.Keys(s.last)) {
		if s.last[id].fragment {
			return id, true
		}
	}
	return 0, false
}

// Settled drops the common responses of both sides, and returns an error for the first difference.
func (w *Watch) Settled() error {
	for which, name := range []string{"etcd", "ours"} {
		if id, is := w.sides[which].unended(); is {
			return fmt.Errorf("%s: watch %d ends in a fragment", name, id)
		}
	}
	one, other := w.sides[0].lanes, w.sides[1].lanes
	for at := range one {
		n := common(one[at], other[at])
		one[at], other[at] = one[at][n:], other[at][n:]
	}
	if reports := (lane{allWatches, true}); len(w.sides[0].compacted) > 0 && len(one[reports]) == 0 {
		// etcd does not answer for a stream on which a compaction ended a watch; that is what it may do
		// and we need not.
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

// common returns the length of the common prefix of two lists.
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

// shown bounds the printed part of a difference.
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
