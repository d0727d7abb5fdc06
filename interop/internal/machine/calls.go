package machine

import (
	"context"
	"errors"
	"io"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// invoke makes one call. Of a stream it makes one too: what goes back and forth is put together.
func (s *Server) invoke(ctx context.Context, method Method, request proto.Message) (proto.Message, error) {
	switch method {
	case LeaseKeepAlive:
		return keepAlive(ctx, pb.NewLeaseClient(s.conn), request.(*pb.LeaseKeepAliveRequest))
	case RangeStream:
		if s.grpc == nil {
			// The gateway has none.
			method = Range
			break
		}
		return rangeStream(ctx, pb.NewKVClient(s.conn), request.(*pb.RangeRequest))
	}
	call := calls[method]
	reply := call.reply()
	return reply, s.conn.Invoke(ctx, call.path, request, reply)
}

// keepAlive renews one lease over a stream of its own.
func keepAlive(ctx context.Context, client pb.LeaseClient, request *pb.LeaseKeepAliveRequest) (proto.Message, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.LeaseKeepAlive(ctx)
	if err != nil {
		return nil, err
	}
	// Should sending fail, receiving says why.
	if err := stream.Send(request); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return stream.Recv()
}

// rangeStream puts the pieces of a range together. The last of them has what is said of the whole.
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

// reconnected waits until a connection stands again. Whatever is answered will do, be it that nobody may ask.
func (s *Server) reconnected(ctx context.Context) error {
	_, err := pb.NewAuthClient(s.conn).Authenticate(ctx, &pb.AuthenticateRequest{}, grpc.WaitForReady(true))
	if err == nil {
		return errors.New("nobody was let in")
	}
	return nil
}
