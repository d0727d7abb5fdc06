// Package target sends the same request to different servers.
//
// A response, including an error status, is an Answer. A Go error means that the target itself
// failed and there is nothing to compare.
package target

import (
	"context"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

const (
	// MinLeaseTTL is the shortest lease that both sides grant, in seconds: 1.5 election timeouts,
	// rounded up.
	MinLeaseTTL = 5
	// MarkerKey is written only to settle streams, and MarkerID is the watch of it on each stream.
	MarkerKey = "\x7fmarker"
	MarkerID  = 1 << 40
	// Forger is a user that sends a forged token.
	Forger = "\x00forger"
)

// Target is a server that handles one request at a time.
type Target interface {
	// Call sends a request as a user, or anonymously if the name is empty.
	Call(ctx context.Context, method Method, user string, request proto.Message) (Answer, error)
	// Watch sends a request over a watch stream, which a new number opens. A server that must wait
	// for the response to a creation returns it.
	Watch(ctx context.Context, stream uint32, user string, request *etcdserverpb.WatchRequest) (*etcdserverpb.WatchResponse, error)
	// CatchUp waits until every watcher has received the requested history.
	CatchUp(ctx context.Context, user string) error
	// Drain returns the responses of a stream up to and including the marker of this revision.
	Drain(ctx context.Context, stream uint32, marker int64) ([]*etcdserverpb.WatchResponse, error)
	// Restart ends all streams and, if that is cheap, restarts the server from its files.
	Restart(ctx context.Context) error
	Close() error
}

// Answer is the response to a client: a reply or an error status.
type Answer struct {
	Code  codes.Code
	Text  string
	Reply proto.Message
	// Refused is the error of the first attempt, if a second one was made with a new token.
	Refused string
}

func (a Answer) String() string {
	text := ""
	if a.Refused != "" {
		text = "at first " + a.Refused + "; then\n"
	}
	if a.Code != codes.OK {
		return text + fmt.Sprintf("%s: %s", a.Code, a.Text)
	}
	return text + Text(a.Reply)
}

// longestLine bounds a printed line, in bytes.
const longestLine = 200

// Text formats a message for reading.
func Text(message proto.Message) string {
	text := prototext.MarshalOptions{Multiline: true, Indent: "  "}.Format(message)
	if text == "" {
		return "(empty)"
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if len(line) > longestLine {
			lines[i] = fmt.Sprintf("%s... (%d characters)", line[:longestLine], len(line))
		}
	}
	return strings.Join(lines, "\n")
}
