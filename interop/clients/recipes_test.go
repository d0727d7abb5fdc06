package clients

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	recipe "go.etcd.io/etcd/client/v3/experimental/recipes"
)

func TestQueue(t *testing.T) {
	client := shared.client(t)
	queue := recipe.NewQueue(client, prefixOf(t))
	taken := make(chan string)
	go func() {
		for range 3 {
			value, err := queue.Dequeue()
			if err != nil {
				t.Error(err)
			}
			taken <- value
		}
	}()
	for _, value := range []string{"1", "2", "3"} {
		must(t, queue.Enqueue(value))
		equal(t, "taken", next(t, taken), value)
	}
}

func TestPriorityQueue(t *testing.T) {
	queue := recipe.NewPriorityQueue(shared.client(t), prefixOf(t))
	must(t, queue.Enqueue("late", 9))
	must(t, queue.Enqueue("soon", 1))
	must(t, queue.Enqueue("later", 9))
	for _, want := range []string{"soon", "late", "later"} {
		equal(t, "taken", got(queue.Dequeue())(t), want)
	}
}

func TestBarrier(t *testing.T) {
	client, late := shared.client(t), shared.client(t)
	barrier := recipe.NewBarrier(client, prefixOf(t))
	must(t, barrier.Hold())
	passed := wait(t, late, recipe.NewBarrier(late, prefixOf(t)).Wait)
	must(t, barrier.Release())
	passed.waitUntilReturned(t)
}

// TestDoubleBarrier checks that no client enters before all have arrived, and that none leaves
// before all are ready.
func TestDoubleBarrier(t *testing.T) {
	const workers = 4
	barriers, clients := make([]*recipe.DoubleBarrier, workers), make([]*clientv3.Client, workers)
	for i := range workers {
		clients[i] = shared.client(t)
		barriers[i] = recipe.NewDoubleBarrier(session(t, clients[i]), prefixOf(t), workers)
	}
	all := func(do func(*recipe.DoubleBarrier) error) {
		t.Helper()
		var waiting []*waiter
		for i, barrier := range barriers[1:] {
			waiting = append(waiting, wait(t, clients[i+1], func() error { return do(barrier) }))
		}
		for _, waiter := range waiting {
			waiter.isBlocked(t)
		}
		must(t, do(barriers[0]))
		for _, waiter := range waiting {
			waiter.waitUntilReturned(t)
		}
	}
	all((*recipe.DoubleBarrier).Enter)
	all((*recipe.DoubleBarrier).Leave)
}

// TestReadWriteMutex checks that a writer waits for each earlier reader, and a later reader for
// the writer.
func TestReadWriteMutex(t *testing.T) {
	var clients [4]*clientv3.Client
	var locks [4]*recipe.RWMutex
	for i := range locks {
		clients[i] = shared.client(t)
		locks[i] = recipe.NewRWMutex(session(t, clients[i], concurrency.WithTTL(60)), prefixOf(t))
	}
	must(t, locks[0].RLock())
	must(t, locks[1].RLock())
	written := wait(t, clients[2], locks[2].Lock)
	read := wait(t, clients[3], locks[3].RLock)
	must(t, locks[1].RUnlock())
	written.blocksAgain(t)
	must(t, locks[0].RUnlock())
	written.waitUntilReturned(t)
	read.isBlocked(t)
	must(t, locks[2].Unlock())
	read.waitUntilReturned(t)
	must(t, locks[3].RUnlock())
}
