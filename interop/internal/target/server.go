package target

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

// serverFlags make a server fast, since no test here depends on the disk. The election timeout
// determines MinLeaseTTL, which must be long enough to revoke a lease in time; a longer one would
// delay the start. Tokens outlive any test, since they would expire at different times on two
// servers.
var serverFlags = []string{
	"--heartbeat-interval=300",
	"--election-timeout=3000",
	"--snapshot-count=100000",
	"--auth-token-ttl=360000",
	"--unsafe-no-fsync",
	"--log-level=error",
}

// Server is a server process, the only member of its cluster.
type Server struct {
	cluster *cluster.Cluster
	flags   []string
	// conn sends requests over grpc or, if that is nil, through the JSON gateway.
	conn grpc.ClientConnInterface
	grpc *grpc.ClientConn
	// password returns the password of a user.
	password func(user string) string
	tokens   map[string]string
	streams  map[uint32]*stream
	// behind is set while a watcher may have to catch up.
	behind bool
	// restartable lets Restart restart the process; restarts counts how often it did.
	restartable bool
	restarts    int
}

var _ Target = (*Server)(nil)

// Protocol is the protocol of requests.
type Protocol int

// The protocols: gRPC or the JSON gateway.
const (
	ByGRPC Protocol = iota
	ByGateway
)

// StartServer starts a server on a new data directory below dir, which it creates. If it is
// restartable, restarts alternate between SIGTERM and SIGKILL.
func StartServer(
	ctx context.Context, binary *cluster.Binary, dir string, way Protocol, password func(string) string, restartable bool, extra ...string,
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

func (s *Server) connect(endpoint string, way Protocol) (err error) {
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

// Stop stops the server with its streams open.
func (s *Server) Stop() error { return s.cluster.Stop() }

// Close kills the server, since its files are no longer needed.
func (s *Server) Close() error {
	s.endStreams()
	defer s.cluster.Close()
	if s.grpc == nil {
		return nil
	}
	return s.grpc.Close()
}

// Call logs the user in if necessary, and retries once with a new token if the old one is invalid.
// A token becomes invalid when its user's password changes or auth is disabled, a signed one with
// any change of users.
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

// ended reports whether an answer means that the token is invalid.
func ended(answer Answer) bool {
	return answer.Code == codes.Unauthenticated || answer.Text == rpctypes.ErrorDesc(rpctypes.ErrGRPCAuthOldRevision)
}

func (s *Server) callOnce(ctx context.Context, method Method, user string, request proto.Message) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	ctx, err := s.as(ctx, user)
	if err != nil {
		return Answer{}, err
	}
	reply, err := s.invoke(ctx, method, request)
	if err == nil {
		return Answer{Reply: reply}, nil
	}
	// A healthy single member is never unavailable, and never lets a request time out.
	grpcStatus, ok := status.FromError(err)
	if !ok || grpcStatus.Code() == codes.Unavailable || ctx.Err() != nil {
		return Answer{}, fmt.Errorf("%s: %w; the server's log is %s.log", method, err, s.cluster.Members[0].Dir)
	}
	return Answer{Code: grpcStatus.Code(), Text: grpcStatus.Message()}, nil
}

// as adds a user's token to the metadata.
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

// Restart ends the streams and, if the server is restartable, restarts it. It drops all tokens,
// since a server loses unsigned ones.
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
	// Otherwise the connection would back off first.
	s.grpc.ResetConnectBackoff()
	return s.reconnected(ctx)
}

func (s *Server) endStreams() {
	for number, stream := range s.streams {
		stream.end()
		delete(s.streams, number)
	}
}
