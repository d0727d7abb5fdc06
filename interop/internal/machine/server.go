package machine

import (
	"context"
	"fmt"
	"math"
	"os"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"bowline/interop/internal/cluster"
	"bowline/interop/internal/gateway"
)

// serverFlags make a server quick, since nothing that is tested here depends on a disk, and its shortest leases long
// enough to be revoked in time: MinLeaseTTL comes from this election timeout. A longer one would delay the start. Tokens
// outlive any test, since when they end by themselves is not the same on two servers.
var serverFlags = []string{
	"--heartbeat-interval=300",
	"--election-timeout=3000",
	"--snapshot-count=100000",
	"--auth-token-ttl=360000",
	"--unsafe-no-fsync",
	"--log-level=error",
}

// Server is a server of its own, alone in its cluster.
type Server struct {
	cluster *cluster.Cluster
	flags   []string
	// conn is how it is asked: over grpc, or if that is nil through its gateway.
	conn grpc.ClientConnInterface
	grpc *grpc.ClientConn
	// password tells how a user logs in.
	password func(user string) string
	tokens   map[string]string
	streams  map[uint32]*stream
	// behind is set while a watcher may have history to catch up with.
	behind bool
	// restartable says that the server goes through a restart, restarts how often it has.
	restartable bool
	restarts    int
}

var _ Machine = (*Server)(nil)

// Way is how a server is asked.
type Way int

// The ways: by gRPC, or as JSON.
const (
	ByGRPC Way = iota
	ByGateway
)

// StartServer starts a server on a new data directory below dir, which is made. If it is restartable, it is stopped and
// killed by turns whenever there is a restart.
func StartServer(
	ctx context.Context, binary *cluster.Binary, dir string, way Way, password func(string) string, restartable bool, extra ...string,
) (*Server, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	c, err := cluster.New(binary, dir, 1)
	if err != nil {
		return nil, err
	}
	s := &Server{
		cluster: c, flags: append(serverFlags[:len(serverFlags):len(serverFlags)], extra...), password: password,
		tokens: map[string]string{}, streams: map[uint32]*stream{}, restartable: restartable,
	}
	if err := c.Start(ctx, s.flags...); err != nil {
		c.Close()
		return nil, err
	}
	if err := s.connect(c.Members[0].Endpoint(), way); err != nil {
		c.Close()
		return nil, err
	}
	return s, nil
}

func (s *Server) connect(endpoint string, way Way) (err error) {
	if way == ByGateway {
		s.conn = gateway.New(endpoint)
		return nil
	}
	s.grpc, err = grpc.NewClient(endpoint,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)),
	)
	s.conn = s.grpc
	return err
}

// Stop has the server end in the middle of its streams, and well.
func (s *Server) Stop() error { return s.cluster.Stop() }

// Close ends the server. Its files are of no further use, so it need not end well.
func (s *Server) Close() error {
	s.endStreams()
	defer s.cluster.Close()
	if s.grpc == nil {
		return nil
	}
	return s.grpc.Close()
}

// Call logs the user in, if need be. A token ends with a change of its user's
// password and with auth itself, a signed one with any change of users, and
// then a new one is asked for.
func (s *Server) Call(ctx context.Context, method Method, user string, request proto.Message) (Answer, error) {
	answer, err := s.callOnce(ctx, method, user, request)
	if err != nil || user == "" || user == Forger || !ended(answer) {
		return answer, err
	}
	delete(s.tokens, user)
	refused := answer.Text
	answer, err = s.callOnce(ctx, method, user, request)
	answer.Refused = refused
	return answer, err
}

// ended says whether an answer means that a token is no longer good.
func ended(answer Answer) bool {
	return answer.Code == codes.Unauthenticated || answer.Text == rpctypes.ErrorDesc(rpctypes.ErrGRPCAuthOldRevision)
}

func (s *Server) callOnce(ctx context.Context, method Method, user string, request proto.Message) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ctx, err := s.as(ctx, user)
	if err != nil {
		return Answer{}, err
	}
	reply, err := s.invoke(ctx, method, request)
	if err == nil {
		return Answer{Reply: reply}, nil
	}
	// A server that is alone and well is never unavailable, nor does it leave a request without an answer.
	said, ok := status.FromError(err)
	if !ok || said.Code() == codes.Unavailable || ctx.Err() != nil {
		return Answer{}, fmt.Errorf("%s: %w; the server's log is %s.log", method, err, s.cluster.Members[0].Dir)
	}
	return Answer{Code: said.Code(), Text: said.Message()}, nil
}

// as adds a user's token to what is sent.
func (s *Server) as(ctx context.Context, user string) (context.Context, error) {
	switch {
	case user == "":
		return ctx, nil
	case user == Forger:
		return withToken(ctx, "forged.1"), nil
	case s.tokens[user] == "":
		request := &etcdserverpb.AuthenticateRequest{Name: user, Password: s.password(user)}
		reply, err := etcdserverpb.NewAuthClient(s.conn).Authenticate(ctx, request)
		if err != nil {
			return nil, fmt.Errorf("log in as %s: %w", user, err)
		}
		s.tokens[user] = reply.Token
	}
	return withToken(ctx, s.tokens[user]), nil
}

func withToken(ctx context.Context, token string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, token)
}

// Restart ends the streams, and the server if it is restartable; else it goes on. Tokens are forgotten here, because a
// server forgets those that are not signed.
func (s *Server) Restart(ctx context.Context) error {
	s.endStreams()
	clear(s.tokens)
	if !s.restartable {
		return nil
	}
	m := s.cluster.Members[0]
	end := m.Stop
	if s.restarts%2 == 1 {
		end = m.Kill
	}
	s.restarts++
	if err := end(); err != nil {
		return err
	}
	if err := s.cluster.StartMember(m, s.flags...); err != nil {
		return err
	}
	if err := m.Ready(ctx); err != nil {
		return err
	}
	if s.grpc == nil {
		return nil
	}
	// Otherwise the connection would wait before it is tried again.
	s.grpc.ResetConnectBackoff()
	return s.reconnected(ctx)
}

func (s *Server) endStreams() {
	for number, stream := range s.streams {
		stream.end()
		delete(s.streams, number)
	}
}
