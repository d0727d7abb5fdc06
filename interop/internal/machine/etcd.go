package machine

import (
	"context"
	"errors"
	"fmt"
	"math"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"bowline/interop/internal/cluster"
)

// etcdFlags make a server quick, since nothing that is tested here depends on a disk, and its shortest leases long
// enough to be revoked in time: MinLeaseTTL comes from this election timeout. A longer one would delay the start.
var etcdFlags = []string{
	"--heartbeat-interval=300",
	"--election-timeout=3000",
	"--snapshot-count=100000",
	"--unsafe-no-fsync",
	"--log-level=error",
}

// Etcd is a server of its own, alone in its cluster.
type Etcd struct {
	cluster *cluster.Cluster
	conn    *grpc.ClientConn
	// password tells how a user logs in.
	password func(user string) string
	tokens   map[string]string
	streams  map[uint32]*stream
	// behind is set while a watcher may have history to catch up with.
	behind bool
}

var _ Machine = (*Etcd)(nil)

// StartEtcd starts a server on a new data directory below dir.
func StartEtcd(ctx context.Context, binary *cluster.Binary, dir string, password func(string) string) (*Etcd, error) {
	c, err := cluster.New(binary, dir, 1)
	if err != nil {
		return nil, err
	}
	e := &Etcd{cluster: c, password: password, tokens: map[string]string{}, streams: map[uint32]*stream{}}
	if err := c.Start(ctx, etcdFlags...); err != nil {
		c.Close()
		return nil, err
	}
	e.conn, err = grpc.NewClient(c.Members[0].Endpoint(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)),
	)
	if err != nil {
		c.Close()
		return nil, err
	}
	return e, nil
}

// Close ends the server. Its files are of no further use, so it need not end well.
func (e *Etcd) Close() error {
	e.endStreams()
	err := e.conn.Close()
	e.cluster.Close()
	return err
}

// Call logs the user in, if need be. A token ends with a change of its user's
// password and with auth itself, and then a new one is asked for.
func (e *Etcd) Call(ctx context.Context, method Method, user string, request proto.Message) (Answer, error) {
	answer, err := e.callOnce(ctx, method, user, request)
	if err == nil && answer.Code == codes.Unauthenticated && user != "" {
		delete(e.tokens, user)
		answer, err = e.callOnce(ctx, method, user, request)
	}
	return answer, err
}

func (e *Etcd) callOnce(ctx context.Context, method Method, user string, request proto.Message) (Answer, error) {
	ctx, err := e.as(ctx, user)
	if err != nil {
		return Answer{}, err
	}
	call := calls[method]
	reply := call.reply()
	err = e.conn.Invoke(ctx, call.path, request, reply)
	if err == nil {
		return Answer{Reply: reply}, nil
	}
	// A server that is alone and well is never unavailable.
	said, ok := status.FromError(err)
	if !ok || said.Code() == codes.Unavailable {
		return Answer{}, fmt.Errorf("%s: %w; the server's log is %s.log", method, err, e.cluster.Members[0].Dir)
	}
	return Answer{Code: said.Code(), Text: said.Message()}, nil
}

// as adds a user's token to what is sent.
func (e *Etcd) as(ctx context.Context, user string) (context.Context, error) {
	if user == "" {
		return ctx, nil
	}
	if e.tokens[user] == "" {
		request := &etcdserverpb.AuthenticateRequest{Name: user, Password: e.password(user)}
		reply, err := etcdserverpb.NewAuthClient(e.conn).Authenticate(ctx, request)
		if err != nil {
			return nil, fmt.Errorf("log in as %s: %w", user, err)
		}
		e.tokens[user] = reply.Token
	}
	return metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, e.tokens[user]), nil
}

// Restart ends the streams; the server goes on.
func (e *Etcd) Restart(context.Context) error {
	e.endStreams()
	return nil
}

func (e *Etcd) endStreams() {
	for number, s := range e.streams {
		s.end()
		delete(e.streams, number)
	}
}

// Watch waits for the answer to a creation, so that what is asked for next comes after it.
func (e *Etcd) Watch(
	ctx context.Context, number uint32, user string, request *etcdserverpb.WatchRequest,
) (*etcdserverpb.WatchResponse, error) {
	s := e.streams[number]
	if s == nil {
		var err error
		if s, err = e.open(ctx, user); err != nil {
			return nil, err
		}
		e.streams[number] = s
	}
	create := request.GetCreateRequest()
	if create == nil {
		return nil, s.client.Send(request)
	}
	e.behind = e.behind || create.StartRevision > 0
	return s.create(ctx, request)
}

// open starts a stream with a token that nothing has ended yet. It outlives the call that opens it.
func (e *Etcd) open(ctx context.Context, user string) (*stream, error) {
	delete(e.tokens, user)
	ctx, err := e.as(ctx, user)
	if err != nil {
		return nil, err
	}
	return openStream(context.WithoutCancel(ctx), e.conn)
}

// CatchUp makes a watcher that is itself behind. The server deals with all that are behind in one go, so once this
// one hears something, those created before it have been sent theirs.
func (e *Etcd) CatchUp(ctx context.Context, user string) error {
	if !e.behind {
		return nil
	}
	e.behind = false
	probe, err := e.open(ctx, user)
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
func (e *Etcd) Drain(ctx context.Context, number uint32, marker int64) ([]*etcdserverpb.WatchResponse, error) {
	s := e.streams[number]
	if s == nil {
		return nil, fmt.Errorf("no stream %d", number)
	}
	return s.take(ctx, marker)
}
