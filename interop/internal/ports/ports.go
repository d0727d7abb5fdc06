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

// given are the ports already returned, on which a server may not listen yet.
var given sync.Map

// Free returns the address of a free loopback port. It is random, so that concurrent programs
// rarely choose the same one.
func Free() (string, error) {
	var err error
	for range portTries {
		addr := fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(lastPort-firstPort))
		if _, taken := given.LoadOrStore(addr, true); taken {
			continue
		}
		var listener net.Listener
		if listener, err = net.Listen("tcp", addr); err == nil {
			return addr, listener.Close()
		}
	}
	return "", fmt.Errorf("no free port: %w", err)
}
