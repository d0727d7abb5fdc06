// Package links are the wires between the members of a cluster: every
// connection from one member to another passes one of them, as bytes, and can
// be cut, held or slowed down.
//
//	m1 dials m2:   m1 -> wire of m2 -> m2      the first request says X-Server-From, so it is known who dialled
//
// Each member advertises the address of its wire and listens elsewhere. What
// members send each other travels both ways: a stream's messages in the answer
// to whoever dialled, a post's in the request. So a link is named by who sends
// and who receives, whoever has dialled.
package links

import (
	"bytes"
	"errors"
	"io"
	"net"
	"regexp"
	"sync"
	"time"
)

// State is what becomes of the bytes that one member sends to another.
type State int

const (
	// Open lets them pass.
	Open State = iota
	// Cut closes connections, and refuses new ones.
	Cut
	// Held keeps them: connections stay open and say nothing, as when a cable is pulled.
	Held
)

const (
	// headBytesMax bounds what is read of a connection to learn who dialled it.
	headBytesMax = 16 << 10
	copyBytes    = 32 << 10
	// holdPoll is how often bytes that are held ask whether they still are.
	holdPoll = 10 * time.Millisecond
)

// Rule says what becomes of bytes from one member (its id in hex, or nothing for a connection on which nobody says it) to
// another (its name on the wire that it is reached by).
type Rule func(from, to string) State

// Net is all wires of a cluster.
type Net struct {
	mu    sync.Mutex
	rule  Rule
	delay time.Duration
	names map[string]string
	open  map[*pair]struct{}
	ends  []net.Listener
}

// pair is a connection through a wire: from is who dialled, to is whose wire it is.
type pair struct {
	from, to string
	ends     [2]net.Conn
}

func (p *pair) close() {
	p.ends[0].Close()
	p.ends[1].Close()
}

// New returns wires that let everything pass.
func New() *Net {
	n := &Net{open: map[*pair]struct{}{}, names: map[string]string{}}
	n.Heal()
	return n
}

// Add puts a wire before a member that listens at the target address, and returns the address to advertise.
func (n *Net) Add(name, target string) (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ends = append(n.ends, listener)
	go n.accept(listener, name, target)
	return listener.Addr().String(), nil
}

// Name says which member has an id, so that rules can speak of names alone.
func (n *Net) Name(id, name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.names[id] = name
}

// Set changes the rule, and closes the connections that it cuts in either direction.
func (n *Net) Set(rule Rule) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rule = rule
	for p := range n.open {
		if n.cut(p) {
			p.close()
		}
	}
}

// Heal lets everything pass. What was held arrives now.
func (n *Net) Heal() { n.Set(func(_, _ string) State { return Open }) }

// Delay has everything arrive later.
func (n *Net) Delay(by time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delay = by
}

// Close ends all wires.
func (n *Net) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, end := range n.ends {
		end.Close()
	}
	for p := range n.open {
		p.close()
	}
}

func (n *Net) cut(p *pair) bool {
	from := n.nameOf(p.from)
	return n.rule(from, p.to) == Cut || n.rule(p.to, from) == Cut
}

func (n *Net) nameOf(id string) string {
	if name, known := n.names[id]; known {
		return name
	}
	return id
}

func (n *Net) accept(listener net.Listener, name, target string) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go n.serve(conn, name, target)
	}
}

func (n *Net) serve(dialled net.Conn, name, target string) {
	defer dialled.Close()
	head, from, err := readHead(dialled)
	if err != nil {
		return
	}
	reached, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	p := &pair{from: from, to: name, ends: [2]net.Conn{dialled, reached}}
	defer p.close()
	if !n.enter(p) {
		return
	}
	defer n.leave(p)
	var both sync.WaitGroup
	both.Go(func() {
		if n.pass(p, true, reached, head) == nil {
			n.copy(p, true, reached, dialled)
		}
		p.close()
	})
	both.Go(func() {
		n.copy(p, false, dialled, reached)
		p.close()
	})
	both.Wait()
}

func (n *Net) enter(p *pair) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cut(p) {
		return false
	}
	n.open[p] = struct{}{}
	return true
}

func (n *Net) leave(p *pair) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.open, p)
}

// copy passes on what it reads until either end closes.
func (n *Net) copy(p *pair, forth bool, to io.Writer, from io.Reader) {
	buffer := make([]byte, copyBytes)
	for {
		size, err := from.Read(buffer)
		if size > 0 && n.pass(p, forth, to, buffer[:size]) != nil || err != nil {
			return
		}
	}
}

var errCut = errors.New("cut")

// pass writes bytes once they may pass. Some that arrive late hold up those behind them, as on a real wire.
func (n *Net) pass(p *pair, forth bool, to io.Writer, bytes []byte) error {
	if delay := n.delayNow(); delay > 0 {
		time.Sleep(delay)
	}
	for {
		switch n.state(p, forth) {
		case Cut:
			return errCut
		case Open:
			_, err := to.Write(bytes)
			return err
		case Held:
			time.Sleep(holdPoll)
		}
	}
}

func (n *Net) delayNow() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.delay
}

// state is that of the bytes from who dialled, or of those back to it.
func (n *Net) state(p *pair, forth bool) State {
	n.mu.Lock()
	defer n.mu.Unlock()
	if forth {
		return n.rule(n.nameOf(p.from), p.to)
	}
	return n.rule(p.to, n.nameOf(p.from))
}

var serverFrom = regexp.MustCompile(`(?i)\r\nx-server-from: *([0-9a-f]+)\r\n`)

// readHead reads the head of the first request, and finds who sends it. What follows on the same connection is of the same
// member: none lends its connections to another.
func readHead(conn net.Conn) (head []byte, from string, err error) {
	buffer := make([]byte, copyBytes)
	for !bytes.Contains(head, []byte("\r\n\r\n")) && len(head) < headBytesMax {
		size, err := conn.Read(buffer)
		head = append(head, buffer[:size]...)
		if err != nil {
			return nil, "", err
		}
	}
	if found := serverFrom.FindSubmatch(head); found != nil {
		from = string(found[1])
	}
	return head, from, nil
}
