package machine

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Watch waits for the answer to a creation, so that what is asked for next comes after it.
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

// open starts a stream with a token that nothing has ended yet. It outlives the call that opens it.
func (s *Server) open(ctx context.Context, user string) (*stream, error) {
	delete(s.tokens, user)
	ctx, err := s.as(ctx, user)
	if err != nil {
		return nil, err
	}
	return openStream(context.WithoutCancel(ctx), s.conn)
}

// CatchUp makes a watcher that is itself behind. The server deals with all that are behind in one go, so once this
// one hears something, those created before it have been sent theirs.
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
	// Events or, if the first revision has been compacted, the end of the watch.
	return probe.until(ctx, func() bool { return len(probe.received) > 1 })
}

// Drain waits for the marker, if the stream can see it.
func (s *Server) Drain(ctx context.Context, number uint32, marker int64) ([]*etcdserverpb.WatchResponse, error) {
	stream := s.streams[number]
	if stream == nil {
		return nil, fmt.Errorf("no stream %d", number)
	}
	return stream.take(ctx, marker)
}
