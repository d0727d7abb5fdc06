package ports

import (
	"net"
	"runtime"
	"strconv"
	"testing"
)

func free(t *testing.T) (addr string, port int) {
	t.Helper()
	addr, err := Free()
	if err != nil {
		t.Fatal(err)
	}
	_, number, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	if port, err = strconv.Atoi(number); err != nil {
		t.Fatal(err)
	}
	return addr, port
}

// TestAPortIsClaimedUntilTheProcessEnds checks that a port without a server cannot be claimed
// again. A claim is a socket, so a second one of this process fails like one of another process.
func TestAPortIsClaimedUntilTheProcessEnds(t *testing.T) {
	_, port := free(t)
	// An unreferenced claim would be released here.
	runtime.GC()
	runtime.GC()
	if again, err := claim(port); err == nil {
		again.Close()
		t.Errorf("port %d was claimed twice", port)
	}
}

func TestAServerCanListenOnItsPort(t *testing.T) {
	addr, _ := free(t)
	for range 2 {
		listener, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		listener.Close()
	}
}
