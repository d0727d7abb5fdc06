// Package ports finds free addresses for servers.
package ports

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

const (
	// firstPort to lastPort are below the ephemeral ports: an outgoing connection could take such a
	// port before the server listens on it.
	firstPort = 10000
	lastPort  = 32000
	portTries = 100
)

// held are the claims of this process. They are referenced, since the garbage collector closes an
// unreferenced listener.
var (
	mu   sync.Mutex
	held []net.Listener
)

// Free returns the address of a free loopback port. The port belongs to this process until its end,
// also while no server listens on it: before its start and during a restart.
func Free() (string, error) {
	var err error
	for range portTries {
		port := firstPort + rand.IntN(lastPort-firstPort)
		var claimed, listener net.Listener
		if claimed, err = claim(port); err != nil {
			continue
		}
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		if listener, err = net.Listen("tcp", addr); err != nil {
			claimed.Close()
			continue
		}
		mu.Lock()
		held = append(held, claimed)
		mu.Unlock()
		return addr, listener.Close()
	}
	return "", fmt.Errorf("no free port: %w", err)
}

// claim reserves a port among all processes that use this package. The claim is an abstract unix
// socket: it has no file, and the kernel releases it with the process.
func claim(port int) (net.Listener, error) {
	return net.Listen("unix", fmt.Sprintf("@bowline-interop-port-%d", port))
}
