// Package gateway implements the connection interface of generated gRPC clients over a server's
// JSON gateway: a unary call is a POST request, a stream is a websocket with one line of JSON per
// message.
package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/gorilla/websocket"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// paths maps gRPC methods to the paths of the gateway.
var paths = map[string]string{
	"KV/Range":                  "kv/range",
	"KV/Put":                    "kv/put",
	"KV/DeleteRange":            "kv/deleterange",
	"KV/Txn":                    "kv/txn",
	"KV/Compact":                "kv/compaction",
	"Watch/Watch":               "watch",
	"Lease/LeaseGrant":          "lease/grant",
	"Lease/LeaseRevoke":         "lease/revoke",
	"Lease/LeaseKeepAlive":      "lease/keepalive",
	"Lease/LeaseTimeToLive":     "lease/timetolive",
	"Lease/LeaseLeases":         "lease/leases",
	"Maintenance/HashKV":        "maintenance/hashkv",
	"Maintenance/Alarm":         "maintenance/alarm",
	"Maintenance/Defragment":    "maintenance/defragment",
	"Auth/AuthEnable":           "auth/enable",
	"Auth/AuthDisable":          "auth/disable",
	"Auth/AuthStatus":           "auth/status",
	"Auth/Authenticate":         "auth/authenticate",
	"Auth/UserAdd":              "auth/user/add",
	"Auth/UserGet":              "auth/user/get",
	"Auth/UserList":             "auth/user/list",
	"Auth/UserDelete":           "auth/user/delete",
	"Auth/UserChangePassword":   "auth/user/changepw",
	"Auth/UserGrantRole":        "auth/user/grant",
	"Auth/UserRevokeRole":       "auth/user/revoke",
	"Auth/RoleAdd":              "auth/role/add",
	"Auth/RoleGet":              "auth/role/get",
	"Auth/RoleList":             "auth/role/list",
	"Auth/RoleDelete":           "auth/role/delete",
	"Auth/RoleGrantPermission":  "auth/role/grant",
	"Auth/RoleRevokePermission": "auth/role/revoke",
}

// Conn is a connection to the gateway of a server.
type Conn struct{ endpoint string }

var _ grpc.ClientConnInterface = (*Conn)(nil)

// New returns a connection without dialing.
func New(endpoint string) *Conn {
	return &Conn{strings.TrimPrefix(endpoint, "http://")}
}

func (c *Conn) url(scheme, method string) (string, error) {
	path, ok := paths[strings.TrimPrefix(method, "/etcdserverpb.")]
	if !ok {
		return "", status.Errorf(codes.Unimplemented, "%s is not in the gateway", method)
	}
	return scheme + "://" + c.endpoint + "/v3/" + path, nil
}

// Invoke sends a unary call.
func (c *Conn) Invoke(ctx context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	url, err := c.url("http", method)
	if err != nil {
		return err
	}
	body, err := protojson.Marshal(args.(proto.Message))
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if token := tokenOf(ctx); token != "" {
		request.Header.Set("Authorization", token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	if response.StatusCode != http.StatusOK {
		return refusal(answer)
	}
	return protojson.Unmarshal(answer, reply.(proto.Message))
}

func tokenOf(ctx context.Context) string {
	sent, _ := metadata.FromOutgoingContext(ctx)
	return strings.Join(sent.Get(rpctypes.TokenFieldNameGRPC), "")
}

// refusal converts the body of a failed call into a gRPC status.
func refusal(answer []byte) error {
	var message struct {
		Code    codes.Code
		Message string
	}
	if err := json.Unmarshal(answer, &message); err != nil || message.Code == codes.OK {
		return fmt.Errorf("unexpected response: %q", answer)
	}
	return status.Error(message.Code, message.Message)
}

// NewStream opens a stream.
func (c *Conn) NewStream(
	ctx context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption,
) (grpc.ClientStream, error) {
	url, err := c.url("ws", method)
	if err != nil {
		return nil, err
	}
	headers := http.Header{}
	if token := tokenOf(ctx); token != "" {
		headers.Set("Sec-WebSocket-Protocol", "Bearer, "+token)
	}
	socket, _, err := websocket.DefaultDialer.DialContext(ctx, url, headers)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	context.AfterFunc(ctx, func() { socket.Close() })
	return &stream{ctx: ctx, socket: socket}, nil
}

// stream is a websocket. At most one goroutine sends and one receives.
type stream struct {
	ctx    context.Context
	socket *websocket.Conn
}

func (s *stream) Header() (metadata.MD, error) { return nil, nil }
func (s *stream) Trailer() metadata.MD         { return nil }
func (s *stream) Context() context.Context     { return s.ctx }
func (s *stream) CloseSend() error             { return nil }

func (s *stream) SendMsg(m any) error {
	text, err := protojson.Marshal(m.(proto.Message))
	if err != nil {
		return err
	}
	return s.socket.WriteMessage(websocket.TextMessage, text)
}

func (s *stream) RecvMsg(m any) error {
	_, line, err := s.socket.ReadMessage()
	if s.ctx.Err() != nil {
		return status.FromContextError(s.ctx.Err()).Err()
	}
	if websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseNoStatusReceived, websocket.CloseAbnormalClosure) {
		return io.EOF
	}
	if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	var message struct{ Result, Error json.RawMessage }
	if err := json.Unmarshal(line, &message); err != nil {
		return err
	}
	switch {
	case message.Result != nil:
		return protojson.Unmarshal(message.Result, m.(proto.Message))
	case message.Error != nil:
		return refusal(message.Error)
	default:
		return errors.Join(fmt.Errorf("neither result nor error: %q", line), refusal(line))
	}
}
