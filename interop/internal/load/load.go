// Package load has clients that send random requests to a server and record them as a history.
//
// Keys are few, so that clients conflict, and every put has a unique value, so that a checker knows
// which put a read has seen.
package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"bowline/interop/internal/history"
)

// Keys is the number of keys: k0, k1, ...
const Keys = 8

// seed is the second half of each client's seed; the first is its number.
const seed = 7

// Client sends one request after another and records each with its outcome.
type Client struct {
	// Number identifies the client in the history and seeds its choices.
	Number uint64
	// Member is the id of the contacted member.
	Member uint64
	Etcd   *clientv3.Client
	File   *history.File
	// Timeout bounds each request.
	Timeout time.Duration
	// Varied lets transactions compare every attribute and have several operations. Otherwise a
	// transaction puts a key if its mod revision is the last one seen.
	Varied bool

	dice *rand.Rand
	// seen has each key as this client last saw it; its value is known only after a read.
	seen [Keys]history.KV
	sent int
}

// Key returns the name of a key.
func Key(i int) string { return fmt.Sprintf("k%d", i) }

// Ask sends a random request and records it. It returns the kind of request and its error. A
// request in flight when ctx is canceled still waits for its response, up to the timeout.
func (c *Client) Ask(ctx context.Context) (kind string, err error) {
	if c.dice == nil {
		c.dice = rand.New(rand.NewPCG(c.Number, seed))
	}
	kind, key, request := c.choose()
	operation := &history.Operation{
		Client: c.Number, Member: c.Member, Invoked: c.File.Now(), Request: request,
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Timeout)
	defer cancel()
	response, err := send(ctx, c.Etcd, request)
	if err == nil {
		operation.Outcome.Answered = &history.Answered{At: c.File.Now(), Response: response}
		c.learn(key, request, response)
	} else {
		operation.Outcome.Unknown = &history.Unknown{Error: err.Error()}
	}
	c.File.Add(history.Record{Operation: operation})
	return kind, err
}

// choose returns a random request, its kind and its key.
func (c *Client) choose() (kind string, key int, request history.Request) {
	key = c.dice.IntN(Keys)
	value := fmt.Sprintf("%d.%d", c.Number, c.sent)
	c.sent++
	switch roll := c.dice.IntN(100); {
	case roll < 40:
		return "read", key, history.Request{Range: &history.Range{Key: Key(key)}}
	case roll < 45:
		return "read of all", -1, history.Request{Range: &history.Range{Key: "k", End: "l"}}
	case roll < 75:
		return "put", key, history.Request{Put: &history.Put{Key: Key(key), Value: value}}
	case roll < 80:
		return "delete", key, history.Request{Delete: &history.Delete{Key: Key(key)}}
	}
	mod := c.seen[key].Mod
	txn := &history.Txn{
		Compares: []history.Compare{{Key: Key(key), Is: "equal", To: history.Target{Mod: &mod}}},
		Then:     []history.Request{{Put: &history.Put{Key: Key(key), Value: value}}},
		Else:     []history.Request{{Range: &history.Range{Key: Key(key)}}},
	}
	if c.Varied {
		c.vary(txn, key, value)
	}
	return "txn", key, history.Request{Txn: txn}
}

// vary changes the compare of a transaction and adds operations on other keys.
func (c *Client) vary(txn *history.Txn, key int, value string) {
	seen := c.seen[key]
	compare := &txn.Compares[0]
	switch c.dice.IntN(4) {
	case 0:
		compare.To = history.Target{Value: &seen.Value}
	case 1:
		compare.To = history.Target{Version: &seen.Version}
	case 2:
		compare.To = history.Target{Create: &seen.Create}
	}
	compare.Is = []string{"equal", "equal", "not_equal", "greater", "less"}[c.dice.IntN(5)]
	other := Key((key + 1 + c.dice.IntN(Keys-1)) % Keys)
	switch c.dice.IntN(3) {
	case 0:
		txn.Then = append(txn.Then, history.Request{Put: &history.Put{Key: other, Value: value + ".other"}})
	case 1:
		txn.Then = append(txn.Then, history.Request{Delete: &history.Delete{Key: other}})
	case 2:
		txn.Then = append(txn.Then, history.Request{Range: &history.Range{Key: Key(key)}})
		txn.Else = append(txn.Else, history.Request{Put: &history.Put{Key: other, Value: value}})
	}
}

// learn remembers the state of a key after a response.
func (c *Client) learn(key int, request history.Request, response history.Response) {
	if key < 0 {
		return
	}
	body := response.Body
	if body.Txn != nil {
		if body.Txn.Succeeded {
			request = request.Txn.Then[0]
		} else {
			request = request.Txn.Else[0]
		}
		body = body.Txn.Results[0]
	}
	switch {
	case request.Put != nil:
		// The create revision and version are those of a new key, which is a good guess.
		c.seen[key] = history.KV{
			Value: request.Put.Value, Create: response.Revision, Mod: response.Revision, Version: 1,
		}
	case body.Range != nil && len(body.Range.KVs) > 0:
		c.seen[key] = body.Range.KVs[0]
	default:
		c.seen[key] = history.KV{}
	}
}
