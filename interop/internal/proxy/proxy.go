// Package proxy records the messages between the members of an etcd cluster, and cuts connections
// on demand.
//
// Each member advertises the address of its proxy and listens elsewhere, so all requests of other
// members to it pass through the proxy. The dialer of a stream receives its messages, so the
// recorded bytes are the response of a stream and the request of a POST.
package proxy

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
)

// tapeMax bounds the recorded bytes of one connection. The database after the message of a snapshot
// request is not needed, and no stream here reaches the bound.
const tapeMax = 8 << 20

// Tape is the recording of one connection.
type Tape struct {
	Path string

	mu    sync.Mutex
	bytes []byte
}

// Bytes returns the recorded bytes so far.
func (t *Tape) Bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytes
}

// Rule reports whether a request for a path may pass from one member (its id in hex, or empty if
// unidentified) to another (its name).
type Rule func(from, to, path string) bool

// Network is the set of proxies of a cluster.
type Network struct {
	mu     sync.Mutex
	rule   Rule
	open   map[*link]struct{}
	tapes  []*Tape
	closed []func()
}

// link is a request in flight, which a new rule may cut.
type link struct {
	from, to, path string
	cut            context.CancelFunc
}

// New returns a network that lets everything pass.
func New() *Network {
	n := &Network{open: map[*link]struct{}{}}
	n.Heal()
	return n
}

// Add starts a proxy for a member that listens at the target address, and returns the address to
// advertise.
func (n *Network) Add(name, target string) (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{
		Handler: n.handler(name, &url.URL{Scheme: "http", Host: target}),
		// Requests to a member that is down fail as expected.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	go server.Serve(listener)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = append(n.closed, func() { server.Close() })
	return listener.Addr().String(), nil
}

// Set changes the rule and cuts the connections it forbids.
func (n *Network) Set(rule Rule) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rule = rule
	for l := range n.open {
		if !rule(l.from, l.to, l.path) {
			l.cut()
		}
	}
}

// Heal lets everything pass.
func (n *Network) Heal() { n.Set(func(_, _, _ string) bool { return true }) }

// Tapes returns all recordings.
func (n *Network) Tapes() []*Tape {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.tapes
}

// Close stops all proxies.
func (n *Network) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, stop := range n.closed {
		stop()
	}
}

func (n *Network) handler(name string, target *url.URL) http.Handler {
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
		},
		// Streams must arrive message by message.
		FlushInterval:  -1,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ModifyResponse: n.recordResponse,
		Transport:      &http.Transport{DisableCompression: true},
		ErrorLog:       log.New(io.Discard, "", 0),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cut := context.WithCancel(r.Context())
		defer cut()
		l := &link{from: r.Header.Get("X-Server-From"), to: name, path: r.URL.Path, cut: cut}
		n.recordRequest(r)
		if !n.enter(l) {
			// A POST that fails is recorded too, since it was sent.
			io.Copy(io.Discard, r.Body)
			panic(http.ErrAbortHandler)
		}
		defer n.leave(l)
		forward.ServeHTTP(w, r.WithContext(ctx))
	})
}

func (n *Network) enter(l *link) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.rule(l.from, l.to, l.path) {
		return false
	}
	n.open[l] = struct{}{}
	return true
}

func (n *Network) leave(l *link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.open, l)
}

func (n *Network) recordRequest(r *http.Request) {
	if r.Method == http.MethodPost && (r.URL.Path == "/raft" || r.URL.Path == "/raft/snapshot") {
		r.Body = n.record(r.URL.Path, r.Body)
	}
}

func (n *Network) recordResponse(r *http.Response) error {
	path := r.Request.URL.Path
	if r.StatusCode == http.StatusOK && strings.HasPrefix(path, "/raft/stream/") {
		r.Body = n.record(path, r.Body)
	}
	return nil
}

func (n *Network) record(path string, body io.ReadCloser) io.ReadCloser {
	tape := &Tape{Path: path}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tapes = append(n.tapes, tape)
	return &recorder{ReadCloser: body, tape: tape}
}

// recorder copies the bytes read from a body to a tape.
type recorder struct {
	io.ReadCloser
	tape *Tape
}

func (r *recorder) Read(b []byte) (int, error) {
	size, err := r.ReadCloser.Read(b)
	r.tape.mu.Lock()
	defer r.tape.mu.Unlock()
	r.tape.bytes = append(r.tape.bytes, b[:min(size, tapeMax-len(r.tape.bytes))]...)
	return size, err
}
