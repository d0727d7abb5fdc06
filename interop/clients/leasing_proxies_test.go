package clients

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"bowline/interop/internal/cluster"
	"bowline/interop/internal/ports"
)

// Two grpc-proxies with one --experimental-leasing-prefix are in front of one server: etcd's proxy
// and that of the program under test. Each owns keys, which the other must ask for:
//
//	client ─► etcd's proxy ──────┐
//	client ─► proxy of -server ──┼─► etcd, or -server
//	client ──────────────────────┘
//
// With etcd as -server both proxies are etcd's, which validates the tests.

const (
	leasingPrefix = "leasing/"
	// leasingTTL is the TTL of a proxy's lease, in seconds: an owner that was killed blocks writers
	// of its keys for as long.
	leasingTTL = 60
	// handover bounds a write of a key that the other proxy owns. Far less than leasingTTL: the owner
	// has to release the key, not to lose its lease.
	handover = 15 * time.Second
)

// proxies are two leasing proxies and their server.
type proxies struct {
	// names and kvs of etcd's proxy, the tested proxy, and the server itself.
	names [3]string
	kvs   [3]*clientv3.Client
	pairs [2]*leasingProxy
	// leases of the two proxies, to which their leasing keys are attached.
	leases [2]clientv3.LeaseID
	// control is set if both proxies are etcd's.
	control bool
}

// leasingProxy is a process.
type leasingProxy struct {
	address string
	log     string
	process *exec.Cmd
	exited  chan struct{}
}

// eachServer runs a test with etcd as the server and, if that is another program, with the tested
// one.
func eachServer(t *testing.T, test func(*testing.T, *proxies)) {
	t.Helper()
	etcd := etcdBinary(t)
	servers := map[string]*cluster.Binary{"etcd": etcd}
	if !sameFile(t, etcd.Path, binary.Path) {
		servers["ours"] = binary
	}
	for name, server := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, startProxies(t, etcd, server))
		})
	}
}

// etcdBinary finds the reference server: beside the built tests, or in the bin directory above.
func etcdBinary(t *testing.T) *cluster.Binary {
	t.Helper()
	for _, path := range []string{"bin/etcd", "../bin/etcd"} {
		if _, err := os.Stat(path); err == nil {
			return got(cluster.Find(path))(t)
		}
	}
	t.Fatal("bin/etcd is missing: run interop/run etcd")
	return nil
}

func sameFile(t *testing.T, one, other string) bool {
	t.Helper()
	return os.SameFile(got(os.Stat(one))(t), got(os.Stat(other))(t))
}

func startProxies(t *testing.T, etcd, serverBinary *cluster.Binary) *proxies {
	t.Helper()
	dir := t.TempDir()
	c := got(cluster.New(serverBinary, dir, 1))(t)
	t.Cleanup(c.Close)
	// Many small writes, of which none has to survive.
	must(t, c.Start(within(t), "--unsafe-no-fsync", "--snapshot-count=100000"))
	p := &proxies{names: [3]string{"etcd's proxy", "the tested proxy", "the server"}, control: sameFile(t, etcd.Path, binary.Path)}
	for n, program := range []*cluster.Binary{etcd, binary} {
		p.pairs[n] = startLeasingProxy(t, program, c.Members[0].Endpoint(), filepath.Join(dir, fmt.Sprintf("proxy%d", n)))
	}
	for n, address := range []string{p.pairs[0].address, p.pairs[1].address, c.Members[0].Endpoint()} {
		p.kvs[n] = connect(t, clientv3.Config{Endpoints: []string{address}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	}
	for n := range p.pairs {
		p.leases[n] = p.owned(t, n, firstKey(n))
	}
	return p
}

// firstKey returns the key that a proxy owns from the beginning.
func firstKey(proxy int) string { return fmt.Sprintf("first/%d", proxy) }

func startLeasingProxy(t *testing.T, program *cluster.Binary, endpoint, dir string) *leasingProxy {
	t.Helper()
	p := &leasingProxy{address: got(ports.Free())(t), log: dir + ".log", exited: make(chan struct{})}
	log := got(os.Create(p.log))(t)
	defer log.Close()
	p.process = exec.Command(program.Path, "grpc-proxy", "start",
		"--endpoints="+endpoint, "--listen-addr="+p.address, "--advertise-client-url="+p.address,
		"--data-dir="+dir, "--experimental-leasing-prefix="+leasingPrefix)
	p.process.Stdout, p.process.Stderr = log, log
	// A proxy must not outlive the tests.
	p.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, p.process.Start())
	go func() {
		p.process.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.kill(t)
		if t.Failed() {
			text, _ := os.ReadFile(p.log)
			t.Logf("the log of %s ends with:\n%s", filepath.Base(program.Path), text[max(0, len(text)-2000):])
		}
	})
	must(t, cluster.Until(within(t), "the proxy to listen", func(context.Context) error {
		conn, err := net.Dial("tcp", p.address)
		if err != nil {
			return err
		}
		return conn.Close()
	}))
	return p
}

