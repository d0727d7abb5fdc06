package main

import (
	"context"
	"runtime"
	"time"
)

// volume is the size of an attack.
type volume struct {
	// connections at a time.
	connections int
	// perSecond bounds the frames, requests or new connections per second, over all connections.
	perSecond int
	// bytes bounds the bytes that a connection sends before it only trickles, or the bytes requested.
	bytes int
}

// attack is an attack by unauthenticated clients.
type attack struct {
	name string
	// on is the attacked process, whose memory is measured: a member, or a proxy in front of one.
	on role
	// tls starts the member with TLS.
	tls bool
	// keys of this many bytes each are put first, for attacks that read.
	keys, keyBytes int
	// leased has these bytes in the names of the keys, which are attached to filledLease.
	leased bool
	// full is the volume of a measurement of both servers, brief that of a check.
	full, brief volume
	// growthMax bounds the growth of Bowline's memory under the brief attack, in megabytes.
	growthMax float64
	// lasts is the shortest duration of the brief attack, for a bound that takes effect later.
	lasts time.Duration
	// cutMin is the least number of connections that Bowline must close under the brief attack.
	cutMin int64
	run    func(context.Context, *target, volume, *tally) error
}

// role is what a process of a program does.
type role int

const (
	member role = iota
	// proxy is a grpc-proxy. Its member is of the same program, and no client connects to that.
	proxy
)

const (
	// trickle is the time between two bytes of a slow attacker.
	trickle = 100 * time.Millisecond
	// returnMax bounds the time until memory and descriptors are back to their values before the
	// attack.
	returnMax = 20 * time.Second
	// descriptorSlack and memorySlack (megabytes) are the allowed excess then. The allocator keeps
	// free memory at the end of each heap.
	descriptorSlack = 8
	memorySlack     = 48
	// ordinaryMax bounds the memory growth in an attack that should need no memory, in megabytes.
	ordinaryMax = 48
)

// filledLease is the lease of leased keys.
const filledLease = 7

const (
	kilobyte = 1 << 10
	megabyte = 1 << 20
)

const (
	// unreadMax bounds the unread responses of all connections, in megabytes: 512 MiB.
	unreadMax = 537
	// unreadGrace is the time after which a connection with unread responses may be closed.
	unreadGrace = 5 * time.Second
	// waitingMax bounds the requests that wait until their client reads, in megabytes: 256 MiB.
	waitingMax = 268
	// unreadWritesMax bounds the replies of writes in progress in unreadWrites, in megabytes: 256 keys
	// of 128 KiB, and four whole replies.
	unreadWritesMax = 34 + 4*9
	// unreadSlack is for everything else that connections and their responses need.
	unreadSlack = 100
)

// unreadGrowth bounds the memory of unread responses of this size each, in megabytes. Those being
// built come on top, two per core.
func unreadGrowth(response float64) float64 {
	return unreadMax + 2*float64(runtime.NumCPU())*response + unreadSlack
}

