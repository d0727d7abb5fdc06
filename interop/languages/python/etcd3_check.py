"""PyPI's etcd3, over gRPC.

The library supports no elections, users or roles, reads neither at a revision nor with a limit,
requests hashes without its token, and does not renew tokens. A watch ends with the connection; to
resume it, the program creates a new one from the revision after the last event. Some errors become
exceptions without text.
"""

import queue
import time

import etcd3
import grpc

from program import BRIEF, CACERT, CERT, HOST, KEY, MODE, PASSWORD, PATIENCE, PORT, READER, READER_PASSWORD, USERNAME
from program import ask, snapshot_path, step, text


def connect(user=USERNAME, password=PASSWORD):
    client = etcd3.client(
        host=HOST, port=int(PORT), ca_cert=CACERT, cert_cert=CERT, cert_key=KEY, user=user, password=password,
        timeout=PATIENCE,
        # Reconnect soon after a restart of the server.
        grpc_options=[("grpc.max_reconnect_backoff_ms", 500), ("grpc.initial_reconnect_backoff_ms", 100)],
    )
    # The library sends the token twice, as credentials and as metadata. Current grpcio versions
    # refuse credentials on insecure channels.
    client.call_credentials = client.watcher._credentials = None
    return client


def failed(name, attempt):
    """Prints the error of an attempt: the library's exceptions by name, gRPC's by code and text."""
    try:
        step(name, f"no error, {attempt()}")
    except grpc.RpcError as error:
        step(name, f"{error.code().name}: {error.details()}")
    except etcd3.exceptions.Etcd3Exception as error:
        cause = error.__context__
        told = f" for {cause.code().name}: {cause.details()}" if isinstance(cause, grpc.RpcError) else ""
        step(name, f"{type(error).__name__}{told}")


def pairs(response):
    return " ".join(f"{text(meta.key)}={text(value)}" for value, meta in response)


def keys(client):
    step("put", client.put("r/a", "planted-true").header.revision)
    value, meta = client.get("r/a")
    step("get", f"{text(value)}, version {meta.version}, created at {meta.create_revision}, modified at {meta.mod_revision}")
    step("put again", f"was {text(client.put('r/a', 'second', prev_kv=True).prev_kv.value)}")
    client.put("r/b", "b")
    client.put("r/c", "c")
    step("range", pairs(client.get_prefix("r/")))
    step("last first", pairs(client.get_prefix("r/", sort_order="descend", sort_target="key")))
    step("some", pairs(client.get_range("r/a", "r/c")))
    step("delete", client.delete("r/b"))
    step("delete, and what was", text(client.delete("r/c", prev_kv=True, return_response=True).prev_kvs[0].value))
    step("delete nothing", client.delete("r/z"))
    step("not there", client.get("r/z"))
    step("put if not there", f"{client.put_if_not_exists('r/a', 'x')} {client.put_if_not_exists('r/n', 'x')}")
    step("replace", f"{client.replace('r/n', 'y', 'z')} {client.replace('r/n', 'x', 'z')}")


def transactions(client):
    for value in ("second", "first"):
        ok, answers = client.transaction(
            compare=[client.transactions.value("r/a") == value, client.transactions.version("r/a") > 0],
            success=[client.transactions.put("r/t", "then"), client.transactions.get("r/t")],
            failure=[client.transactions.get("r/a"), client.transactions.delete("r/t")],
        )
        step(f"txn if {value}", f"{ok}, {len(answers)} answers")


def watching(client, key, first, **options):
    """Starts a watch; returns a function that takes events and one that cancels it."""
    events = queue.Queue()
    watch = insisted(lambda: client.add_watch_callback(key, events.put, start_revision=first, **options))
    pending = []

    def take(count):
        while len(pending) < count:
            got = events.get(timeout=PATIENCE)
            if isinstance(got, Exception):
                raise got
            pending.extend(got.events)
        taken, pending[:] = pending[:count], pending[count:]
        return taken

    return take, lambda: client.cancel_watch(watch)


def shown(events):
    kinds = {etcd3.events.PutEvent: "PUT", etcd3.events.DeleteEvent: "DELETE"}
    return ", ".join(f"{kinds[type(e)]} {text(e.key)}={text(e.value)}@{e.mod_revision}" for e in events)


