// Package ports finds addresses for servers to listen on.
package ports

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

const (
	// firstPort to lastPort are below those that systems give to outgoing connections, one of which could take an
	// address between its being found free and a server's listening on it.
	firstPort = 10000
	lastPort  = 32000
	portTries = 100
)

// given are the ports that this program has found free: who got one may not listen on it yet.
var given sync.Map

// Free finds a loopback port that nobody listens on. It is drawn, so that programs that look at a time rarely meet.
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
