package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// silence opens connections that send nothing.
func silence(ctx context.Context, t *target, v volume, tally *tally) error {
	return runAttackers(ctx, v, tally, func(ctx context.Context, _ *pace, _ int) error {
		conn, err := t.connect(ctx, tally)
		if err != nil {
			return err
		}
		defer conn.Close()
		return held(ctx, conn)
	})
}

// slowHeaders sends the headers of a request a byte at a time: half of them of HTTP/1, half of
// HTTP/2.
func slowHeaders(ctx context.Context, t *target, v volume, tally *tally) error {
	return runAttackers(ctx, v, tally, func(ctx context.Context, _ *pace, n int) error {
		if n%2 == 0 {
			return slowBlock(ctx, t, tally)
		}
		conn, err := t.connect(ctx, tally)
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"); err != nil {
			return err
		}
		return trickled(ctx, conn, []byte("X-Slow: yes\r\n"))
	})
}

// slowBlock starts a header block and sends its frame a byte at a time.
func slowBlock(ctx context.Context, t *target, tally *tally) error {
	s, err := t.session(ctx, tally)
	if err != nil {
		return err
	}
	defer s.conn.Close()
	s.drain()
	// A frame of 16,384 bytes, of which 9 are its header and the rest takes half an hour.
	if _, err := s.conn.Write([]byte{0, 0x40, 0, byte(http2.FrameHeaders), 0, 0, 0, 0, 1}); err != nil {
		return err
	}
	return trickled(ctx, s.conn, []byte{0})
}

// slowBodies posts endless JSON to the gateway: much at first, then a byte at a time.
func slowBodies(ctx context.Context, t *target, v volume, tally *tally) error {
	body := `{"key":"c2xvdw==","value":"` + strings.Repeat("A", v.bytes)
	return runAttackers(ctx, v, tally, func(ctx context.Context, _ *pace, _ int) error {
		conn, err := t.connect(ctx, tally)
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = fmt.Fprintf(conn, "POST /v3/kv/put HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s", 2*len(body), body)
		if err != nil {
			return err
		}
		tally.did.Add(1)
		return answeredOr(conn, func() error { return trickled(ctx, conn, []byte("A")) })
	})
}

// answeredOr continues until the server responds: a response before the end of a request is a
// refusal.
func answeredOr(conn net.Conn, goOn func() error) error {
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		conn.Read(make([]byte, 1))
		conn.Close()
	}()
	err := goOn()
	conn.Close()
	<-answered
	return err
}

// slowMessages sends endless gRPC messages on several streams of a connection.
func slowMessages(ctx context.Context, t *target, v volume, tally *tally) error {
	const announced, sent = 1_500_000, 1_400_000
	body := message(0, announced, make([]byte, sent))
	return runAttackers(ctx, v, tally, func(ctx context.Context, _ *pace, _ int) error {
		s, err := t.session(ctx, tally)
		if err != nil {
			return err
		}
		defer s.conn.Close()
		if err := s.follow(); err != nil {
			return err
		}
		for left := v.bytes; left > sent; left -= sent {
			id := s.call("/etcdserverpb.KV/Put", false)
			s.windows.open(id)
			if err := errors.Join(s.flush(), s.send(id, body)); err != nil && !errors.Is(err, errRefused) {
				return err
			}
			tally.did.Add(1)
		}
		<-ctx.Done()
		return nil
	})
}

// halfHandshakes abandons TLS handshakes: a third send nothing, a third half a ClientHello, a third
// a whole one.
func halfHandshakes(ctx context.Context, t *target, v volume, tally *tally) error {
	hello, err := clientHello()
	if err != nil {
		return err
	}
	hellos := [][]byte{nil, hello[:len(hello)/2], hello}
	return runAttackers(ctx, v, tally, func(ctx context.Context, _ *pace, n int) error {
		conn, err := t.connect(ctx, tally)
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err := conn.Write(hellos[n%len(hellos)]); err != nil {
			return err
		}
		return held(ctx, conn)
	})
}

// idle opens HTTP/2 connections that send the preface and nothing more.
func idle(ctx context.Context, t *target, v volume, tally *tally) error {
	return runAttackers(ctx, v, tally, func(ctx context.Context, _ *pace, _ int) error {
		s, err := t.session(ctx, tally)
		if err != nil {
			return err
		}
		defer s.conn.Close()
		return held(ctx, s.conn)
	})
}

// idleTLS opens idle connections over TLS, with resumed sessions if the server allows it, since
// full handshakes cost both sides.
func idleTLS(ctx context.Context, t *target, v volume, tally *tally) error {
	cache := tls.NewLRUClientSessionCache(1)
	return runAttackers(ctx, v, tally, func(ctx context.Context, _ *pace, _ int) error {
		conn, err := t.connect(ctx, tally)
		if err != nil {
			return err
		}
		secure := tls.Client(conn, &tls.Config{
			RootCAs: t.certificates.pool, ServerName: "127.0.0.1", NextProtos: []string{"h2"}, ClientSessionCache: cache,
		})
		defer secure.Close()
		if _, err := io.WriteString(secure, http2.ClientPreface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil {
			return err
		}
		return held(ctx, secure)
	})
}

// churn opens and closes connections, with or without a request, by FIN or by reset.
func churn(ctx context.Context, t *target, v volume, tally *tally) error {
	words := []string{"", "GET /health HTTP/1.1\r\n", http2.ClientPreface, http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00", "\x16\x03\x01"}
	var turns sync.Map
	return runAttackers(ctx, v, tally, func(ctx context.Context, _ *pace, n int) error {
		turn, _ := turns.LoadOrStore(n, new(int))
		turned := turn.(*int)
		*turned++
		conn, err := t.connect(ctx, tally)
		if err != nil {
			return err
		}
		defer conn.Close()
		if *turned%2 == 0 {
			// Close sends a reset.
			conn.(*net.TCPConn).SetLinger(0)
		}
		tally.did.Add(1)
		if _, err := io.WriteString(conn, words[*turned%len(words)]); err != nil {
			return err
		}
		sleep(ctx, time.Millisecond)
		return nil
	})
}