// attacks in the order in which they run and are printed.
var attacks = []attack{
	// Attacks that start requests and do not finish them.
	{name: "silent", full: volume{6000, 3000, 0}, brief: volume{2000, 3000, 0}, growthMax: 64, run: silence},
	{name: "slow-headers", full: volume{1000, 2000, 0}, brief: volume{300, 1000, 0}, growthMax: ordinaryMax, run: slowHeaders},
	{name: "slow-bodies", full: volume{200, 400, 5 * megabyte}, brief: volume{60, 200, 5 * megabyte}, growthMax: 340, run: slowBodies},
	{name: "slow-messages", full: volume{100, 1000, 16 * megabyte}, brief: volume{25, 200, 16 * megabyte}, growthMax: 340, run: slowMessages},
	{name: "half-handshakes", tls: true, full: volume{5000, 2000, 0}, brief: volume{1000, 1500, 0}, growthMax: 64, run: halfHandshakes},
	{name: "idle", full: volume{10_000, 4000, 0}, brief: volume{2000, 3000, 0}, growthMax: 128, run: idle},
	{name: "idle-tls", tls: true, full: volume{2000, 400, 0}, brief: volume{200, 200, 0}, growthMax: ordinaryMax, run: idleTLS},
	{name: "churn", full: volume{64, 2000, 0}, brief: volume{64, 1000, 0}, growthMax: ordinaryMax, run: churn},
	// Attacks on HTTP/2.
	{name: "rapid-reset", full: volume{8, 40_000, 0}, brief: volume{8, 20_000, 0}, growthMax: ordinaryMax, run: rapidReset},
	{name: "settings-flood", full: volume{8, 40_000, 0}, brief: volume{8, 20_000, 0}, growthMax: ordinaryMax, run: settingsFlood},
	{name: "ping-flood", full: volume{8, 40_000, 0}, brief: volume{8, 20_000, 0}, growthMax: ordinaryMax, run: pingFlood},
	{name: "ping-flood-tls", tls: true, full: volume{8, 40_000, 0}, brief: volume{8, 20_000, 0}, growthMax: ordinaryMax, run: pingFlood},
	{name: "empty-data", full: volume{8, 40_000, 0}, brief: volume{8, 20_000, 0}, growthMax: ordinaryMax, run: emptyData},
	{name: "continuation", full: volume{8, 40_000, 0}, brief: volume{8, 20_000, 0}, growthMax: ordinaryMax, run: continuation},
	{name: "header-bomb", full: volume{32, 400, 0}, brief: volume{16, 200, 0}, growthMax: 96, run: headerBomb},
	{name: "header-bomb-http1", full: volume{32, 400, 0}, brief: volume{16, 200, 0}, growthMax: 96, run: headerBombHTTP1},
	// Attacks with malformed requests.
	{name: "oversize-grpc", full: volume{16, 400, 4 * megabyte}, brief: volume{8, 100, 4 * megabyte}, growthMax: 96, run: oversizeGRPC},
	{name: "oversize-json", full: volume{8, 8, 100 * megabyte}, brief: volume{4, 4, 100 * megabyte}, growthMax: 128, run: oversizeJSON},
	{name: "deep-json", full: volume{8, 100, megabyte}, brief: volume{4, 50, megabyte}, growthMax: 64, run: deepJSON},
	{name: "bad-utf8", full: volume{8, 1000, 0}, brief: volume{4, 500, 0}, growthMax: ordinaryMax, run: badUTF8},
	{name: "gzip-bomb", full: volume{8, 40, 256 * megabyte}, brief: volume{4, 20, 64 * megabyte}, growthMax: 64, run: gzipBomb},
	{name: "websocket", full: volume{200, 400, 0}, brief: volume{100, 200, 0}, growthMax: 96, run: websockets},
	// Attacks that do not read responses.
	{name: "zero-window", keys: 64, keyBytes: 128 * kilobyte, full: volume{20, 400, 0}, brief: volume{8, 400, 0}, growthMax: 700, run: zeroWindow},
	{name: "waiting-requests", keys: 64, keyBytes: 128 * kilobyte, full: volume{4, 400, 200 * megabyte}, brief: volume{4, 400, 200 * megabyte}, growthMax: 4*67 + waitingMax + unreadSlack, lasts: 4 * time.Second, run: waitingRequests},
	{name: "unread-answers", keys: 400, keyBytes: 128 * kilobyte, full: volume{60, 400, 0}, brief: volume{40, 400, 0}, growthMax: unreadGrowth(53), lasts: unreadGrace + 3*time.Second, cutMin: 8, run: unreadAnswers},
	{name: "unread-lease-keys", keys: 400, keyBytes: 32 * kilobyte, leased: true, full: volume{100, 400, 0}, brief: volume{100, 400, 0}, growthMax: unreadGrowth(53), lasts: unreadGrace + 3*time.Second, cutMin: 8, run: unreadLeaseKeys},
	{name: "unread-streams", keys: 64, keyBytes: 128 * kilobyte, full: volume{60, 400, 0}, brief: volume{60, 400, 0}, growthMax: unreadGrowth(2), lasts: unreadGrace + 3*time.Second, cutMin: 4, run: unreadStreams},
	{name: "unread-writes", keys: 64, keyBytes: 128 * kilobyte, full: volume{40, 400, 0}, brief: volume{40, 400, 0}, growthMax: unreadGrowth(9) + unreadWritesMax, lasts: unreadGrace + 3*time.Second, cutMin: 4, run: unreadWrites},
	{name: "one-byte-window", keys: 64, keyBytes: 128 * kilobyte, full: volume{8, 8000, 0}, brief: volume{4, 4000, 0}, growthMax: 300, run: oneByteWindow},
	{name: "unread-pages", full: volume{100, 1000, 0}, brief: volume{50, 500, 0}, growthMax: 96, run: unreadPages},
	{name: "deaf-watcher", full: volume{100, 1000, 0}, brief: volume{50, 500, 0}, growthMax: 128, run: deafWatcher},
	// Attacks on a grpc-proxy.
	{name: "unread-from-proxy", on: proxy, keys: 400, keyBytes: 32 * kilobyte, leased: true, full: volume{100, 400, 0}, brief: volume{100, 400, 0}, growthMax: unreadGrowth(27), lasts: unreadGrace + 5*time.Second, cutMin: 1, run: unreadFromProxy},
}
