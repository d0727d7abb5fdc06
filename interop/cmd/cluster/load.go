package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"bowline/interop/internal/cluster"
	"bowline/interop/internal/history"
	"bowline/interop/internal/load"
)

const (
	// clientsEach is the number of clients per member.
	clientsEach = 2
	// loadPause is the time between two requests of a client. It keeps histories short enough to
	// check.
	loadPause = 15 * time.Millisecond
	// dialTimeout bounds each attempt to connect.
	dialTimeout = time.Second
	// explains is the largest time between a failure and an event that explains it.
	explains = time.Second
)

// clientLoad is a set of clients and watchers with the history that they record.
type clientLoad struct {
	group *group
	file  *history.File
	path  string
	// requestTimeout bounds each request.
	requestTimeout time.Duration
	// working and watching end the clients and the watchers when canceled.
	working, watching context.Context
	stop, unwatch     context.CancelFunc
	stopped, watched  sync.WaitGroup
	// cancelClients stops the clients of a member.
	cancelClients map[*cluster.Member]context.CancelFunc

	mu      sync.Mutex
	clients uint64
	// observed are the members that have or had clients.
	observed []*cluster.Member
	failed   []failure
	terms    []termSeen
	absent   []absence
	retired  map[*cluster.Member]bool
	tally    map[string]int
}

// absence is a time during which a member was deliberately out of service.
type absence struct {
	member      *cluster.Member
	from, until time.Time
}

// failure is a linearizable read without a response.
type failure struct {
	member       *cluster.Member
	begun, ended time.Time
	err          error
}

// termSeen is the time at which a term was first observed.
type termSeen struct {
	at   time.Time
	term uint64
}

// startLoad starts clients and a watcher for each running member. Each talks to one member only,
// until the load ends.
func (g *group) startLoad(ctx context.Context, requestTimeout time.Duration) (*clientLoad, error) {
	path := filepath.Join(g.dir, "history.jsonl")
	file, err := history.Create(path)
	if err != nil {
		return nil, err
	}
	l := &clientLoad{
		group: g, file: file, path: path, requestTimeout: requestTimeout,
		cancelClients: map[*cluster.Member]context.CancelFunc{}, retired: map[*cluster.Member]bool{}, tally: map[string]int{},
	}
	l.working, l.stop = context.WithCancel(ctx)
	l.watching, l.unwatch = context.WithCancel(ctx)
	for _, m := range g.running() {
		if err := l.startClients(m); err != nil {
			return nil, err
		}
	}
	l.stopped.Go(l.observe)
	return l, nil
}

// startClients starts the clients and the watcher of a member.
func (l *clientLoad) startClients(m *cluster.Member) error {
	l.mu.Lock()
	l.observed = append(l.observed, m)
	l.mu.Unlock()
	requests, cancelClients := context.WithCancel(l.working)
	watching, unwatch := context.WithCancel(l.watching)
	l.cancelClients[m] = func() {
		cancelClients()
		unwatch()
	}
	var errs []error
	for range clientsEach {
		errs = append(errs, l.client(requests, m))
	}
	return errors.Join(append(errs, l.watcher(watching, m))...)
}

// retire stops the clients of a member and runs do, which removes the member.
func (l *clientLoad) retire(m *cluster.Member, do func() error) error {
	l.cancelClients[m]()
	l.mu.Lock()
	l.retired[m] = true
	l.mu.Unlock()
	return l.without(m, do)
}

func (l *clientLoad) connect(m *cluster.Member) (*clientv3.Client, uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clients++
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   []string{m.Endpoint()},
		DialTimeout: dialTimeout,
		// Detects a dead connection within 3 s.
		DialKeepAliveTime:    time.Second,
		DialKeepAliveTimeout: 2 * time.Second,
		Logger:               zap.NewNop(),
	})
	return client, l.clients, err
}

// client starts a client that sends one request after another.
func (l *clientLoad) client(ctx context.Context, m *cluster.Member) error {
	client, number, err := l.connect(m)
	if err != nil {
		return err
	}
	l.stopped.Go(func() {
		defer client.Close()
		asker := &load.Client{
			Number: number, Member: m.ID, Etcd: client, File: l.file, Timeout: l.requestTimeout,
		}
		for ctx.Err() == nil {
			begun := time.Now()
			kind, err := asker.Ask(ctx)
			l.note(m, kind, begun, err)
			select {
			case <-ctx.Done():
			case <-time.After(loadPause):
			}
		}
	})
	return nil
}

