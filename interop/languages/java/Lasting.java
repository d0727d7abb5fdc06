import io.etcd.jetcd.Client;
import io.etcd.jetcd.Election;
import io.etcd.jetcd.KV;
import io.etcd.jetcd.Lease;
import io.etcd.jetcd.Lock;
import io.etcd.jetcd.Watch;
import io.etcd.jetcd.common.exception.CompactedException;
import io.etcd.jetcd.election.LeaderKey;
import io.etcd.jetcd.election.LeaderResponse;
import io.etcd.jetcd.options.GetOption;
import io.etcd.jetcd.options.LeaseOption;
import io.etcd.jetcd.options.PutOption;
import io.etcd.jetcd.options.WatchOption;
import io.etcd.jetcd.support.CloseableClient;
import io.etcd.jetcd.support.Observers;
import io.etcd.jetcd.watch.WatchEvent;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Watches, leases, locks and elections. */
final class Lasting {
    private Lasting() {}

    /** Takes from a queue, or times out. */
    private static <T> T next(BlockingQueue<T> queue) throws Exception {
        T taken = queue.poll(Program.PATIENCE, TimeUnit.SECONDS);
        if (taken == null) {
            throw new IllegalStateException("timed out waiting for an event");
        }
        return taken;
    }

    private static String take(BlockingQueue<WatchEvent> events, int count) throws Exception {
        List<String> all = new ArrayList<>();
        while (all.size() < count) {
            WatchEvent event = next(events);
            String before = event.getPrevKV().getKey().isEmpty() ? "" : " was " + Program.text(event.getPrevKV().getValue());
            all.add(event.getEventType() + " " + Check.shown(event.getKeyValue()) + "@" + event.getKeyValue().getModRevision() + before);
        }
        return String.join(", ", all);
    }

    static void watches(Client client) throws Exception {
        KV kv = client.getKVClient();
        BlockingQueue<WatchEvent> events = new LinkedBlockingQueue<>();
        WatchOption option = WatchOption.builder().isPrefix(true).withRevision(2).withPrevKV(true).build();
        try (Watch.Watcher watcher = client.getWatchClient().watch(Program.bytes("r/"), option, got -> events.addAll(got.getEvents()))) {
            Program.step("watch from the past", take(events, 8));
            Program.got(kv.put(Program.bytes("r/w"), Program.bytes("before")));
            Program.step("watch", take(events, 1));
            Program.ask("restart");
            // The library retries idempotent requests until the server is back.
            Program.got(kv.get(Program.bytes("r/a")));
            Program.got(kv.put(Program.bytes("r/w"), Program.bytes("after")));
            Program.step("watch after a restart", take(events, 1));
        }
    }

    static void watchTheCompacted(Client client) throws Exception {
        CompletableFuture<Throwable> refused = new CompletableFuture<>();
        WatchOption option = WatchOption.builder().isPrefix(true).withRevision(2).build();
        try (Watch.Watcher watcher = client.getWatchClient().watch(Program.bytes("r/"), option, got -> { }, refused::complete)) {
            Throwable error = Program.got(refused);
            long revision = error instanceof CompactedException ? ((CompactedException) error).getCompactedRevision() : 0;
            Program.step("watch the compacted", error.getMessage() + ", compacted at " + revision);
        }
    }

    static void leases(Client client) throws Exception {
        KV kv = client.getKVClient();
        Lease leases = client.getLeaseClient();
        var key = Program.bytes("r/l");
        var granted = Program.got(leases.grant(6));
        long id = granted.getID();
        long revision = Program.got(kv.put(key, Program.bytes("leased"), PutOption.builder().withLeaseId(id).build())).getHeader().getRevision();
        var left = Program.got(leases.timeToLive(id, LeaseOption.builder().withAttachedKeys().build()));
        Program.step("lease", granted.getTTL() + " s, granted " + left.getGrantedTTL() + " s, keys " + left.getKeys());
        keepAlive(leases, id);
        Program.step("kept alive", Check.list(Program.got(kv.get(key))));
        BlockingQueue<WatchEvent> events = new LinkedBlockingQueue<>();
        WatchOption option = WatchOption.builder().withRevision(revision + 1).build();
        try (Watch.Watcher watcher = client.getWatchClient().watch(key, option, got -> events.addAll(got.getEvents()))) {
            Program.step("expired", take(events, 1));
        }
        Program.step("after that", Program.got(leases.timeToLive(id, LeaseOption.DEFAULT)).getTTL() + " s");
        long other = Program.got(leases.grant(100)).getID();
        Program.got(kv.put(key, Program.bytes("again"), PutOption.builder().withLeaseId(other).build()));
        Program.step("renewed once", Program.got(leases.keepAliveOnce(other)).getTTL() + " s");
        Program.got(leases.revoke(other));
        Program.step("revoked", Check.list(Program.got(kv.get(key))));
    }

    /** Keeps a lease of 6 s alive for 8 s with the library. */
    private static void keepAlive(Lease leases, long id) throws Exception {
        BlockingQueue<Long> renewals = new LinkedBlockingQueue<>();
        long begun = System.nanoTime();
        try (CloseableClient alive = leases.keepAlive(id, Observers.observer(got -> renewals.add(got.getTTL())))) {
            while (System.nanoTime() - begun < TimeUnit.SECONDS.toNanos(8)) {
                if (next(renewals) != 6) {
                    throw new IllegalStateException("renewed with a different TTL");
                }
            }
        }
    }

    static void locks(Client client) throws Exception {
        Lock locks = client.getLockClient();
        Lease leases = client.getLeaseClient();
        var name = Program.bytes("lock");
        long first = Program.got(leases.grant(20)).getID();
        long second = Program.got(leases.grant(20)).getID();
        var mine = Program.got(locks.lock(name, first)).getKey();
        Program.step("lock", "a key below lock/: " + Program.text(mine).startsWith("lock/"));
        var waiting = locks.lock(name, second);
        // A waiting rival has its own key.
        GetOption all = GetOption.builder().isPrefix(true).build();
        while (Program.got(client.getKVClient().get(Program.bytes("lock/"), all)).getCount() < 2) {
            Thread.sleep(20);
        }
        Program.step("rival waits", !waiting.isDone());
        Program.got(locks.unlock(mine));
        var theirs = Program.got(waiting).getKey();
        Program.step("rival, then", !theirs.equals(mine));
        Program.got(locks.unlock(theirs));
        Program.got(leases.revoke(first));
        Program.got(leases.revoke(second));
    }

    static void elections(Client client) throws Exception {
        Election elections = client.getElectionClient();
        var name = Program.bytes("election");
        long lease = Program.got(client.getLeaseClient().grant(20)).getID();
        LeaderKey leader = Program.got(elections.campaign(name, lease, Program.bytes("me"))).getLeader();
        Program.step("leader", value(Program.got(elections.leader(name))));
        BlockingQueue<String> observed = new LinkedBlockingQueue<>();
        elections.observe(name, new Election.Listener() {
            @Override
            public void onNext(LeaderResponse response) {
                observed.add(value(response));
            }

            @Override
            public void onError(Throwable error) {}

            @Override
            public void onCompleted() {}
        });
        Program.step("observed", next(observed));
        Program.got(elections.proclaim(leader, Program.bytes("still me")));
        Program.step("observed, later", next(observed));
        Program.got(elections.resign(leader));
        Program.failed("no leader", elections.leader(name));
        Program.got(client.getLeaseClient().revoke(lease));
    }

    private static String value(LeaderResponse response) {
        return Program.text(response.getKv().getValue());
    }
}
