// Package links proxies the connections between the members of a cluster as bytes. Each link can be
// cut, held or delayed.
//
//	m1 dials m2:   m1 -> wire of m2 -> m2
//
// The header X-Server-From of the first request identifies the dialer.
//
// Each member advertises the address of its proxy and listens elsewhere. Raft messages travel both
// ways: those of a stream in the response to the dialer, those of a POST in the request. So a link
// is named by its sender and receiver, regardless of the dialer.
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

// State is the state of a link from one member to another.
type State int

const (
	// Open passes bytes.
	Open State = iota
	// Cut closes connections and refuses new ones.
	Cut
	// Held buffers bytes: connections stay open and silent, as when a cable is pulled.
	Held
)

const (
	// headBytesMax bounds the bytes read from a connection to identify its dialer.
	headBytesMax = 16 << 10
	copyBytes    = 32 << 10
	// holdPoll is the interval at which held bytes check the rule.
	holdPoll = 10 * time.Millisecond
)

// Rule returns the state of the link from one member (its name, its id in hex before Name, or empty
// if unidentified) to another (its name).
type Rule func(from, to string) State

// Net is the set of proxies of a cluster.
type Net struct {
	mu    sync.Mutex
	rule  Rule
	delay time.Duration
	names map[string]string
	open  map[*pair]struct{}
	ends  []net.Listener
}

// pair is a proxied connection: from is the dialer, to the member that the proxy passes bytes to.
type pair struct {
	from, to string
	ends     [2]net.Conn
}

func (p *pair) close() {
	p.ends[0].Close()
	p.ends[1].Close()
}

// New returns a Net whose links are all open.
func New() *Net {
	n := &Net{open: map[*pair]struct{}{}, names: map[string]string{}}
	n.Heal()
	return n
}

// Add starts a proxy for a member that listens at the target address, and returns the address to
// advertise.
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

// Name maps an id to a member's name, so that rules need only names.
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

// Heal opens all links. Held bytes are delivered.
func (n *Net) Heal() { n.Set(func(_, _ string) State { return Open }) }

// Delay delays all bytes.
func (n *Net) Delay(by time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delay = by
}

// Close stops all proxies.
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

// copy forwards bytes until either end closes.
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

// pass writes bytes once their link is open. Delayed bytes delay all later ones, as on a real wire.
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

// state returns the state of the link from the dialer, or back to it.
func (n *Net) state(p *pair, forth bool) State {
	n.mu.Lock()
	defer n.mu.Unlock()
	if forth {
		return n.rule(n.nameOf(p.from), p.to)
	}
	return n.rule(p.to, n.nameOf(p.from))
}

var serverFrom = regexp.MustCompile(`(?i)\r\nx-server-from: *([0-9a-f]+)\r\n`)

// readHead reads the head of the first request and returns its sender. All later requests on the
// connection have the same sender.
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