def watches(client):
    take, cancel = watching(client, "r/", 2, range_end="r0", prev_kv=True)
    step("watch from the past", shown(take(10)))
    client.put("r/w", "before")
    last = take(1)
    step("watch", shown(last))
    ask("restart")
    try:
        take(1)
    except grpc.RpcError as error:
        step("cut off", error.code().name)
    client = again(client)
    client.put("r/w", "after")
    take, cancel = watching(client, "r/", last[0].mod_revision + 1, range_end="r0")
    step("watch after a restart", shown(take(1)))
    cancel()
    return client


def again(client):
    """Returns a client that is connected to the restarted server with a valid token."""
    if MODE == "auth":
        failed("forgotten token", lambda: client.get("r/a"))
        return connect()
    insisted(lambda: client.get("r/a"))
    return client


def insisted(attempt):
    """Retries until the client is connected, which shows only in a request."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return attempt()
        except etcd3.exceptions.ConnectionFailedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def leases(client):
    lease = client.lease(6)
    revision = client.put("r/l", "leased", lease=lease).header.revision
    step("lease", f"{lease.ttl} s, granted {lease.granted_ttl} s, keys {[text(key) for key in lease.keys]}")
    begun = time.monotonic()
    while time.monotonic() - begun < 8:
        assert [answer.TTL for answer in lease.refresh()] == [6]
        time.sleep(0.3)
    step("kept alive", text(client.get("r/l")[0]))
    take, cancel = watching(client, "r/l", revision + 1)
    step("expired", shown(take(1)))
    cancel()
    step("after that", f"{lease.remaining_ttl} s")
    other = client.lease(100)
    client.put("r/l", "again", lease=other)
    other.revoke()
    step("revoked", client.get("r/l"))


def locks(client):
    lock, rival = client.lock("lock", ttl=20), client.lock("lock", ttl=20)
    step("lock", f"{lock.acquire()} {lock.is_acquired()}")
    step("rival", rival.acquire(timeout=0))
    step("release", lock.release())
    step("rival, then", f"{rival.acquire()} {rival.is_acquired()} {lock.is_acquired()}")
    rival.release()


def failures(client):
    client.compact(4)
    failed("compacted again", lambda: client.compact(4))
    failed("no key", lambda: client.put("", "x"))
    failed("no lease", lambda: client.put("r/x", "x", lease=1234))
    failed("no lease to revoke", lambda: client.revoke_lease(1234))
    twice = [client.transactions.put("r/x", "1"), client.transactions.put("r/x", "2")]
    failed("twice", lambda: client.transaction(compare=[], success=twice, failure=[]))
    failed("too large", lambda: client.put("r/x", "x" * (1600 << 10)))
    failed("too large for gRPC", lambda: client.put("r/x", "x" * (3 << 20)))
    take, _ = watching(client, "r/", 2, range_end="r0")
    try:
        take(1)
    except etcd3.exceptions.RevisionCompactedError as error:
        step("watch the compacted", f"compacted at {error.compacted_revision}")


def administration(client):
    step("status", client.status().version)
    step("members", [(m.name, len(m.peer_urls), len(m.client_urls)) for m in client.members])
    step("alarms", list(client.list_alarms()))
    step("defragment", client.defragment())


def strangers():
    failed("nobody", lambda: text(connect(None, None).get("r/a")[0]))
    failed("wrong password", lambda: connect("root", "wrong"))
    reader = connect(READER, READER_PASSWORD)
    step("reader", text(reader.get("r/a")[0]))
    failed("reader puts", lambda: reader.put("r/a", "x"))
    failed("reader reads beyond", lambda: reader.get("w/a"))


def tokens(client):
    ask("expire")
    failed("token run out", lambda: client.get("r/a"))
    client = connect()
    step("a new one", text(client.get("r/a")[0]))
    return client


def snapshot(client):
    with open(snapshot_path(), "wb") as file:
        client.snapshot(file)
    step("snapshot", ask(f"status {snapshot_path()}"))


def main():
    client = connect()
    keys(client)
    transactions(client)
    if not BRIEF:
        client = watches(client)
        leases(client)
        locks(client)
        failures(client)
        administration(client)
    if MODE == "jwt":
        client = connect()
        ask("restart")
        insisted(lambda: client.get("r/a"))
        step("token after a restart", text(client.get("r/a")[0]))
    if USERNAME:
        strangers()
        client = tokens(client)
    snapshot(client)


main()
