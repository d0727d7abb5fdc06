"""PyPI's aetcd, over gRPC with asyncio.

The library supports no TLS, elections, users or roles, reads neither at a revision nor with a limit,
and does not renew tokens. A watch ends with the connection, and is resumed as in etcd3_check.py.
"""

import asyncio
import sys
import time

import aetcd

from program import HOST, MODE, PASSWORD, PATIENCE, PORT, READER, READER_PASSWORD, USERNAME
from program import ask as ask_now
from program import snapshot_path, step, text


def connect(user=USERNAME, password=PASSWORD):
    return aetcd.Client(
        host=HOST, port=int(PORT), username=user, password=password, timeout=PATIENCE,
        options={"grpc.max_reconnect_backoff_ms": 500, "grpc.initial_reconnect_backoff_ms": 100},
    )


async def ask(request):
    """Sends a request to cmd/languages without blocking the event loop."""
    return await asyncio.to_thread(ask_now, request)


async def failed(name, attempt):
    """Prints the error of an attempt: the library's exception with the server's text."""
    try:
        step(name, f"no error, {await attempt}")
    except aetcd.ClientError as error:
        step(name, f"{type(error).__name__}: {error}")


def pairs(response):
    return " ".join(f"{text(kv.key)}={text(kv.value)}" for kv in response)


async def keys(client):
    step("put", (await client.put(b"r/a", b"planted-true")).header.revision)
    kv = await client.get(b"r/a")
    step("get", f"{text(kv.value)}, version {kv.version}, created at {kv.create_revision}, modified at {kv.mod_revision}")
    step("put again", f"was {text((await client.put(b'r/a', b'second', prev_kv=True)).prev_kv.value)}")
    await client.put(b"r/b", b"b")
    await client.put(b"r/c", b"c")
    everything = await client.get_prefix(b"r/")
    step("range", f"{pairs(everything)}; of {everything.count}")
    step("last first", pairs(await client.get_prefix(b"r/", sort_order="descend", sort_target="key")))
    step("some", pairs(await client.get_range(b"r/a", b"r/c")))
    step("delete", (await client.delete(b"r/b")).deleted)
    step("delete, and what was", text((await client.delete(b"r/c", prev_kv=True)).prev_kv.value))
    step("delete nothing", await client.delete(b"r/z"))
    step("not there", await client.get(b"r/z"))
    step("replace", f"{await client.replace(b'r/a', b'y', b'z')} {await client.replace(b'r/a', b'second', b'third')}")


async def transactions(client):
    for value in (b"third", b"first"):
        ok, answers = await client.transaction(
            compare=[client.transactions.value(b"r/a") == value, client.transactions.mod(b"r/a") > 0],
            success=[client.transactions.put(b"r/t", b"then"), client.transactions.get(b"r/t")],
            failure=[client.transactions.get(b"r/a"), client.transactions.delete(b"r/t")],
        )
        step(f"txn if {text(value)}", f"{ok}, {len(answers)} answers")


async def take(events, count):
    """Returns the next events of a watch."""
    taken = []
    while len(taken) < count:
        taken.append(await asyncio.wait_for(anext(events), PATIENCE))
    return taken


def shown(events):
    return ", ".join(f"{e.kind} {text(e.kv.key)}={text(e.kv.value)}@{e.kv.mod_revision}" for e in events)


async def watches(client):
    events = aiter(await client.watch(b"r/", range_end=b"r0", start_revision=2))
    step("watch from the past", shown(await take(events, 9)))
    await client.put(b"r/w", b"before")
    last = await take(events, 1)
    step("watch", shown(last))
    await ask("restart")
    try:
        await take(events, 1)
    except aetcd.ConnectionFailedError as error:
        step("cut off", type(error).__name__)
    client = await again(client)
    await client.put(b"r/w", b"after")
    first = last[0].kv.mod_revision + 1
    watch = await insisted(lambda: client.watch(b"r/", range_end=b"r0", start_revision=first))
    step("watch after a restart", shown(await take(aiter(watch), 1)))
    await watch.cancel()
    deletions = await client.watch(b"r/", range_end=b"r0", start_revision=2, kind=aetcd.EventKind.DELETE)
    step("deletions", shown(await take(aiter(deletions), 3)))
    await deletions.cancel()
    return client


