package main

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"bowline/interop/internal/program"
)

const (
	// responseTimeout bounds the wait for a response.
	responseTimeout = 30 * time.Second
	// stream is the id of the only stream of a connection.
	stream = 1
	// prefix is the length of the header of a message: a flag and a length.
	prefix = 5
)

// request is the raw content of one stream.
type request struct {
	headers []hpack.HeaderField
	// data is sent in frames of piece bytes, or in one frame if piece is 0.
	data  []byte
	piece int
	// open leaves the stream open after the data.
	open bool
}

// answer is a response.
type answer struct {
	headers map[string]string
	body    []byte
	// ended describes how the stream ended, if not regularly.
	ended string
}

func (a answer) String() string {
	if a.ended != "" && a.headers[":status"] == "" {
		return a.ended
	}
	text := fmt.Sprintf("%s %s", a.headers[":status"], a.headers["content-type"])
	if status, present := a.headers["grpc-status"]; present {
		message, err := url.PathUnescape(a.headers["grpc-message"])
		program.Must(err)
		text += fmt.Sprintf(", %s %s", status, message)
	}
	if a.ended != "" {
		text += ", " + a.ended
	}
	switch {
	case len(a.body) == 0:
		return text
	case strings.HasPrefix(a.headers["content-type"], "application/grpc"):
		return fmt.Sprintf("%s, %d messages%s", text, len(messages(a.body)), a.compressed())
	}
	return fmt.Sprintf("%s, %q", text, a.body)
}

// compressed describes the compression of the messages, if any, and checks that they can be
// decompressed.
func (a answer) compressed() string {
	encoding, present := a.headers["grpc-encoding"]
	if !present {
		return ""
	}
	flags := ""
	for rest := a.body; len(rest) >= prefix; rest = rest[prefix+binary.BigEndian.Uint32(rest[1:prefix]):] {
		flags += fmt.Sprint(rest[0])
	}
	for at, message := range messages(a.body) {
		if flags[at] == '1' {
			program.Got(io.ReadAll(program.Got(gzip.NewReader(bytes.NewReader(message)))))
		}
	}
	return fmt.Sprintf(" by %s, flags %s", encoding, flags)
}

// messages splits a body into its messages.
func messages(body []byte) [][]byte {
	var all [][]byte
	for len(body) >= prefix {
		size := int(binary.BigEndian.Uint32(body[1:prefix]))
		all = append(all, body[prefix:min(len(body), prefix+size)])
		body = body[min(len(body), prefix+size):]
	}
	return all
}

// framed returns a message with its gRPC header.
func framed(flag byte, message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(message))), message...)
}

// send opens a connection for one request, and returns the response.
func send(r request) answer {
	conn, err := dial()
	if err != nil {
		return answer{ended: "no connection"}
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(responseTimeout))
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	// If the write fails, the read returns the reason.
	_ = r.write(conn, framer)
	return read(framer)
}

func dial() (net.Conn, error) {
	secure := program.TLS()
	if secure == nil {
		return net.DialTimeout("tcp", program.Endpoint(), responseTimeout)
	}
	secure.NextProtos = []string{"h2"}
	return tls.DialWithDialer(&net.Dialer{Timeout: responseTimeout}, "tcp", program.Endpoint(), secure)
}

func (r request) write(conn io.Writer, framer *http2.Framer) error {
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return err
	}
	if err := framer.WriteSettings(); err != nil {
		return err
	}
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, field := range r.headers {
		if err := encoder.WriteField(field); err != nil {
			return err
		}
	}
	err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true})
	if err != nil {
		return err
	}
	for _, piece := range r.pieces() {
		if err := framer.WriteData(stream, false, piece); err != nil {
			return err
		}
	}
	if r.open {
		return nil
	}
	// END_STREAM has a frame of its own: etcd does not notice one on the headers.
	return framer.WriteData(stream, true, nil)
}

func (r request) pieces() [][]byte {
	size := r.piece
	if size == 0 {
		size = max(len(r.data), 1)
	}
	var all [][]byte
	for rest := r.data; len(rest) > 0; rest = rest[min(size, len(rest)):] {
		all = append(all, rest[:min(size, len(rest))])
	}
	return all
}

// read collects the response until the stream or the connection ends.
func read(framer *http2.Framer) answer {
	a := answer{headers: map[string]string{}}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			a.ended = "connection closed"
			if errors.Is(err, io.ErrUnexpectedEOF) {
				a.ended = "connection cut"
			}
			return a
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			for _, field := range frame.Fields {
				a.headers[field.Name] = field.Value
			}
		case *http2.DataFrame:
			a.body = append(a.body, frame.Data()...)
		case *http2.RSTStreamFrame:
			a.ended = "reset with " + frame.ErrCode.String()
			return a
		case *http2.GoAwayFrame:
			a.ended = "gone away with " + frame.ErrCode.String()
			return a
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				_ = framer.WriteSettingsAck()
			}
		}
		if frame.Header().StreamID == stream && frame.Header().Flags.Has(http2.FlagDataEndStream) {
			return a
		}
	}
}
