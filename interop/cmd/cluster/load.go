package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"bowline/interop/internal/cluster"
	"bowline/interop/internal/history"
)

const (
	// loadKeys is how many keys are fought over: few, so that clients meet, and many, so that an order is soon found.
	loadKeys = 8
	// clientsEach is how many ask each member.
	clientsEach = 2
	// loadPause is what a client waits between two requests. A history is for being checked, not for being long.
	loadPause = 15 * time.Millisecond
	// dialPatience is how long a client tries to connect before it tries again.
	dialPatience = time.Second
	// explains is how far from a failure its reason may be seen.
	explains = time.Second
)

// load is clients at work, and what they were told.
type load struct {
	group *group
	file  *history.File
	path  string
	// patience is how long a client waits for an answer.
	patience time.Duration
	// working and watching are as long as clients ask, and watchers listen.
	working, watching context.Context
	stop, unwatch     context.CancelFunc
	stopped, watched  sync.WaitGroup
	// leave has the clients of a member go.
	leave map[*cluster.Member]context.CancelFunc

	mu      sync.Mutex
	clients uint64
	failed  []failure
	terms   []termSeen
	absent  []absence
	retired map[*cluster.Member]bool
	tally   map[string]int
}

// absence is a time for which a member was taken out of service.
type absence struct {
	member      *cluster.Member
	from, until time.Time
}

// failure is a linearizable read that was not answered.
type failure struct {
	member       *cluster.Member
	begun, ended time.Time
	err          error
}

// termSeen is a moment at which some member was first seen in a term.
type termSeen struct {
	at   time.Time
	term uint64
}

// startLoad has clients at every member that runs, each speaking to one member only, and a watcher at each. They go on until
// the load is ended.
func (g *group) startLoad(ctx context.Context, patience time.Duration) (*load, error) {
	path := filepath.Join(g.dir, "history.jsonl")
	file, err := history.Create(path)
	if err != nil {
		return nil, err
	}
	l := &load{
		group: g, file: file, path: path, patience: patience,
		leave: map[*cluster.Member]context.CancelFunc{}, retired: map[*cluster.Member]bool{}, tally: map[string]int{},
	}
	l.working, l.stop = context.WithCancel(ctx)
	l.watching, l.unwatch = context.WithCancel(ctx)
	for _, m := range g.running() {
		if err := l.attend(m); err != nil {
			return nil, err
		}
	}
	observers := slices.Clone(g.running())
	l.stopped.Go(func() { l.observe(observers) })
	return l, nil
}

// attend has clients at a member.
func (l *load) attend(m *cluster.Member) error {
	asking, leave := context.WithCancel(l.working)
	watching, unwatch := context.WithCancel(l.watching)
	l.leave[m] = func() {
		leave()
		unwatch()
	}
	var errs []error
	for range clientsEach {
		errs = append(errs, l.client(asking, m))
	}
	return errors.Join(append(errs, l.watcher(watching, m))...)
}

// retire has the clients of a member go, and does something after which the member is no more.
func (l *load) retire(m *cluster.Member, do func() error) error {
	l.leave[m]()
	l.mu.Lock()
	l.retired[m] = true
	l.mu.Unlock()
	return l.without(m, do)
}

func (l *load) connect(m *cluster.Member) (*clientv3.Client, uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clients++
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   []string{m.Endpoint()},
		DialTimeout: dialPatience,
		// A connection on which nothing arrives is found dead soon.
		DialKeepAliveTime:    time.Second,
		DialKeepAliveTimeout: 2 * time.Second,
		Logger:               zap.NewNop(),
	})
	return client, l.clients, err
}

// client asks one thing after the other.
func (l *load) client(ctx context.Context, m *cluster.Member) error {
	client, number, err := l.connect(m)
	if err != nil {
		return err
	}
	l.stopped.Go(func() {
		defer client.Close()
		dice := rand.New(rand.NewPCG(number, 7))
		asker := &asker{load: l, client: client, number: number, member: m, dice: dice}
		for i := 0; ctx.Err() == nil; i++ {
			asker.ask(ctx, i)
			select {
			case <-ctx.Done():
			case <-time.After(loadPause):
			}
		}
	})
	return nil
}

