package target

import (
	"context"
	"errors"
	"io"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// invoke makes one call. It turns a stream into a single request and response.
func (s *Server) invoke(ctx context.Context, method Method, request proto.Message) (proto.Message, error) {
	switch method {
	case LeaseKeepAlive:
		return keepAlive(ctx, pb.NewLeaseClient(s.conn), request.(*pb.LeaseKeepAliveRequest))
	case RangeStream:
		if s.grpc == nil {
			// The gateway has no RangeStream.
			method = Range
			break
		}
		return rangeStream(ctx, pb.NewKVClient(s.conn), request.(*pb.RangeRequest))
	}
	call := calls[method]
	reply := call.reply()
	return reply, s.conn.Invoke(ctx, call.path, request, reply)
}

// keepAlive renews one lease over a new stream.
func keepAlive(ctx context.Context, client pb.LeaseClient, request *pb.LeaseKeepAliveRequest) (proto.Message, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.LeaseKeepAlive(ctx)
	if err != nil {
		return nil, err
	}
	// If Send fails with io.EOF, Recv returns the reason.
	if err := stream.Send(request); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return stream.Recv()
}

// rangeStream merges the responses of a streamed range. The last one has the count and the header.
func rangeStream(ctx context.Context, client pb.KVClient, request *pb.RangeRequest) (proto.Message, error) {
	stream, err := client.RangeStream(ctx, request)
	if err != nil {
		return nil, err
	}
	whole := &pb.RangeResponse{}
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return whole, nil
		}
		if err != nil {
			return nil, err
		}
		proto.Merge(whole, piece.RangeResponse)
	}
}

// reconnected waits until the connection is re-established. Any response will do, even an error.
func (s *Server) reconnected(ctx context.Context) error {
	_, err := pb.NewAuthClient(s.conn).Authenticate(ctx, &pb.AuthenticateRequest{}, grpc.WaitForReady(true))
	if err == nil {
		return errors.New("authentication without a name succeeded")
	}
	return nil
}
