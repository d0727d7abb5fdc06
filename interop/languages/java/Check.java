import static java.util.stream.Collectors.joining;

import io.etcd.jetcd.Client;
import io.etcd.jetcd.ClientBuilder;
import io.etcd.jetcd.KV;
import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.kv.GetResponse;
import io.etcd.jetcd.kv.TxnResponse;
import io.etcd.jetcd.op.Cmp;
import io.etcd.jetcd.op.CmpTarget;
import io.etcd.jetcd.op.Op;
import io.etcd.jetcd.options.DeleteOption;
import io.etcd.jetcd.options.GetOption;
import io.etcd.jetcd.options.PutOption;
import java.io.File;
import java.io.FileOutputStream;
import java.time.Duration;

/**
 * Maven's jetcd, over gRPC.
 *
 * The library resumes watches and renews tokens; locks and elections are the server's.
 */
public final class Check {
    private Check() {}

    public static void main(String[] args) {
        try (Client client = connect(Program.said("USERNAME"), Program.said("PASSWORD"))) {
            keys(client.getKVClient());
            transactions(client.getKVClient());
            if (Program.said("BRIEF").isEmpty()) {
                Lasting.watches(client);
                Lasting.leases(client);
                Lasting.locks(client);
                Lasting.elections(client);
                failures(client);
            }
            if (!Program.said("USERNAME").isEmpty()) {
                if (Program.said("BRIEF").isEmpty()) {
                    Users.users(client);
                }
                Users.strangers();
                Users.tokens(client);
            }
            snapshot(client);
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);
        }
        // The library's threads would keep the process alive.
        System.exit(0);
    }

    /** Connects to the server, as the given user if there is one. */
    static Client connect(String user, String password) throws Exception {
        boolean tls = !Program.said("CACERT").isEmpty();
        ClientBuilder builder = Client.builder()
            .endpoints((tls ? "https://" : "http://") + Program.said("ENDPOINT"))
            .retryDelay(100)
            .retryMaxDelay(500)
            .retryMaxDuration(Duration.ofSeconds(Program.PATIENCE));
        if (!user.isEmpty()) {
            builder.user(Program.bytes(user)).password(Program.bytes(password));
        }
        if (tls) {
            builder.sslContext(context -> context
                .trustManager(new File(Program.said("CACERT")))
                .keyManager(new File(Program.said("CERT")), new File(Program.said("KEY"))));
        }
        return builder.build();
    }

    static String shown(KeyValue kv) {
        return Program.text(kv.getKey()) + "=" + Program.text(kv.getValue());
    }

    static String list(GetResponse response) {
        String all = response.getKvs().stream().map(Check::shown).collect(joining(" "));
        return all + "; more " + response.isMore() + ", of " + response.getCount();
    }

    private static void put(KV client, String key, String value) throws Exception {
        Program.got(client.put(Program.bytes(key), Program.bytes(value)));
    }

    private static GetResponse get(KV client, String key, GetOption option) throws Exception {
        return Program.got(client.get(Program.bytes(key), option));
    }

    private static void keys(KV client) throws Exception {
        var first = Program.got(client.put(Program.bytes("r/a"), Program.bytes("planted-true")));
        Program.step("put", "revision " + first.getHeader().getRevision());
        KeyValue kv = get(client, "r/a", GetOption.DEFAULT).getKvs().get(0);
        Program.step("get", shown(kv) + ", version " + kv.getVersion() + ", created at " + kv.getCreateRevision()
            + ", modified at " + kv.getModRevision());
        var again = Program.got(client.put(Program.bytes("r/a"), Program.bytes("second"), PutOption.builder().withPrevKV().build()));
        Program.step("put again", "was " + shown(again.getPrevKv()));
        put(client, "r/b", "b");
        put(client, "r/c", "c");
        Program.step("range", list(get(client, "r/", GetOption.builder().isPrefix(true).build())));
        Program.step("last first, two", list(get(client, "r/", GetOption.builder().isPrefix(true).withLimit(2)
            .withSortField(GetOption.SortTarget.KEY).withSortOrder(GetOption.SortOrder.DESCEND).build())));
        Program.step("in the past", list(get(client, "r/a", GetOption.builder().withRevision(2).build())));
        Program.step("count", get(client, "r/", GetOption.builder().isPrefix(true).withCountOnly(true).build()).getCount());
        Program.step("delete", Program.got(client.delete(Program.bytes("r/b"))).getDeleted());
        var deleted = Program.got(client.delete(Program.bytes("r/c"), DeleteOption.builder().withPrevKV(true).build()));
        Program.step("delete, and what was", shown(deleted.getPrevKvs().get(0)));
        Program.step("delete nothing", Program.got(client.delete(Program.bytes("r/z"))).getDeleted());
    }

    private static void transactions(KV client) throws Exception {
        for (String value : new String[] {"second", "first"}) {
            TxnResponse done = Program.got(client.txn()
                .If(new Cmp(Program.bytes("r/a"), Cmp.Op.EQUAL, CmpTarget.value(Program.bytes(value))))
                .Then(Op.put(Program.bytes("r/t"), Program.bytes("then"), PutOption.DEFAULT), Op.get(Program.bytes("r/t"), GetOption.DEFAULT))
                .Else(Op.get(Program.bytes("r/a"), GetOption.DEFAULT), Op.delete(Program.bytes("r/t"), DeleteOption.DEFAULT))
                .commit());
            Program.step("txn if " + value, done.isSucceeded() + ", " + done.getPutResponses().size() + " puts, "
                + done.getGetResponses().size() + " gets, " + done.getDeleteResponses().size() + " deletes, revision "
                + done.getHeader().getRevision());
        }
    }

    private static void failures(Client client) throws Exception {
        KV kv = client.getKVClient();
        var a = Program.bytes("r/a");
        var x = Program.bytes("r/x");
        Program.failed("future", kv.get(a, GetOption.builder().withRevision(1000).build()));
        Program.got(kv.compact(4));
        Program.failed("compacted", kv.get(a, GetOption.builder().withRevision(2).build()));
        Program.failed("compacted again", kv.compact(4));
        Program.failed("no key", kv.put(Program.bytes(""), x));
        Program.failed("no lease", kv.put(x, x, PutOption.builder().withLeaseId(1234).build()));
        Program.failed("no lease to revoke", client.getLeaseClient().revoke(1234));
        Program.failed("twice", kv.txn().Then(Op.put(x, x, PutOption.DEFAULT), Op.put(x, a, PutOption.DEFAULT)).commit());
        Program.failed("too large", kv.put(x, Program.bytes("x".repeat(1600 << 10))));
        Program.failed("too large for gRPC", kv.put(x, Program.bytes("x".repeat(3 << 20))));
        Lasting.watchTheCompacted(client);
    }

    private static void snapshot(Client client) throws Exception {
        File file = new File(Program.said("WORKDIR"), "snapshot.db");
        try (FileOutputStream out = new FileOutputStream(file)) {
            Program.got(client.getMaintenanceClient().snapshot(out));
        }
        Program.step("snapshot", Program.ask("status " + file));
    }
}