// observe writes down when terms begin, since a change of leader explains some failures.
func (l *load) observe(members []*cluster.Member) {
	var highest uint64
	for l.working.Err() == nil {
		for _, m := range members {
			if l.gone(m) {
				continue
			}
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

// gone says whether a member is out of service, or is about to go.
func (l *load) gone(m *cluster.Member) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.retired[m]
}

// asker is a client and its random choices.
type asker struct {
	*load
	client *clientv3.Client
	number uint64
	member *cluster.Member
	dice   *rand.Rand
	// seen is the revision that last changed each key, as far as this client knows.
	seen [loadKeys]int64
}

func loadKey(i int) string { return fmt.Sprintf("k%d", i) }

// ask does one thing, and writes down what came of it.
func (a *asker) ask(ctx context.Context, i int) {
	key := a.dice.IntN(loadKeys)
	value := fmt.Sprintf("%d.%d", a.number, i)
	operation := &history.Operation{Client: a.number, Member: a.member.ID, Invoked: a.file.Now()}
	begun := time.Now()
	// What was asked when the load ended may still be answered.
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.patience)
	defer cancel()
	var revision int64
	var body history.Body
	var err error
	var kind string
	switch roll := a.dice.IntN(100); {
	case roll < 40:
		kind = "read"
		operation.Request.Range = &history.Range{Key: loadKey(key)}
		revision, body, err = a.read(asking, key)
	case roll < 45:
		kind = "read of all"
		operation.Request.Range = &history.Range{Key: "k", End: "l"}
		revision, body, err = a.readAll(asking)
	case roll < 75:
		kind = "put"
		operation.Request.Put = &history.Put{Key: loadKey(key), Value: value}
		revision, body, err = a.put(asking, key, value)
	case roll < 80:
		kind = "delete"
		operation.Request.Delete = &history.Delete{Key: loadKey(key)}
		revision, body, err = a.delete(asking, key)
	default:
		kind = "txn"
		operation.Request.Txn = &history.Txn{
			Compares: []history.Compare{{Key: loadKey(key), Is: "equal", To: history.Target{Mod: a.seen[key]}}},
			Then:     []history.Request{{Put: &history.Put{Key: loadKey(key), Value: value}}},
			Else:     []history.Request{{Range: &history.Range{Key: loadKey(key)}}},
		}
		revision, body, err = a.swap(asking, key, value)
	}
	if err == nil {
		operation.Outcome.Answered = &history.Answered{
			At: a.file.Now(), Response: history.Response{Revision: revision, Body: body},
		}
	} else {
		operation.Outcome.Unknown = &history.Unknown{Error: err.Error()}
	}
	a.file.Add(history.Record{Operation: operation})
	a.note(a.member, kind, begun, err)
}

func (a *asker) read(ctx context.Context, key int) (int64, history.Body, error) {
	got, err := a.client.Get(ctx, loadKey(key))
	if err != nil {
		return 0, history.Body{}, err
	}
	a.seen[key] = 0
	if len(got.Kvs) > 0 {
		a.seen[key] = got.Kvs[0].ModRevision
	}
	return got.Header.Revision, found(got), nil
}

func (a *asker) readAll(ctx context.Context) (int64, history.Body, error) {
	got, err := a.client.Get(ctx, "k", clientv3.WithRange("l"))
	if err != nil {
		return 0, history.Body{}, err
	}
	return got.Header.Revision, found(got), nil
}

func found(got *clientv3.GetResponse) history.Body {
	return history.Body{Range: &history.RangeBody{KVs: history.KVs(got.Kvs), Count: got.Count}}
}

func (a *asker) put(ctx context.Context, key int, value string) (int64, history.Body, error) {
	put, err := a.client.Put(ctx, loadKey(key), value)
	if err != nil {
		return 0, history.Body{}, err
	}
	a.seen[key] = put.Header.Revision
	return put.Header.Revision, history.Body{Put: &struct{}{}}, nil
}

func (a *asker) delete(ctx context.Context, key int) (int64, history.Body, error) {
	deleted, err := a.client.Delete(ctx, loadKey(key))
	if err != nil {
		return 0, history.Body{}, err
	}
	a.seen[key] = 0
	return deleted.Header.Revision, history.Body{Delete: &history.DeleteBody{Deleted: deleted.Deleted}}, nil
}

// swap puts a value if the key is as this client last saw it, and looks at it otherwise.
func (a *asker) swap(ctx context.Context, key int, value string) (int64, history.Body, error) {
	name := loadKey(key)
	done, err := a.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(name), "=", a.seen[key])).
		Then(clientv3.OpPut(name, value)).Else(clientv3.OpGet(name)).Commit()
	if err != nil {
		return 0, history.Body{}, err
	}
	var result history.Body
	if done.Succeeded {
		a.seen[key] = done.Header.Revision
		result.Put = &struct{}{}
	} else {
		result = found((*clientv3.GetResponse)(done.Responses[0].GetResponseRange()))
	}
	return done.Header.Revision, history.Body{
		Txn: &history.TxnBody{Succeeded: done.Succeeded, Results: []history.Body{result}},
	}, nil
}

