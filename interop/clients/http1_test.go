package clients

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"bowline/interop/internal/certs"
	"bowline/interop/internal/cluster"
)

const (
	// exchangesPath is the file of the expected responses, for -write.
	exchangesPath = "testdata/http1.txt"
	// sentShown is the number of bytes of a request that a failure shows at most.
	sentShown = 400
	// probe is the request that shows whether a connection is still usable.
	probe = "GET /health HTTP/1.1\r\nHost: a\r\nX-Probe: 1\r\n\r\n"
)

var (
	writeExchanges = flag.Bool("write", false, "take the responses of this server, which should be etcd, as the expected ones")

	// expectedExchanges has the responses of etcd, as exchange.run describes them.
	//go:embed testdata/http1.txt
	expectedExchanges string
)

// exchange is a sequence of bytes on a new connection, and what a server sends back.
type exchange struct {
	name string
	sent string
	// then is sent when the first response has arrived, which may be "100 Continue".
	then string
	// responses is the number of final responses, 1 if it is 0. A server may end the connection
	// before.
	responses int
	// ends is set if the client then ends its side of the connection.
	ends bool
	// without names a header that is not compared. The comment of the exchange gives the reason.
	without string
}

// TestHTTP1 sends requests byte for byte, most of which no client sends: the server must read them
// by the rules of Go's server, as etcd does, or a proxy in front of it sees other requests than the
// server itself.
//
//	go test ./clients -run HTTP1 -write     takes the responses of etcd as the expected ones
func TestHTTP1(t *testing.T) {
	t.Parallel()
	all, descriptions := map[string]exchange{}, map[string]string{}
	run := func(name string, secure *tls.Config, flags []string, exchanges []exchange) {
		t.Run(name, func(t *testing.T) {
			endpoint := serveHTTP1(t, secure, flags)
			for _, e := range exchanges {
				full := name + ": " + e.name
				if descriptions[full] != "" {
					t.Fatalf("two exchanges have the name %q", full)
				}
				all[full], descriptions[full] = e, e.describe(t, endpoint, secure)
			}
		})
	}
	files := got(certs.New(t.TempDir()))(t)
	run("plain", nil, nil, plainExchanges())
	run("whitelist", nil, []string{"--host-whitelist=allowed"}, whitelistExchanges())
	run("tls", files.Client, []string{"--cert-file=" + files.ServerCert, "--key-file=" + files.ServerKey}, tlsExchanges())
	if t.Failed() {
		return
	}
	if *writeExchanges {
		must(t, os.WriteFile(exchangesPath, []byte(joinExchanges(descriptions)), 0o644))
		return
	}
	compareExchanges(t, all, descriptions, splitExchanges(expectedExchanges))
}

// serveHTTP1 starts a server for the exchanges and returns its address. The server need not stop
// cleanly: refused connections may outlast the exchanges.
func serveHTTP1(t *testing.T, secure *tls.Config, flags []string) string {
	t.Helper()
	c := got(cluster.New(binary, t.TempDir(), 1))(t)
	t.Cleanup(c.Close)
	c.Members[0].TLS = secure
	must(t, c.Start(context.Background(), flags...))
	return c.Members[0].Endpoint()
}

func compareExchanges(t *testing.T, exchanges map[string]exchange, have, want map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if have[name] == "" {
			t.Errorf("%s has %q, which is not among the exchanges", exchangesPath, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		if have[name] != want[name] {
			e := exchanges[name]
			t.Errorf("%s\nsent: %s\ngot:\n%s\nwant:\n%s", name, shortened(e.sent+e.then), have[name], want[name])
		}
	}
}

// joinExchanges returns the text of the file: each description with the names of the exchanges that
// have it, indented.
func joinExchanges(descriptions map[string]string) string {
	names := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(descriptions)) {
		names[descriptions[name]] += "  " + name + "\n"
	}
	var groups []string
	for description, names := range names {
		groups = append(groups, description+names)
	}
	slices.Sort(groups)
	return strings.Join(groups, "\n")
}

func splitExchanges(text string) map[string]string {
	all := map[string]string{}
	for _, group := range strings.Split(text, "\n\n") {
		description, names, _ := strings.Cut(strings.TrimSuffix(group, "\n"), "\n  ")
		for _, name := range strings.Split(names, "\n  ") {
			all[name] = description + "\n"
		}
	}
	return all
}

// describe sends the bytes and describes all that the server sends. The last line is the state of
// the connection: open, closed, or silent if the server lets the client wait.
func (e exchange) describe(t *testing.T, endpoint string, secure *tls.Config) string {
	t.Helper()
	conn := dialHTTP1(t, endpoint, secure)
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(exchangeTimeout)))
	var out strings.Builder
	// A server may refuse a request before it has arrived. So the write may fail, and the responses
	// are read meanwhile.
	go e.send(conn, e.sent, e.then == "")
	fmt.Fprintf(&out, "%s\n", e.read(conn, &out))
	return out.String()
}