// kill sends SIGKILL and waits for the exit.
func (p *leasingProxy) kill(t *testing.T) {
	t.Helper()
	p.process.Process.Kill()
	ends(t, p.exited)
}

// owns has a proxy own a key.
func (p *proxies) owns(t *testing.T, proxy int, key string) {
	t.Helper()
	equal(t, "owner of "+key, p.owned(t, proxy, key), p.leases[proxy])
}

// owned reads a key through a proxy until it has an owner, and returns the owner's lease. A proxy
// does not take a key that it had to release shortly before, and none before its session begins.
func (p *proxies) owned(t *testing.T, proxy int, key string) (owner clientv3.LeaseID) {
	t.Helper()
	err := cluster.Until(within(t), p.names[proxy]+" to own "+key, func(ctx context.Context) error {
		if _, err := p.kvs[proxy].Get(ctx, key); err != nil {
			return err
		}
		var err error
		if owner, err = p.owner(ctx, key); err == nil && owner == 0 {
			err = errors.New("it has no owner")
		}
		return err
	})
	must(t, err)
	return owner
}

// owner returns the lease of the owner of a key, or zero.
func (p *proxies) owner(ctx context.Context, key string) (clientv3.LeaseID, error) {
	found, err := p.kvs[2].Get(ctx, leasingPrefix+key)
	if err != nil || len(found.Kvs) == 0 {
		return 0, err
	}
	return clientv3.LeaseID(found.Kvs[0].Lease), nil
}

// isOurs reports whether a proxy is of a program other than etcd.
func (p *proxies) isOurs(proxy int) bool { return proxy == 1 && !p.control }

// reads expects a value, or no key if it is empty, through both proxies and directly.
func (p *proxies) reads(t *testing.T, key, want string) {
	t.Helper()
	for n, kv := range p.kvs {
		found, have := got(kv.Get(within(t), key))(t), ""
		if len(found.Kvs) > 0 {
			have = string(found.Kvs[0].Value)
		}
		equal(t, key+" through "+p.names[n], have, want)
		// etcd's proxy still counts a key of its own that was deleted.
		if p.isOurs(n) {
			equal(t, "count of "+key, found.Count > 0, want != "")
		}
	}
}

// leasingWrites are the ways to write a key that exists, each with the value afterwards; empty if
// it is deleted. They return the number of deleted keys that the response has.
var leasingWrites = []struct {
	name, leaves string
	deletes      int64
	write        func(ctx context.Context, kv clientv3.KV, key string) (int64, error)
}{
	{"put", "put", 0, func(ctx context.Context, kv clientv3.KV, key string) (int64, error) {
		_, err := kv.Put(ctx, key, "put")
		return 0, err
	}},
	{"txn", "txn", 0, func(ctx context.Context, kv clientv3.KV, key string) (int64, error) {
		done, err := kv.Txn(ctx).If(clientv3.Compare(clientv3.Value(key), "=", "before")).
			Then(clientv3.OpPut(key, "txn"), clientv3.OpPut(key+"/also", "txn")).
			Else(clientv3.OpPut(key, "the comparison failed")).Commit()
		if err == nil && !done.Succeeded {
			err = errors.New("the comparison failed")
		}
		return 0, err
	}},
	{"else", "else", 0, func(ctx context.Context, kv clientv3.KV, key string) (int64, error) {
		_, err := kv.Txn(ctx).If(clientv3.Compare(clientv3.Value(key), "=", "never")).
			Then(clientv3.OpDelete(key)).Else(clientv3.OpPut(key, "else")).Commit()
		return 0, err
	}},
	{"delete", "", 1, func(ctx context.Context, kv clientv3.KV, key string) (int64, error) {
		done, err := kv.Delete(ctx, key)
		if err != nil {
			return 0, err
		}
		return done.Deleted, nil
	}},
	{"delete in txn", "", 0, func(ctx context.Context, kv clientv3.KV, key string) (int64, error) {
		_, err := kv.Txn(ctx).Then(clientv3.OpDelete(key)).Commit()
		return 0, err
	}},
	{"delete range", "", 1, func(ctx context.Context, kv clientv3.KV, key string) (int64, error) {
		done, err := kv.Delete(ctx, key, clientv3.WithPrefix())
		if err != nil {
			return 0, err
		}
		return done.Deleted, nil
	}},
}

