package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// session is a raw HTTP/2 connection that sends any frame.
type session struct {
	conn net.Conn
	// out collects frames until they are flushed.
	out    bytes.Buffer
	framer *http2.Framer
	fields bytes.Buffer
	hpack  *hpack.Encoder
	stream uint32
	// windows of attackers that send bodies.
	windows *windows
}

// session opens a connection and sends the HTTP/2 preface.
func (t *target) session(ctx context.Context, tally *tally, settings ...http2.Setting) (*session, error) {
	conn, err := t.connectSecurely(ctx, tally)
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn}
	s.framer = http2.NewFramer(&s.out, nil)
	s.hpack = hpack.NewEncoder(&s.fields)
	s.out.WriteString(http2.ClientPreface)
	return s, errors.Join(s.framer.WriteSettings(settings...), s.flush())
}

func (s *session) flush() error {
	_, err := s.conn.Write(s.out.Bytes())
	s.out.Reset()
	return err
}

// drain discards all input, so that the server can continue to write.
func (s *session) drain() { go io.Copy(io.Discard, s.conn) }

// next returns an unused stream id.
func (s *session) next() uint32 {
	s.stream += 2
	return s.stream - 1
}

// grpcFields are the header fields of a call.
func grpcFields(path string, more ...hpack.HeaderField) []hpack.HeaderField {
	return append([]hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: path},
		{Name: ":authority", Value: "127.0.0.1"}, {Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"},
	}, more...)
}

func (s *session) encode(fields []hpack.HeaderField) []byte {
	s.fields.Reset()
	for _, field := range fields {
		s.hpack.WriteField(field)
	}
	return bytes.Clone(s.fields.Bytes())
}

// call starts a call on a new stream.
func (s *session) call(path string, ends bool, more ...hpack.HeaderField) uint32 {
	id := s.next()
	s.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: id, BlockFragment: s.encode(grpcFields(path, more...)), EndHeaders: true, EndStream: ends,
	})
	return id
}

// message prepends the gRPC prefix to a message, possibly with a wrong length.
func message(flag byte, length uint32, bytes []byte) []byte {
	return append([]byte{flag, byte(length >> 24), byte(length >> 16), byte(length >> 8), byte(length)}, bytes...)
}

// frameMax is the largest frame that a server accepts.
const frameMax = 16 << 10

// windows are the flow-control windows for sending.
type windows struct {
	mu      sync.Mutex
	changed *sync.Cond
	initial int64
	all     int64
	streams map[uint32]int64
	err     error
}

// follow reads frames and tracks the windows. It returns once the settings are exchanged.
func (s *session) follow() error {
	w := &windows{initial: 65535, all: 65535, streams: map[uint32]int64{}}
	w.changed = sync.NewCond(&w.mu)
	s.windows = w
	framer := http2.NewFramer(io.Discard, s.conn)
	first, err := framer.ReadFrame()
	if err != nil {
		return err
	}
	w.note(first, nil)
	s.framer.WriteSettingsAck()
	go func() {
		for {
			frame, err := framer.ReadFrame()
			w.mu.Lock()
			w.note(frame, err)
			w.changed.Broadcast()
			w.mu.Unlock()
			if err != nil && !isFrameError(err) {
				return
			}
		}
	}()
	return s.flush()
}

func isFrameError(err error) bool {
	var stream http2.StreamError
	return errors.As(err, &stream)
}

func (w *windows) note(frame http2.Frame, err error) {
	switch frame := frame.(type) {
	case *http2.SettingsFrame:
		if value, ok := frame.Value(http2.SettingInitialWindowSize); ok {
			for id := range w.streams {
				w.streams[id] += int64(value) - w.initial
			}
			w.initial = int64(value)
		}
	case *http2.WindowUpdateFrame:
		if frame.StreamID == 0 {
			w.all += int64(frame.Increment)
		} else if _, known := w.streams[frame.StreamID]; known {
			w.streams[frame.StreamID] += int64(frame.Increment)
		}
	case *http2.RSTStreamFrame:
		delete(w.streams, frame.StreamID)
	case *http2.HeadersFrame:
		if frame.StreamEnded() {
			delete(w.streams, frame.StreamID)
		}
	}
	if err != nil && !isFrameError(err) {
		w.err = err
	}
}

// errRefused means that the server has ended a stream.
var errRefused = errors.New("the server has ended the stream")

// take waits for window on a stream.
func (w *windows) take(id uint32, want int) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		window, known := w.streams[id]
		switch {
		case w.err != nil:
			return 0, w.err
		case !known:
			return 0, errRefused
		case window > 0 && w.all > 0:
			size := min(int64(want), window, w.all, frameMax)
			w.streams[id] -= size
			w.all -= size
			return int(size), nil
		}
		w.changed.Wait()
	}
}

func (w *windows) open(id uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.streams[id] = w.initial
}

// send sends a body as fast as the windows allow.
func (s *session) send(id uint32, body []byte) error {
	for len(body) > 0 {
		size, err := s.windows.take(id, len(body))
		if err != nil {
			return err
		}
		if err := errors.Join(s.framer.WriteData(id, false, body[:size]), s.flush()); err != nil {
			return err
		}
		body = body[size:]
	}
	return nil
}
