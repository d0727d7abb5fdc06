package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

// sendHTTP1 sends one HTTP/1 request and reads only the start of the response.
func sendHTTP1(ctx context.Context, t *target, tally *tally, write func(net.Conn) error) error {
	conn, err := t.connect(ctx, tally)
	if err != nil {
		return err
	}
	defer conn.Close()
	wrote := make(chan error, 1)
	go func() { wrote <- write(conn) }()
	_, readErr := conn.Read(make([]byte, 4096))
	conn.Close()
	tally.did.Add(1)
	return errors.Join(readErr, <-wrote)
}

// headerBombHTTP1 sends a megabyte of headers: in one field, in many, or in the request line.
func headerBombHTTP1(ctx context.Context, t *target, v volume, tally *tally) error {
	kinds := []string{
		"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: " + strings.Repeat("a", megabyte) + "\r\n\r\n",
		"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n" + strings.Repeat("X: y\r\n", megabyte/6) + "\r\n",
		"GET /" + strings.Repeat("a", megabyte) + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
	}
	return runAttackers(ctx, v, tally, func(ctx context.Context, _ *pace, n int) error {
		return sendHTTP1(ctx, t, tally, func(conn net.Conn) error {
			_, err := io.WriteString(conn, kinds[n%len(kinds)])
			return err
		})
	})
}

// oversizeGRPC announces messages of 2 and 4 GiB, and sends as much as the server accepts.
func oversizeGRPC(ctx context.Context, t *target, v volume, tally *tally) error {
	lengths := []uint32{1<<31 - 1, 1 << 31, 1<<32 - 1}
	paths := []string{"/etcdserverpb.KV/Put", "/etcdserverpb.Watch/Watch"}
	return runAttackers(ctx, v, tally, func(ctx context.Context, pace *pace, n int) error {
		s, err := t.session(ctx, tally)
		if err != nil {
			return err
		}
		defer s.conn.Close()
		if err := s.follow(); err != nil {
			return err
		}
		for turn := 0; pace.wait(ctx, 1); turn++ {
			id := s.call(paths[turn%len(paths)], false)
			s.windows.open(id)
			body := message(0, lengths[turn%len(lengths)], make([]byte, v.bytes))
			if err := errors.Join(s.flush(), s.send(id, body)); err != nil && !errors.Is(err, errRefused) {
				return err
			}
			s.framer.WriteRSTStream(id, http2.ErrCodeCancel)
			tally.did.Add(1)
		}
		return nil
	})
}

// oversizeJSON posts a value far above the limit.
func oversizeJSON(ctx context.Context, t *target, v volume, tally *tally) error {
	const begin, end = `{"key":"bG9uZw==","value":"`, `"}`
	piece := bytes.Repeat([]byte("A"), megabyte)
	return runAttackers(ctx, v, tally, func(ctx context.Context, _ *pace, _ int) error {
		return sendHTTP1(ctx, t, tally, func(conn net.Conn) error {
			_, err := fmt.Fprintf(conn, "POST /v3/kv/put HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s", len(begin)+v.bytes+len(end), begin)
			for sent := 0; sent < v.bytes && err == nil; sent += len(piece) {
				_, err = conn.Write(piece)
			}
			if err == nil {
				_, err = io.WriteString(conn, end)
			}
			return err
		})
	})
}

