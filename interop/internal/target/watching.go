package target

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Watch waits for the response to a creation, so that later requests come after it.
func (s *Server) Watch(
	ctx context.Context, number uint32, user string, request *etcdserverpb.WatchRequest,
) (*etcdserverpb.WatchResponse, error) {
	stream := s.streams[number]
	if stream == nil {
		var err error
		if stream, err = s.open(ctx, user); err != nil {
			return nil, err
		}
		s.streams[number] = stream
	}
	create := request.GetCreateRequest()
	if create == nil {
		return nil, stream.client.Send(request)
	}
	s.behind = s.behind || create.StartRevision > 0
	return stream.create(ctx, request)
}

// open starts a stream with a fresh token. The stream outlives ctx.
func (s *Server) open(ctx context.Context, user string) (*stream, error) {
	delete(s.tokens, user)
	ctx, err := s.as(ctx, user)
	if err != nil {
		return nil, err
	}
	return openStream(context.WithoutCancel(ctx), s.conn)
}

// CatchUp creates a watcher that is itself behind. The server syncs all unsynced watchers together,
// so once this one gets a response, the earlier ones have got theirs.
func (s *Server) CatchUp(ctx context.Context, user string) error {
	if !s.behind {
		return nil
	}
	s.behind = false
	probe, err := s.open(ctx, user)
	if err != nil {
		return err
	}
	defer probe.end()
	created, err := probe.create(ctx, &etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{
		CreateRequest: &etcdserverpb.WatchCreateRequest{Key: []byte(MarkerKey), StartRevision: 1},
	}})
	if err != nil {
		return err
	}
	if created.Canceled {
		return errors.New("catch up: " + created.CancelReason)
	}
	// Events or, if revision 1 is compacted, a cancellation.
	return probe.until(ctx, func() bool { return len(probe.received) > 1 })
}

// Drain waits for the marker, if the stream watches it.
func (s *Server) Drain(ctx context.Context, number uint32, marker int64) ([]*etcdserverpb.WatchResponse, error) {
	stream := s.streams[number]
	if stream == nil {
		return nil, fmt.Errorf("no stream %d", number)
	}
	return stream.take(ctx, marker)
}
