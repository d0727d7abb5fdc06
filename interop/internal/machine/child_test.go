package machine

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"os"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// playsProgram tells the test's own binary to be the program that Child starts.
const playsProgram = "MACHINE_TEST_PLAYS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(playsProgram) != "" {
		program()
		return
	}
	os.Exit(m.Run())
}

// program answers a put with its user's name as an error, a range with its arguments as keys, and a drain with two responses.
func program() {
	in := bufio.NewReader(os.Stdin)
	for {
		var head [4]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return
		}
		frame := make([]byte, binary.BigEndian.Uint32(head[:]))
		io.ReadFull(in, frame)
		user := string(frame[2 : 2+frame[1]])
		switch Method(frame[0]) {
		case Put:
			answer(codes.NotFound, []byte("hello "+user))
		case Range:
			payload, _ := proto.Marshal(&pb.RangeResponse{Count: int64(len(strings.Join(os.Args[1:], " ")))})
			answer(codes.OK, payload)
		case watchDrain:
			response, _ := proto.Marshal(&pb.WatchResponse{WatchId: int64(binary.BigEndian.Uint32(frame[2:]))})
			one := append(binary.BigEndian.AppendUint32(nil, uint32(len(response))), response...)
			answer(codes.OK, append(one, one...))
		case restart:
			answer(codes.Unavailable, []byte("not today"))
		default:
			answer(codes.OK, nil)
		}
	}
}

func answer(code codes.Code, payload []byte) {
	frame := binary.BigEndian.AppendUint32(nil, uint32(1+len(payload)))
	os.Stdout.Write(append(append(frame, byte(code)), payload...))
}

func start(t *testing.T) *Child {
	t.Setenv(playsProgram, "yes")
	child, err := StartChild(os.Args[0], "a directory")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := child.Close(); err != nil {
			t.Error(err)
		}
	})
	return child
}

func TestCallsGoBackAndForth(t *testing.T) {
	child := start(t)
	ctx := context.Background()
	said, err := child.Call(ctx, Put, "ann", &pb.PutRequest{Key: []byte("k")})
	if err != nil || said.Code != codes.NotFound || said.Text != "hello ann" {
		t.Errorf("put: %v %v", said, err)
	}
	said, err = child.Call(ctx, Range, "", &pb.RangeRequest{})
	if want := len("a directory --ttl-min 5"); err != nil || said.Reply.(*pb.RangeResponse).Count != int64(want) {
		t.Errorf("range: %v %v", said, err)
	}
}

func TestStreamsAreDrained(t *testing.T) {
	child := start(t)
	if _, err := child.Watch(context.Background(), 3, "", &pb.WatchRequest{}); err != nil {
		t.Error(err)
	}
	responses, err := child.Drain(context.Background(), 3, 0)
	if err != nil || len(responses) != 2 || responses[1].WatchId != 3 {
		t.Errorf("%v %v", responses, err)
	}
}

func TestARefusalOfAFrameIsAnError(t *testing.T) {
	err := start(t).Restart(context.Background())
	if err == nil || !strings.Contains(err.Error(), "not today") {
		t.Error(err)
	}
}

func TestHalfAResponseIsRefused(t *testing.T) {
	for _, payload := range [][]byte{{0, 0}, {0, 0, 0, 2, 1}} {
		if _, _, err := cut(payload); err == nil {
			t.Errorf("%v was taken", payload)
		}
	}
}