// deepJSON posts deeply nested JSON values and gRPC messages.
func deepJSON(ctx context.Context, t *target, v volume, tally *tally) error {
	bodies := []string{
		strings.Repeat("[", v.bytes),
		strings.Repeat(`{"a":`, v.bytes/5),
		`{"success":[` + strings.Repeat(`{"request_txn":{"success":[`, v.bytes/27),
		`{"unknown":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "}",
		`{"key":` + strings.Repeat("9", v.bytes) + "}",
	}
	deep, err := deepTxn(5000)
	if err != nil {
		return err
	}
	return runAttackers(ctx, v, tally, func(ctx context.Context, pace *pace, n int) error {
		if n%2 == 0 {
			return deepMessage(ctx, t, tally, pace, deep)
		}
		body := bodies[(n/2)%len(bodies)]
		return sendHTTP1(ctx, t, tally, func(conn net.Conn) error {
			_, err := fmt.Fprintf(conn, "POST /v3/kv/txn HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			return err
		})
	})
}

// deepTxn returns transactions nested to a depth.
func deepTxn(depth int) ([]byte, error) {
	inner := []byte{}
	for range depth {
		op := append([]byte{0x22}, prefixed(inner)...)
		inner = append([]byte{0x12}, prefixed(op)...)
	}
	// Check the encoding with a depth that this side can decode.
	return inner, proto.Unmarshal([]byte{0x12, 2, 0x22, 0}, &pb.TxnRequest{})
}

func prefixed(bytes []byte) []byte {
	length := []byte{}
	for n := len(bytes); ; n >>= 7 {
		if n < 0x80 {
			return append(append(length, byte(n)), bytes...)
		}
		length = append(length, byte(n)|0x80)
	}
}

func deepMessage(ctx context.Context, t *target, tally *tally, pace *pace, body []byte) error {
	s, err := t.session(ctx, tally)
	if err != nil {
		return err
	}
	defer s.conn.Close()
	if err := s.follow(); err != nil {
		return err
	}
	for pace.wait(ctx, 1) {
		id := s.call("/etcdserverpb.KV/Txn", false)
		s.windows.open(id)
		err := errors.Join(s.flush(), s.send(id, message(0, uint32(len(body)), body)))
		if err != nil && !errors.Is(err, errRefused) {
			return err
		}
		tally.did.Add(1)
	}
	return nil
}

// badUTF8 sends invalid UTF-8 in metadata, paths and JSON.
func badUTF8(ctx context.Context, t *target, v volume, tally *tally) error {
	const bad = "\xff\xfe\xc0\x80\xed\xa0\x80"
	fields := []hpack.HeaderField{
		{Name: "token", Value: bad}, {Name: "authorization", Value: bad}, {Name: "client-api-version", Value: bad}, {Name: "hasleader", Value: bad},
		{Name: "x-data-bin", Value: "!!!!"}, {Name: "grpc-timeout", Value: bad}, {Name: "user-agent", Value: bad}, {Name: "grpc-encoding", Value: bad},
	}
	requests := []string{
		"GET /" + bad + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
		"GET /health HTTP/1.1\r\nHost: " + bad + "\r\n\r\n",
		"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: " + bad + "\r\n\r\n",
		"POST /v3/kv/put HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 25\r\nGrpc-Metadata-X: " + bad + "\r\n\r\n" + `{"key":"YQ==","v` + bad + `":`,
		"POST /v3/auth/user/add HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 18\r\n\r\n" + `{"name":"` + bad + `"}`,
	}
	return runAttackers(ctx, v, tally, func(ctx context.Context, pace *pace, n int) error {
		if n%2 == 1 {
			return sendHTTP1(ctx, t, tally, func(conn net.Conn) error {
				_, err := io.WriteString(conn, requests[int(tally.did.Load())%len(requests)])
				return err
			})
		}
		s, err := t.session(ctx, tally)
		if err != nil {
			return err
		}
		defer s.conn.Close()
		s.drain()
		for turn := 0; pace.wait(ctx, 1); turn++ {
			path := "/etcdserverpb.KV/Range"
			if turn%20 == 0 {
				path += bad
			}
			id := s.call(path, false, fields[turn%len(fields)])
			s.framer.WriteData(id, true, message(0, 3, []byte("\x0a\x01a")))
			if err := s.flush(); err != nil {
				return err
			}
			tally.did.Add(1)
		}
		return nil
	})
}

// gzipBomb sends messages that are short when compressed and long when decompressed.
func gzipBomb(ctx context.Context, t *target, v volume, tally *tally) error {
	bomb, err := zipped(v.bytes)
	if err != nil {
		return err
	}
	return runAttackers(ctx, v, tally, func(ctx context.Context, pace *pace, n int) error {
		if n%2 == 1 {
			return sendHTTP1(ctx, t, tally, func(conn net.Conn) error {
				_, err := fmt.Fprintf(conn, "POST /v3/kv/put HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", len(bomb), bomb)
				return err
			})
		}
		s, err := t.session(ctx, tally)
		if err != nil {
			return err
		}
		defer s.conn.Close()
		if err := s.follow(); err != nil {
			return err
		}
		for pace.wait(ctx, 1) {
			id := s.call("/etcdserverpb.KV/Put", false, hpack.HeaderField{Name: "grpc-encoding", Value: "gzip"})
			s.windows.open(id)
			err := errors.Join(s.flush(), s.send(id, message(1, uint32(len(bomb)), bomb)))
			if err != nil && !errors.Is(err, errRefused) {
				return err
			}
			tally.did.Add(1)
		}
		return nil
	})
}

func zipped(size int) ([]byte, error) {
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	zeros := make([]byte, megabyte)
	for range size / megabyte {
		if _, err := writer.Write(zeros); err != nil {
			return nil, err
		}
	}
	err := writer.Close()
	return out.Bytes(), err
}
