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
	// patience is how long an answer may take.
	patience = 30 * time.Second
	// stream is the first and only one of a connection.
	stream = 1
	// prefix is what comes before a message: a flag and a length.
	prefix = 5
)

// request is what one stream sends, as it stands.
type request struct {
	headers []hpack.HeaderField
	// data is sent in pieces of this many bytes, or in one if there is none.
	data  []byte
	piece int
	// open leaves the stream open: there could be more.
	open bool
}

// answer is what came back.
type answer struct {
	headers map[string]string
	body    []byte
	// how the stream ended, if not by itself.
	ended string
}

func (a answer) String() string {
	if a.ended != "" && a.headers[":status"] == "" {
		return a.ended
	}
	text := fmt.Sprintf("%s %s", a.headers[":status"], a.headers["content-type"])
	if status, told := a.headers["grpc-status"]; told {
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

// compressed says how the messages came, if not as they are, and sees that they can be read.
func (a answer) compressed() string {
	encoding, told := a.headers["grpc-encoding"]
	if !told {
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

// messages takes a body apart.
func messages(body []byte) [][]byte {
	var all [][]byte
	for len(body) >= prefix {
		size := int(binary.BigEndian.Uint32(body[1:prefix]))
		all = append(all, body[prefix:min(len(body), prefix+size)])
		body = body[min(len(body), prefix+size):]
	}
	return all
}

// framed is a message as gRPC sends it.
func framed(flag byte, message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(message))), message...)
}

// send makes a connection for one request, and returns what came back.
func send(r request) answer {
	conn, err := dial()
	if err != nil {
		return answer{ended: "no connection"}
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	// Should writing fail, reading says why.
	_ = r.write(conn, framer)
	return read(framer)
}

func dial() (net.Conn, error) {
	secure := program.TLS()
	if secure == nil {
		return net.DialTimeout("tcp", program.Endpoint(), patience)
	}
	secure.NextProtos = []string{"h2"}
	return tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", program.Endpoint(), secure)
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
	// The end is said in a frame of its own: etcd hears of none that headers tell.
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

// read collects the answer, until the stream or the connection ends.
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
