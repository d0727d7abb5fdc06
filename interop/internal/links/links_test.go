package links

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"
)

// echo is a server that sends received lines back.
func echo(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go io.Copy(conn, conn)
		}
	}()
	return listener.Addr().String()
}

// call dials as member 1a.
func call(t *testing.T, n *Net, addr string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := conn.Write([]byte("GET /raft HTTP/1.1\r\nX-Server-From: 1a\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

func wired(t *testing.T) (*Net, string) {
	t.Helper()
	n := New()
	t.Cleanup(n.Close)
	n.Name("1a", "m1")
	addr, err := n.Add("m2", echo(t))
	if err != nil {
		t.Fatal(err)
	}
	return n, addr
}

// head reads the echoed head of the request.
func head(t *testing.T, from *bufio.Reader) {
	t.Helper()
	for range 3 {
		if _, err := from.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLinksForwardBytesBothWays(t *testing.T) {
	n, addr := wired(t)
	conn, from := call(t, n, addr)
	head(t, from)
	conn.Write([]byte("hello\n"))
	if line, err := from.ReadString('\n'); line != "hello\n" {
		t.Fatal(line, err)
	}
}

func TestACutEndsConnectionsAndRefusesNewOnes(t *testing.T) {
	n, addr := wired(t)
	_, from := call(t, n, addr)
	head(t, from)
	n.Set(func(from, to string) State {
		if from == "m2" && to == "m1" {
			return Cut
		}
		return Open
	})
	if _, err := from.ReadString('\n'); err == nil {
		t.Fatal("the connection is still open after the cut")
	}
	_, from = call(t, n, addr)
	if _, err := from.ReadString('\n'); err == nil {
		t.Fatal("a new connection passed the cut")
	}
}

func TestHeldBytesArriveAfterRelease(t *testing.T) {
	n, addr := wired(t)
	conn, from := call(t, n, addr)
	head(t, from)
	n.Set(func(from, _ string) State {
		if from == "m1" {
			return Held
		}
		return Open
	})
	conn.Write([]byte("late\n"))
	conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if line, err := from.ReadString('\n'); err == nil {
		t.Fatal("a held link delivered bytes:", line)
	}
	conn.SetReadDeadline(time.Time{})
	n.Heal()
	if line, err := from.ReadString('\n'); line != "late\n" {
		t.Fatal(line, err)
	}
}
