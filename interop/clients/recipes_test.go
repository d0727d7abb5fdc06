package clients

import (
	"sync/atomic"
	"testing"

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
	client := shared.client(t)
	barrier := recipe.NewBarrier(client, prefixOf(t))
	must(t, barrier.Hold())
	passed := make(chan error)
	go func() { passed <- recipe.NewBarrier(client, prefixOf(t)).Wait() }()
	must(t, barrier.Release())
	must(t, next(t, passed))
}

func TestDoubleBarrier(t *testing.T) {
	const workers = 4
	client := shared.client(t)
	var inside atomic.Int32
	done := make(chan error)
	for range workers {
		s := session(t, client)
		go func() {
			barrier := recipe.NewDoubleBarrier(s, prefixOf(t), workers)
			if err := barrier.Enter(); err != nil {
				done <- err
				return
			}
			inside.Add(1)
			done <- barrier.Leave()
		}()
	}
	for range workers {
		must(t, next(t, done))
	}
	equal(t, "inside", inside.Load(), workers)
}

func TestReadersAndAWriter(t *testing.T) {
	client := shared.client(t)
	locks := make([]*recipe.RWMutex, 3)
	for i := range locks {
		locks[i] = recipe.NewRWMutex(session(t, client, concurrency.WithTTL(60)), prefixOf(t))
	}
	must(t, locks[0].RLock())
	must(t, locks[1].RLock())
	written := make(chan error)
	go func() { written <- locks[2].Lock() }()
	must(t, locks[0].RUnlock())
	select {
	case <-written:
		t.Fatal("a writer beside a reader")
	default:
	}
	must(t, locks[1].RUnlock())
	must(t, next(t, written))
	must(t, locks[2].Unlock())
}