async def again(client):
    """Returns a client that is connected to the restarted server with a valid token."""
    if MODE == "auth":
        await failed("forgotten token", client.get(b"r/a"))
        return connect()
    await insisted(lambda: client.get(b"r/a"))
    return client


async def insisted(attempt):
    """Retries until the client is connected, which shows only in a request."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return await attempt()
        except aetcd.ConnectionFailedError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.05)


async def leases(client):
    lease = await client.lease(6)
    revision = (await client.put(b"r/l", b"leased", lease=lease)).header.revision
    step("lease", f"{lease.ttl} s, granted {await lease.granted_ttl()} s, keys {[text(key) for key in await lease.keys()]}")
    begun = time.monotonic()
    while time.monotonic() - begun < 8:
        assert (await lease.refresh()).TTL == 6
        await asyncio.sleep(0.3)
    step("kept alive", text((await client.get(b"r/l")).value))
    watch = await client.watch(b"r/l", start_revision=revision + 1)
    step("expired", shown(await take(aiter(watch), 1)))
    await watch.cancel()
    step("after that", f"{await lease.remaining_ttl()} s")
    other = await client.lease(100)
    await client.put(b"r/l", b"again", lease=other)
    await other.revoke()
    step("revoked", await client.get(b"r/l"))


async def locks(client):
    lock, rival = client.lock(b"lock", ttl=20), client.lock(b"lock", ttl=20)
    step("lock", f"{await lock.acquire()} {await lock.is_acquired()}")
    step("rival", await rival.acquire(timeout=0))
    step("release", await lock.release())
    step("rival, then", f"{await rival.acquire()} {await rival.is_acquired()} {await lock.is_acquired()}")
    await rival.release()


async def failures(client):
    await client.compact(4)
    await failed("compacted again", client.compact(4))
    await failed("no key", client.put(b"", b"x"))
    await failed("no lease", client.put(b"r/x", b"x", lease=1234))
    await failed("no lease to revoke", client.revoke_lease(1234))
    await client.lease(100, 77)
    await failed("lease twice", client.lease(100, 77))
    twice = [client.transactions.put(b"r/x", b"1"), client.transactions.put(b"r/x", b"2")]
    await failed("twice", client.transaction(compare=[], success=twice, failure=[]))
    await failed("too large", client.put(b"r/x", b"x" * (1600 << 10)))
    watch = await client.watch(b"r/", range_end=b"r0", start_revision=2)
    await failed("watch the compacted", take(aiter(watch), 1))


async def administration(client):
    step("status", (await client.status()).version)
    step("defragment", await client.defragment())


async def strangers():
    await failed("nobody", connect(None, None).get(b"r/a"))
    await failed("wrong password", connect("root", "wrong").get(b"r/a"))
    reader = connect(READER, READER_PASSWORD)
    step("reader", text((await reader.get(b"r/a")).value))
    await failed("reader puts", reader.put(b"r/a", b"x"))


async def tokens(client):
    await ask("expire")
    await failed("token run out", client.get(b"r/a"))
    client = connect()
    step("a new one", text((await client.get(b"r/a")).value))
    return client


async def snapshot(client):
    with open(snapshot_path(), "wb") as file:
        await client.snapshot(file)
    step("snapshot", await ask(f"status {snapshot_path()}"))


async def main():
    client = connect()
    await keys(client)
    await transactions(client)
    client = await watches(client)
    await leases(client)
    await locks(client)
    await failures(client)
    await administration(client)
    if MODE == "auth":
        await strangers()
        client = await tokens(client)
    await snapshot(client)
    await client.close()


sys.exit(asyncio.run(main()))
