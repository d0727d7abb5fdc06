// Package machine puts one and the same request to different servers.
//
// What a machine answers is an Answer. An error beside it means that the
// machine itself is broken, and there is nothing to compare.
package machine

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
	// MinLeaseTTL is the shortest lease, in seconds, that both sides grant: one and a half election timeouts, rounded up.
	MinLeaseTTL = 5
	// MarkerKey is a key that only settling writes to, and MarkerID the watch by which each stream sees it.
	MarkerKey = "\x7fmarker"
	MarkerID  = 1 << 40
	// Forger is a user who sends a token that nobody has issued.
	Forger = "\x00forger"
)

// Machine answers requests, one at a time.
type Machine interface {
	// Call makes a request in the name of a user, or of nobody if the name is empty.
	Call(ctx context.Context, method Method, user string, request proto.Message) (Answer, error)
	// Watch sends a request over a stream, which a new number opens. Whoever must wait for the answer to a creation
	// to know that it has been dealt with returns that answer.
	Watch(ctx context.Context, stream uint32, user string, request *etcdserverpb.WatchRequest) (*etcdserverpb.WatchResponse, error)
	// CatchUp returns when every watcher has been sent the history it asked for.
	CatchUp(ctx context.Context, user string) error
	// Drain takes what a stream has delivered, up to and including the marker written at this revision.
	Drain(ctx context.Context, stream uint32, marker int64) ([]*etcdserverpb.WatchResponse, error)
	// Restart ends all streams. Where that can be done cheaply, the machine starts again from its files.
	Restart(ctx context.Context) error
	Close() error
}

// Answer is what a client gets: a reply or a status.
type Answer struct {
	Code  codes.Code
	Text  string
	Reply proto.Message
	// Refused is why the first attempt was refused, if there was a second one with a new token.
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

// longestLine is how much of a value is printed.
const longestLine = 200

// Text is a message for people to read.
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