// observe records when terms begin, since a leader change explains failed reads.
func (l *clientLoad) observe() {
	var highest uint64
	for l.working.Err() == nil {
		for _, m := range l.observable() {
			s, err := status(l.working, m)
			if err == nil && s.RaftTerm > highest {
				highest = s.RaftTerm
				l.mu.Lock()
				l.terms = append(l.terms, termSeen{time.Now(), highest})
				l.mu.Unlock()
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// observable returns the members with clients, without those that are being removed.
func (l *clientLoad) observable() []*cluster.Member {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.observed), func(m *cluster.Member) bool { return l.retired[m] })
}

func (l *clientLoad) note(m *cluster.Member, kind string, begun time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tally["requests"]++
	if err == nil {
		l.tally["answered"]++
		return
	}
	l.tally["failed "+kind]++
	if strings.HasPrefix(kind, "read") {
		l.failed = append(l.failed, failure{m, begun, time.Now(), err})
	}
}

// ---- watchers ----

// watcher starts a watch of all keys from the first revision on.
func (l *clientLoad) watcher(ctx context.Context, m *cluster.Member) error {
	client, number, err := l.connect(m)
	if err != nil {
		return err
	}
	l.watched.Go(func() {
		defer client.Close()
		watch := &history.Watch{
			Client: number, Member: m.ID, Request: history.WatchRequest{Key: "k", End: "l", Start: 1},
			Responses: []history.WatchResponse{},
		}
		for response := range client.Watch(ctx, "k", clientv3.WithRange("l"), clientv3.WithRev(1)) {
			if len(response.Events) == 0 {
				continue
			}
			var news history.News
			for _, event := range response.Events {
				news.Events = append(news.Events, history.Event{
					KV: history.FromKeyValue(event.Kv), Delete: event.Type == clientv3.EventTypeDelete,
				})
			}
			watch.Responses = append(watch.Responses, history.WatchResponse{
				At: l.file.Now(), Revision: response.Header.Revision, News: news,
			})
		}
		l.file.Add(history.Record{Watch: watch})
	})
	return nil
}

// ---- end of the load ----

// end stops the clients, records the final state of each member, and checks the history.
func (l *clientLoad) end(ctx context.Context, checker string) error {
	l.stop()
	l.stopped.Wait()
	err := errors.Join(l.group.checkIdle(ctx), l.finals(ctx))
	// Every watcher gets the last event within this time.
	time.Sleep(300 * time.Millisecond)
	l.unwatch()
	l.watched.Wait()
	if err := errors.Join(err, l.file.Close()); err != nil {
		return err
	}
	logStep("%v; %d records to check", l, l.file.Records)
	return check(ctx, checker, l.path)
}

func (l *clientLoad) finals(ctx context.Context) error {
	for _, m := range l.group.running() {
		err := m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
			got, err := client.Get(ctx, "", clientv3.WithPrefix(), clientv3.WithSerializable())
			if err != nil {
				return err
			}
			l.file.Add(history.Record{Final: &history.Final{
				Member: m.ID, At: l.file.Now(), Revision: got.Header.Revision, KVs: history.KVs(got.Kvs),
			}})
			return nil
		})
		if err != nil {
			return fmt.Errorf("final state of %s: %w", m.Name, err)
		}
	}
	return nil
}

// without runs do, during which the member may be out of service.
func (l *clientLoad) without(m *cluster.Member, do func() error) error {
	from := time.Now()
	err := do()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.absent = append(l.absent, absence{m, from, time.Now()})
	return err
}

// unexplained returns the failed reads without a leader change or an absence of the member nearby.
func (l *clientLoad) unexplained() []failure {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.failed), l.explained)
}

// allExplained returns an error if a failed read is unexplained.
func (l *clientLoad) allExplained() error {
	failed := l.unexplained()
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("%d reads failed without a leader change or an absent member, the first at %s: %w", len(failed), failed[0].member.Name, failed[0].err)
}

func (l *clientLoad) explained(f failure) bool {
	from, until := f.begun.Add(-explains), f.ended.Add(explains)
	logStep("a read through %s failed after %s: %v", f.member.Name, f.ended.Sub(f.begun), f.err)
	return slices.ContainsFunc(l.terms, func(t termSeen) bool {
		return t.at.After(from) && t.at.Before(until)
	}) || slices.ContainsFunc(l.absent, func(a absence) bool {
		return a.member == f.member && a.from.Before(until) && a.until.After(from)
	})
}

func (l *clientLoad) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	summary := fmt.Sprintf("%d requests, %d answered", l.tally["requests"], l.tally["answered"])
	for _, kind := range []string{"read", "read of all", "put", "delete", "txn"} {
		if n := l.tally["failed "+kind]; n > 0 {
			summary += fmt.Sprintf(", %d failed %s", n, kind)
		}
	}
	return summary
}