func dialHTTP1(t *testing.T, endpoint string, secure *tls.Config) net.Conn {
	t.Helper()
	if secure == nil {
		return got(net.DialTimeout("tcp", endpoint, testTimeout))(t)
	}
	secure = secure.Clone()
	secure.NextProtos = []string{"http/1.1"}
	return got(tls.DialWithDialer(&net.Dialer{Timeout: testTimeout}, "tcp", endpoint, secure))(t)
}

// send writes bytes and, after the last ones, the end of the connection if the exchange has it.
func (e exchange) send(conn net.Conn, text string, isLast bool) {
	_, _ = io.WriteString(conn, text)
	if e.ends && isLast {
		_ = conn.(interface{ CloseWrite() error }).CloseWrite()
	}
}

// read describes the responses, and returns the state of the connection after them.
func (e exchange) read(conn net.Conn, out io.Writer) string {
	reader := bufio.NewReader(conn)
	methods := methodsOf(e.sent)
	then := e.then
	for final := 0; final < max(e.responses, 1); {
		r, err := readResponse(reader, methods[min(final, len(methods)-1)])
		if err != nil {
			return ending(err)
		}
		fmt.Fprint(out, r.describe(e.without))
		if r.bodyErr != nil {
			return ending(r.bodyErr)
		}
		if r.StatusCode >= 200 {
			final++
		}
		if then != "" {
			e.send(conn, then, true)
			then = ""
		}
	}
	_, _ = io.WriteString(conn, probe)
	r, err := readResponse(reader, http.MethodGet)
	if err != nil {
		return ending(err)
	}
	if r.StatusCode == http.StatusOK && r.body == `{"health":"true","reason":""}` {
		return "open"
	}
	return "then\n" + r.describe(e.without) + "open"
}

// ending describes how a connection ended. Whether a closed connection is also reset depends on the
// time at which the bytes arrive.
func ending(err error) string {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return "silent"
	}
	return "closed"
}

// methodsOf returns the method of each request, as far as it determines whether a response has a
// body.
func methodsOf(sent string) []string {
	var methods []string
	for line := range strings.Lines(sent) {
		if method, _, _ := strings.Cut(line, " "); strings.Contains(line, " HTTP/") {
			methods = append(methods, method)
		}
	}
	return append(methods, http.MethodGet)
}

type response struct {
	*http.Response
	// lines are the status line and the headers, sorted. Go's client would drop some of them.
	lines []string
	body  string
	// bodyErr is the error after the body, if it is incomplete.
	bodyErr error
}

func readResponse(from *bufio.Reader, method string) (response, error) {
	head, err := peekHead(from)
	if err != nil {
		return response{}, err
	}
	r, err := http.ReadResponse(from, &http.Request{Method: method})
	if err != nil {
		return response{}, err
	}
	lines := strings.Split(strings.TrimSuffix(head, "\r\n\r\n"), "\r\n")
	slices.Sort(lines[1:])
	body, err := io.ReadAll(r.Body)
	return response{r, lines, string(body), err}, nil
}

// peekHead returns the next head, up to its blank line, and leaves it unread.
func peekHead(from *bufio.Reader) (string, error) {
	for length := 1; ; length++ {
		head, err := from.Peek(length)
		if err != nil || bytes.HasSuffix(head, []byte("\r\n\r\n")) {
			return string(head), err
		}
	}
}

// identity matches what differs between any two servers: ids and the term in a response.
var identity = regexp.MustCompile(`"(cluster_id|member_id|raft_term)":"\d+"`)

// describe returns status, headers and body, one per line.
func (r response) describe(without string) string {
	var out strings.Builder
	for _, line := range r.lines {
		name, value, _ := strings.Cut(line, ": ")
		switch {
		case without != "" && name == without:
			continue
		case name == "Date":
			line = "Date: <date>"
		case name == "Content-Length" && json.Valid([]byte(r.body)) && value == strconv.Itoa(len(r.body)):
			line = "Content-Length: <length>"
		}
		fmt.Fprintln(&out, line)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Trailer)) {
		fmt.Fprintf(&out, "trailer %s: %s\n", name, strings.Join(r.Trailer[name], ", "))
	}
	if r.body != "" {
		fmt.Fprintf(&out, "%#q\n", r.normalBody())
	}
	return out.String()
}

// normalBody returns the body without ids, and without the spaces that Go's protobuf library puts
// into JSON and errors at random per build.
func (r response) normalBody() string {
	body := r.body
	var compact bytes.Buffer
	if json.Compact(&compact, []byte(body)) == nil {
		body = compact.String()
	}
	body = strings.ReplaceAll(body, "proto:\u00a0", "proto: ")
	return identity.ReplaceAllString(body, `"$1":"<id>"`)
}

// shortened quotes bytes, and leaves out the middle of many.
func shortened(sent string) string {
	if len(sent) <= sentShown {
		return strconv.Quote(sent)
	}
	half := sentShown / 2
	return fmt.Sprintf("%q ... %d bytes ... %q", sent[:half], len(sent)-2*half, sent[len(sent)-half:])
}
