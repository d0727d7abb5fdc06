package machine

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// maxFrame is more than any answer to these requests needs.
const maxFrame = 256 << 20

// Child is a program with a state machine in it, spoken to in frames:
//
//	request  u32 length of the rest | u8 method | u8 length of the user | user | payload
//	reply    u32 length of the rest | u8 status | payload: a message if the status is 0, else the text of the error
//
// Numbers are big-endian. It is started as
//
//	PROGRAM DIR --ttl-min SECONDS
//
// with an empty directory for its files and the shortest lease to grant, and ends when its standard input does.
type Child struct {
	process *exec.Cmd
	in      *bufio.Writer
	pipe    io.Closer
	out     *bufio.Reader
}

var _ Machine = (*Child)(nil)

// StartChild starts a program on a directory.
func StartChild(program, dir string) (*Child, error) {
	process := exec.Command(program, dir, "--ttl-min", strconv.Itoa(MinLeaseTTL))
	process.Stderr = os.Stderr
	process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, inErr := process.StdinPipe()
	out, outErr := process.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	return &Child{process: process, in: bufio.NewWriter(in), pipe: in, out: bufio.NewReader(out)}, nil
}

// Close ends the program, which must end well.
func (c *Child) Close() error {
	return errors.Join(c.pipe.Close(), c.process.Wait())
}

// Call sends a frame and reads the reply to it.
func (c *Child) Call(_ context.Context, method Method, user string, request proto.Message) (Answer, error) {
	payload, err := proto.Marshal(request)
	if err != nil {
		return Answer{}, err
	}
	code, payload, err := c.exchange(method, user, payload)
	if err != nil {
		return Answer{}, err
	}
	if code != codes.OK {
		return Answer{Code: code, Text: string(payload)}, nil
	}
	reply := calls[method].reply()
	if err := proto.Unmarshal(payload, reply); err != nil {
		return Answer{}, fmt.Errorf("reply to %s: %w", method, err)
	}
	return Answer{Reply: reply}, nil
}

// Watch needs no answer: the program deals with one frame before it reads the next.
func (c *Child) Watch(
	_ context.Context, number uint32, user string, request *etcdserverpb.WatchRequest,
) (*etcdserverpb.WatchResponse, error) {
	payload, err := proto.MarshalOptions{}.MarshalAppend(binary.BigEndian.AppendUint32(nil, number), request)
	if err != nil {
		return nil, err
	}
	_, err = c.must(watch, user, payload)
	return nil, err
}

// CatchUp has nothing to do, since Drain leaves nothing undone.
func (c *Child) CatchUp(context.Context, string) error { return nil }

// Drain asks for all that is due on a stream.
func (c *Child) Drain(_ context.Context, number uint32, _ int64) ([]*etcdserverpb.WatchResponse, error) {
	payload, err := c.must(watchDrain, "", binary.BigEndian.AppendUint32(nil, number))
	if err != nil {
		return nil, err
	}
	var responses []*etcdserverpb.WatchResponse
	for len(payload) > 0 {
		var message []byte
		if message, payload, err = cut(payload); err != nil {
			return nil, err
		}
		response := new(etcdserverpb.WatchResponse)
		if err := proto.Unmarshal(message, response); err != nil {
			return nil, fmt.Errorf("watch response: %w", err)
		}
		responses = append(responses, response)
	}
	return responses, nil
}

func cut(payload []byte) (message, rest []byte, err error) {
	if len(payload) < 4 {
		return nil, nil, io.ErrUnexpectedEOF
	}
	length := binary.BigEndian.Uint32(payload)
	payload = payload[4:]
	if uint64(length) > uint64(len(payload)) {
		return nil, nil, io.ErrUnexpectedEOF
	}
	return payload[:length], payload[length:], nil
}

// Restart has the program close its files and begin again from them.
func (c *Child) Restart(context.Context) error {
	_, err := c.must(restart, "", nil)
	return err
}

// must is for frames that the program has no reason to refuse.
func (c *Child) must(method Method, user string, payload []byte) ([]byte, error) {
	code, reply, err := c.exchange(method, user, payload)
	if err == nil && code != codes.OK {
		err = fmt.Errorf("%s: %s: %s", method, code, reply)
	}
	return reply, err
}

func (c *Child) exchange(method Method, user string, payload []byte) (codes.Code, []byte, error) {
	if len(user) > math.MaxUint8 || len(payload) > maxFrame {
		return 0, nil, fmt.Errorf("%s does not fit a frame", method)
	}
	frame := binary.BigEndian.AppendUint32(nil, uint32(2+len(user)+len(payload)))
	frame = append(frame, byte(method), byte(len(user)))
	frame = append(append(frame, user...), payload...)
	if _, err := c.in.Write(frame); err != nil {
		return 0, nil, fmt.Errorf("write %s: %w", method, err)
	}
	if err := c.in.Flush(); err != nil {
		return 0, nil, fmt.Errorf("write %s: %w", method, err)
	}
	reply, err := c.read()
	if err != nil {
		return 0, nil, fmt.Errorf("reply to %s: %w", method, err)
	}
	return codes.Code(reply[0]), reply[1:], nil
}

func (c *Child) read() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.out, head[:]); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[:])
	if length == 0 || length > maxFrame {
		return nil, fmt.Errorf("a frame of %d bytes", length)
	}
	frame := make([]byte, length)
	_, err := io.ReadFull(c.out, frame)
	return frame, err
}