// TestLeasingProxiesPassKeysToEachOther writes keys that the other proxy owns, in every way and in
// both directions, and keys that the writing proxy owns itself.
func TestLeasingProxiesPassKeysToEachOther(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, p *proxies) {
		for owner := range p.pairs {
			for writer := range p.pairs {
				for _, one := range leasingWrites {
					key := fmt.Sprintf("%d/%d/%s", owner, writer, one.name)
					got(p.kvs[2].Put(within(t), key, "before"))(t)
					p.owns(t, owner, key)
					ctx, cancel := context.WithTimeout(t.Context(), handover)
					deleted, err := one.write(ctx, p.kvs[writer], key)
					cancel()
					if err != nil {
						t.Errorf("%s through %s of a key of %s: %v", one.name, p.names[writer], p.names[owner], err)
					}
					// etcd's proxy sends a write of a key that it does not own twice.
					if p.isOurs(writer) {
						equal(t, "deleted by "+key, deleted, one.deletes)
					}
					if now := got(p.owner(within(t), key))(t); owner != writer && now == p.leases[owner] {
						t.Errorf("%s: %s still owns it", key, p.names[owner])
					}
					p.reads(t, key, one.leaves)
				}
			}
		}
	})
}

// TestLeasingProxiesTakeTurns writes one key through both proxies alternately.
func TestLeasingProxiesTakeTurns(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, p *proxies) {
		for n := range 40 {
			value := fmt.Sprint(n)
			ctx, cancel := context.WithTimeout(t.Context(), handover)
			_, err := p.kvs[n%2].Put(ctx, "turns", value)
			cancel()
			if err != nil {
				t.Fatalf("put %d through %s: %v", n, p.names[n%2], err)
			}
			p.reads(t, "turns", value)
		}
	})
}

// TestLeasingProxiesAreLinearizable writes increasing values of a few keys through both proxies,
// and reads them through both and directly. A read returns what was written before it began, or
// later.
func TestLeasingProxiesAreLinearizable(t *testing.T) {
	t.Parallel()
	const keys, steps = 3, 150
	eachServer(t, func(t *testing.T, p *proxies) {
		ctx := within(t)
		var clients sync.WaitGroup
		for key := range keys {
			register := &register{key: fmt.Sprintf("register/%d", key), absent: true}
			// One client of a proxy at a time uses a key: concurrent reads through etcd's proxy may
			// acquire it twice, after which that proxy does not release it.
			for n, kv := range p.kvs {
				clients.Go(func() {
					for step := range steps {
						if err := register.step(ctx, kv, n < len(p.pairs)); err != nil {
							t.Errorf("step %d of %s through %s: %v", step, register.key, p.names[n], err)
							return
						}
					}
				})
			}
		}
		clients.Wait()
	})
}

// register is a key with increasing numbers as values.
type register struct {
	key string
	mu  sync.Mutex
	// last is the number of the last write that began, and acknowledged the greatest revision of a
	// write or read that has returned.
	last         int
	acknowledged int64
	// absent is set until the first put is acknowledged, and from the beginning of a deletion to the
	// next acknowledged put. deletions counts those that began.
	absent    bool
	deletions int
	// writing serializes writes, so that a greater revision has a greater number.
	writing sync.Mutex
}

// step reads the key or, at random and if it may, writes it.
func (r *register) step(ctx context.Context, kv clientv3.KV, writes bool) error {
	switch choice := rand.IntN(10); {
	case !writes || choice < 6:
		return r.read(ctx, kv)
	case choice < 8:
		return r.write(func(value string) (int64, error) {
			done, err := kv.Put(ctx, r.key, value)
			if err != nil {
				return 0, err
			}
			return done.Header.Revision, nil
		})
	case choice < 9:
		return r.write(func(value string) (int64, error) {
			done, err := kv.Txn(ctx).Then(clientv3.OpPut(r.key, value), clientv3.OpGet(r.key)).Commit()
			if err != nil {
				return 0, err
			}
			return done.Header.Revision, nil
		})
	default:
		return r.write(func(value string) (int64, error) {
			r.mu.Lock()
			r.absent, r.deletions = true, r.deletions+1
			r.mu.Unlock()
			if _, err := kv.Delete(ctx, r.key); err != nil {
				return 0, err
			}
			done, err := kv.Put(ctx, r.key, value)
			if err != nil {
				return 0, err
			}
			return done.Header.Revision, nil
		})
	}
}