func (l *load) note(m *cluster.Member, kind string, begun time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tally["asked"]++
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

// watcher is told of every change from the first on.
func (l *load) watcher(ctx context.Context, m *cluster.Member) error {
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
		for told := range client.Watch(ctx, "k", clientv3.WithRange("l"), clientv3.WithRev(1)) {
			if len(told.Events) == 0 {
				continue
			}
			var news history.News
			for _, event := range told.Events {
				news.Events = append(news.Events, history.Event{
					KV: history.Told(event.Kv), Delete: event.Type == clientv3.EventTypeDelete,
				})
			}
			watch.Responses = append(watch.Responses, history.WatchResponse{
				At: l.file.Now(), Revision: told.Header.Revision, News: news,
			})
		}
		l.file.Add(history.Record{Watch: watch})
	})
	return nil
}

// ---- the end ----

// end lets the clients finish, writes down what each member holds, and has the history checked.
func (l *load) end(ctx context.Context, checker string) error {
	l.stop()
	l.stopped.Wait()
	err := errors.Join(l.group.sound(ctx), l.finals(ctx))
	// What the last change was, every watcher has been told soon.
	time.Sleep(300 * time.Millisecond)
	l.unwatch()
	l.watched.Wait()
	if err := errors.Join(err, l.file.Close()); err != nil {
		return err
	}
	tell("%v; %d records to check", l, l.file.Records)
	return check(ctx, checker, l.path)
}

func (l *load) finals(ctx context.Context) error {
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
			return fmt.Errorf("what %s holds: %w", m.Name, err)
		}
	}
	return nil
}

// without does something for which a member goes out of service.
func (l *load) without(m *cluster.Member, do func() error) error {
	from := time.Now()
	err := do()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.absent = append(l.absent, absence{m, from, time.Now()})
	return err
}

// unexplained are the reads that failed though no term began meanwhile, or shortly before, and the member was there.
func (l *load) unexplained() []failure {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.failed), l.explained)
}

// allExplained is an error if some are not.
func (l *load) allExplained() error {
	failed := l.unexplained()
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("%d reads failed for no reason, the first at %s: %w", len(failed), failed[0].member.Name, failed[0].err)
}

func (l *load) explained(f failure) bool {
	from, until := f.begun.Add(-explains), f.ended.Add(explains)
	tell("a read through %s failed after %s: %v", f.member.Name, f.ended.Sub(f.begun), f.err)
	return slices.ContainsFunc(l.terms, func(t termSeen) bool {
		return t.at.After(from) && t.at.Before(until)
	}) || slices.ContainsFunc(l.absent, func(a absence) bool {
		return a.member == f.member && a.from.Before(until) && a.until.After(from)
	})
}

func (l *load) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	said := fmt.Sprintf("%d requests, %d answered", l.tally["asked"], l.tally["answered"])
	for _, kind := range []string{"read", "read of all", "put", "delete", "txn"} {
		if n := l.tally["failed "+kind]; n > 0 {
			said += fmt.Sprintf(", %d failed %s", n, kind)
		}
	}
	return said
}
