package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Attackers use the addresses 127.0.0.2 to 127.0.0.9 in turn, so that neither well-behaved clients
// nor later attacks run out of ports: a closed port stays in TIME_WAIT for a minute.
const (
	firstAttacker = 2
	attackers     = 8
)

// attackerDialer chooses a port at connect (IP_BIND_ADDRESS_NO_PORT): a search at bind takes longer
// the more ports are in TIME_WAIT.
func attackerDialer(turn int64) net.Dialer {
	from := &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(firstAttacker+turn%attackers))}
	return net.Dialer{LocalAddr: from, Timeout: dialMax, Control: func(_, _ string, conn syscall.RawConn) error {
		var err error
		controlErr := conn.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, ipBindAddressNoPort, 1)
		})
		return errors.Join(controlErr, err)
	}}
}

// ipBindAddressNoPort is IP_BIND_ADDRESS_NO_PORT, which package syscall has no name for.
const ipBindAddressNoPort = 24

// dialMax bounds a connection attempt of an attacker.
const dialMax = 5 * time.Second

// connect opens a connection. It closes with the context.
func (t *target) connect(ctx context.Context, tally *tally) (net.Conn, error) {
	dialer := attackerDialer(tally.tried.Add(1))
	conn, err := dialer.DialContext(ctx, "tcp", t.address)
	if err != nil {
		return nil, ownFault(err)
	}
	tally.connected()
	context.AfterFunc(ctx, func() { conn.Close() })
	return conn, nil
}

// connectSecurely opens a connection, with TLS if the server uses it.
func (t *target) connectSecurely(ctx context.Context, tally *tally) (net.Conn, error) {
	conn, err := t.connect(ctx, tally)
	if err != nil || t.certificates == nil {
		return conn, err
	}
	secure := tls.Client(conn, &tls.Config{RootCAs: t.certificates.pool, ServerName: "127.0.0.1", NextProtos: []string{"h2"}})
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secure, nil
}

func (t *target) grpc() (*grpc.ClientConn, error) {
	creds := insecure.NewCredentials()
	if t.certificates != nil {
		creds = credentials.NewClientTLSFromCert(t.certificates.pool, "")
	}
	return grpc.NewClient("passthrough:///"+t.address, grpc.WithTransportCredentials(creds), grpc.WithDisableServiceConfig())
}

// fault is an error of the attacker itself, which invalidates the attack.
type fault struct{ error }

// ownFault distinguishes errors of this side from reactions of the server.
func ownFault(err error) error {
	for _, own := range []error{syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.EADDRINUSE} {
		if errors.Is(err, own) {
			return fault{err}
		}
	}
	return err
}

// pace is a rate limiter with a small burst.
type pace struct {
	mu   sync.Mutex
	next time.Time
	gap  time.Duration
}

func newPace(perSecond int) *pace { return &pace{gap: time.Second / time.Duration(max(perSecond, 1))} }

// wait waits for count permits and returns false once the context has ended.
func (p *pace) wait(ctx context.Context, count int) bool {
	p.mu.Lock()
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	wait := p.next.Sub(now)
	p.next = p.next.Add(time.Duration(count) * p.gap)
	p.mu.Unlock()
	return sleep(ctx, wait)
}

func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// runAttackers runs this many attackers until the context ends. A disconnected attacker reconnects
// at the given pace.
func runAttackers(ctx context.Context, v volume, tally *tally, attacker func(ctx context.Context, pace *pace, n int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	pace := newPace(v.perSecond)
	var attackers sync.WaitGroup
	for n := range v.connections {
		attackers.Go(func() {
			for pace.wait(ctx, 1) {
				err := attacker(ctx, pace, n)
				var own fault
				switch {
				case errors.As(err, &own):
					cancel(own)
				case err != nil && ctx.Err() == nil:
					tally.cut.Add(1)
				}
			}
		})
	}
	attackers.Wait()
	var own fault
	if errors.As(context.Cause(ctx), &own) {
		return own
	}
	return nil
}

// held reads until the server closes the connection or the context ends.
func held(ctx context.Context, conn net.Conn) error {
	_, err := io.Copy(io.Discard, conn)
	if err == nil && ctx.Err() == nil {
		err = io.EOF
	}
	return err
}

// trickled sends one byte at a time until the connection fails.
func trickled(ctx context.Context, conn net.Conn, bytes []byte) error {
	for n := 0; sleep(ctx, trickle); n++ {
		if _, err := conn.Write(bytes[n%len(bytes) : n%len(bytes)+1]); err != nil {
			return err
		}
	}
	return nil
}