func (r *register) write(put func(value string) (int64, error)) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.mu.Lock()
	r.last++
	value := strconv.Itoa(r.last)
	r.mu.Unlock()
	revision, err := put(value)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.absent = false
	r.mu.Unlock()
	r.acknowledge(revision)
	return nil
}

func (r *register) acknowledge(revision int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acknowledged = max(r.acknowledged, revision)
}

func (r *register) read(ctx context.Context, kv clientv3.KV) error {
	r.mu.Lock()
	oldest, absent, deletions := r.acknowledged, r.absent, r.deletions
	r.mu.Unlock()
	found, err := kv.Get(ctx, r.key)
	if err != nil {
		return err
	}
	r.mu.Lock()
	newest := r.last
	absent = absent || r.deletions > deletions
	r.mu.Unlock()
	if len(found.Kvs) == 0 {
		if !absent {
			return fmt.Errorf("read no key after revision %d was acknowledged", oldest)
		}
		return nil
	}
	revision := found.Kvs[0].ModRevision
	if revision < oldest {
		return fmt.Errorf("read revision %d after %d was acknowledged", revision, oldest)
	}
	if number, err := strconv.Atoi(string(found.Kvs[0].Value)); err != nil || number > newest {
		return fmt.Errorf("read %q, of which %d were written", found.Kvs[0].Value, newest)
	}
	r.acknowledge(revision)
	return nil
}

// TestAKilledLeasingProxyLosesItsKeys kills each proxy. Writes of its keys wait until its lease
// ends: here it is revoked, which takes the leasing keys with it.
func TestAKilledLeasingProxyLosesItsKeys(t *testing.T) {
	t.Parallel()
	for killed, name := range []string{"etcd's", "tested"} {
		t.Run(name, func(t *testing.T) {
			eachServer(t, func(t *testing.T, p *proxies) { p.killOwner(t, killed, 1-killed) })
		})
	}
}

func (p *proxies) killOwner(t *testing.T, killed, other int) {
	t.Helper()
	keys := []string{"put", "deleted", "read"}
	for _, key := range keys {
		got(p.kvs[2].Put(within(t), key, "before"))(t)
		p.owns(t, killed, key)
	}
	lease := p.leases[killed]
	left := got(p.kvs[2].TimeToLive(within(t), lease, clientv3.WithAttachedKeys()))(t)
	equal(t, "TTL", left.GrantedTTL, leasingTTL)
	// The first key, and these.
	equal(t, "keys of the lease", len(left.Keys), 1+len(keys))

	p.pairs[killed].kill(t)
	equal(t, "read meanwhile", value(t, p.kvs[other], "read"), "before")
	ctx, written := within(t), make(chan error, 2)
	go func() {
		_, err := p.kvs[other].Put(ctx, "put", "after")
		written <- err
	}()
	go func() {
		_, err := p.kvs[other].Delete(ctx, "deleted")
		written <- err
	}()
	// Both writes have asked the dead owner.
	must(t, cluster.Until(within(t), "the writes to ask for the keys", func(ctx context.Context) error {
		for _, key := range []string{"put", "deleted"} {
			found, err := p.kvs[2].Get(ctx, leasingPrefix+key)
			if err != nil {
				return err
			}
			if len(found.Kvs) != 1 || string(found.Kvs[0].Value) != "REVOKE" {
				return fmt.Errorf("the leasing key of %s is %v", key, found.Kvs)
			}
		}
		return nil
	}))
	select {
	case err := <-written:
		t.Fatalf("a key was written that another proxy owned: %v", err)
	default:
	}
	equal(t, "before the lease ends", value(t, p.kvs[2], "put"), "before")
	got(p.kvs[2].Revoke(within(t), lease))(t)
	for range 2 {
		must(t, next(t, written))
	}
	p.kvs[killed] = p.kvs[2]
	p.reads(t, "put", "after")
	p.reads(t, "deleted", "")
	p.owns(t, other, "read")
}
