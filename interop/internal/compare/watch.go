package compare

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	"bowline/interop/internal/target"
)

// Watch compares what two streams deliver, watch by watch:
//
//	watch 3   created | put a@5 | put b@5 | delete a@7 | canceled
//
// Events of one revision arrive in one response, unless they are marked as fragments, which only a
// watch that requested them gets, and which end with an unmarked response. Otherwise the grouping
// of events into responses does not matter. All other responses must be equal. There is no order
// between different watches.
type Watch struct {
	sides [2]side
}

// side holds the responses of one stream that the other has not delivered yet.
type side struct {
	lanes map[lane][]proto.Message
	// last is the state after the last response of each watch.
	last map[int64]ending
	// compacted holds the watches that a compaction canceled, until their client cancels them.
	compacted map[int64]bool
	// requested are the pending creations, and fragments the watches that requested fragments.
	requested []*pb.WatchCreateRequest
	fragments map[int64]bool
	// whole is set if a response may have any size: until etcd has announced a watch, it buffers
	// its responses, and then sends them unfragmented.
	whole bool
}

// lane is one watch, or the progress notifications, whose watch id is also that of failed
// creations.
type lane struct {
	id       int64
	progress bool
}

// allWatches is the watch id of progress notifications for a whole stream.
const allWatches = -1

// maxFragment bounds a response with several events of a watch with fragments: the default of
// --max-request-bytes plus etcd's overhead.
const maxFragment = 1536<<10 + 512<<10

type ending struct {
	revision int64
	fragment bool
}

// NewWatch returns a comparison of two new streams.
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

// Asked records a request to both sides. Creations are answered in order.
func (w *Watch) Asked(request *pb.WatchRequest) {
	if create := request.GetCreateRequest(); create != nil {
		for i := range w.sides {
			w.sides[i].requested = append(w.sides[i].requested, create)
		}
	}
}

// Add takes the responses of a side up to a revision. It returns an error if they break a guarantee
// of watches.
func (w *Watch) Add(which int, responses []*pb.WatchResponse, newest int64) error {
	for _, response := range responses {
		if err := w.sides[which].add(response, newest); err != nil {
			return fmt.Errorf("%w:\n%s", err, target.Text(response))
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

// addPlain adds a response without events.
func (s *side) addPlain(response *pb.WatchResponse) error {
	plain := proto.Clone(response).(*pb.WatchResponse)
	normalHeader(plain.Header)
	at := lane{plain.WatchId, !plain.Created && !plain.Canceled}
	s.lanes[at] = append(s.lanes[at], plain)
	if s.last[at.id].fragment {
		return errors.New("the response follows an unfinished fragment")
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

// created matches a created watch with the first pending creation.
func (s *side) created(id int64) error {
	if len(s.requested) == 0 {
		return errors.New("the watch was not requested")
	}
	s.fragments[id] = s.requested[0].Fragment
	s.requested = s.requested[1:]
	return nil
}

// promises checks a response: in order, without duplicates, each revision in one piece, no revision
// from the future and no response above the fragment limit.
func (s *side) promises(response *pb.WatchResponse, newest int64) error {
	revision, err := s.ordered(response)
	if err != nil {
		return err
	}
	fragments := s.fragments[response.WatchId]
	switch header := response.Header.GetRevision(); {
	case response.Created || response.Canceled || response.CompactRevision != 0 || response.CancelReason != "":
		return errors.New("a response with events carries other fields")
	case header < revision:
		return fmt.Errorf("events of revision %d with header revision %d", revision, header)
	case header > newest:
		return fmt.Errorf("header revision %d is above the newest revision %d", header, newest)
	case response.Fragment && !fragments:
		return errors.New("the fragment was not requested")
	case fragments && !s.whole && len(response.Events) > 1 && proto.Size(response) >= maxFragment:
		return fmt.Errorf("a response of %d bytes exceeds the fragment limit", proto.Size(response))
	}
	s.last[response.WatchId] = ending{revision, response.Fragment}
	return nil
}

// ordered checks the order of events and returns the last revision of a response.
func (s *side) ordered(response *pb.WatchResponse) (int64, error) {
	before := s.last[response.WatchId]
	revision := before.revision
	for i, event := range response.Events {
		at := event.Kv.ModRevision
		switch {
		case at < revision:
			return 0, fmt.Errorf("revision %d after %d", at, revision)
		case at == revision && i == 0 && !before.fragment:
			return 0, fmt.Errorf("revision %d is split over responses", at)
		}
		revision = at
	}
	return revision, nil
}

// unended returns a watch whose last response is an unfinished fragment.
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
			return fmt.Errorf("%s: watch %d ends in an unfinished fragment", name, id)
		}
	}
	one, other := w.sides[0].lanes, w.sides[1].lanes
	for at := range one {
		n := common(one[at], other[at])
		one[at], other[at] = one[at][n:], other[at][n:]
	}
	if reports := (lane{allWatches, true}); len(w.sides[0].compacted) > 0 && len(one[reports]) == 0 {
		// etcd sends no progress notifications on a stream with a watch that a compaction canceled;
		// our server may send them.
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
		text += target.Text(message) + "\n"
	}
	if text == "" {
		return "nothing more\n"
	}
	return text
}
