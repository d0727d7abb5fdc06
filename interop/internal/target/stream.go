package target

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// requestTimeout bounds each request and each wait on a stream.
const requestTimeout = 30 * time.Second

// stream is a watch stream with its received responses.
type stream struct {
	client etcdserverpb.Watch_WatchClient
	end    context.CancelFunc

	mu       sync.Mutex
	received []*etcdserverpb.WatchResponse
	// created counts the responses to creations, and lastCreated is the newest.
	created     int
	lastCreated *etcdserverpb.WatchResponse
	// marked is set if the stream watches the marker; marker is the newest revision seen of it.
	marked bool
	marker int64
	err    error
	// news has capacity one, which is enough to wake the only waiter.
	news chan struct{}
}

func openStream(ctx context.Context, conn grpc.ClientConnInterface) (*stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	client, err := etcdserverpb.NewWatchClient(conn).Watch(ctx)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("open a watch stream: %w", err)
	}
	s := &stream{client: client, end: cancel, news: make(chan struct{}, 1)}
	go s.receive()
	return s, nil
}

func (s *stream) receive() {
	for {
		response, err := s.client.Recv()
		s.note(response, err)
		select {
		case s.news <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

func (s *stream) note(response *etcdserverpb.WatchResponse, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.err = err
		return
	}
	s.received = append(s.received, response)
	if response.Created {
		s.created++
		s.lastCreated = response
		s.marked = s.marked || response.WatchId == MarkerID
	}
	if n := len(response.Events); n > 0 && response.WatchId == MarkerID {
		s.marker = response.Events[n-1].Kv.ModRevision
	}
}

// create sends a creation and returns its response.
func (s *stream) create(ctx context.Context, request *etcdserverpb.WatchRequest) (*etcdserverpb.WatchResponse, error) {
	s.mu.Lock()
	want := s.created + 1
	s.mu.Unlock()
	if err := s.client.Send(request); err != nil {
		return nil, fmt.Errorf("send a watch: %w", err)
	}
	if err := s.until(ctx, func() bool { return s.created == want }); err != nil {
		return nil, fmt.Errorf("response to the creation of a watch: %w", err)
	}
	return s.lastCreated, nil
}

// take waits for a marker and drains the stream.
func (s *stream) take(ctx context.Context, marker int64) ([]*etcdserverpb.WatchResponse, error) {
	if err := s.until(ctx, func() bool { return !s.marked || s.marker >= marker }); err != nil {
		return nil, fmt.Errorf("marker %d: %w", marker, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	received := s.received
	s.received = nil
	return received, nil
}

// until waits for a condition on the received responses.
func (s *stream) until(ctx context.Context, happened func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for {
		s.mu.Lock()
		done, err := happened(), s.err
		s.mu.Unlock()
		switch {
		case done:
			return nil
		case err != nil:
			return err
		}
		select {
		case <-s.news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
