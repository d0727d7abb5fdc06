"""PyPI's etcd3gw, over the JSON gateway.

The library supports no elections, users, roles, logins or snapshots: this program gets a token from
the gateway and sets it in the headers of the session. A watch is a stream of chunks, each of which
must be one complete object; it ends with the connection, and is resumed from the revision after the
last event.
"""

import base64
import json
import queue
import time

import requests
from etcd3gw import client as gateway
from etcd3gw import exceptions, watch

from program import CACERT, CERT, HOST, KEY, MODE, PASSWORD, PATIENCE, PORT, READER, READER_PASSWORD, USERNAME
from program import ask, step, text


def connect(user=USERNAME, password=PASSWORD):
    client = gateway(
        host=HOST, port=int(PORT), protocol="https" if CACERT else "http", ca_cert=CACERT, cert_cert=CERT, cert_key=KEY,
        timeout=PATIENCE,
    )
    # Certificates from the environment would override those of the client.
    client.session.trust_env = False
    if user is not None:
        token = client.post(client.get_url("/auth/authenticate"), json={"name": user, "password": password})["token"]
        client.session.headers["Authorization"] = token
    return client


def failed(name, attempt):
    """Prints the error of an attempt: exception, HTTP reason, gRPC code and text."""
    try:
        step(name, f"no error, {attempt()}")
    except exceptions.Etcd3Exception as error:
        told = json.loads(error.detail_text)
        step(name, f"{type(error).__name__} {error} {told['code']}: {told['message']}")


def encode(value):
    return base64.b64encode(value.encode()).decode()


def pairs(response):
    return " ".join(f"{text(meta['key'])}={text(value)}" for value, meta in response)


def keys(client):
    step("put", client.put("r/a", "planted-true"))
    value, meta = client.get("r/a", metadata=True)[0]
    step("get", f"{text(value)}, version {meta['version']}, created at {meta['create_revision']}, modified at {meta['mod_revision']}")
    client.put("r/a", "second")
    client.put("r/b", "b")
    client.put("r/c", "c")
    step("range", pairs(client.get_prefix("r/")))
    step("last first", pairs(client.get_prefix("r/", sort_order="descend", sort_target="key")))
    step("two", pairs(client.get("r/", metadata=True, range_end="r0", limit=2, sort_order="descend", sort_target="mod")))
    step("in the past", text(client.get("r/a", revision=2)[0]))
    step("delete", client.delete("r/b"))
    step("delete, by prefix", client.delete_prefix("r/c"))
    step("delete nothing", client.delete("r/z"))
    step("not there", client.get("r/z"))
    step("create", f"{client.create('r/a', 'x')} {client.create('r/n', 'x')}")
    step("replace", f"{client.replace('r/n', 'y', 'z')} {client.replace('r/n', 'x', 'z')}")


def transactions(client):
    for value in ("second", "first"):
        done = client.transaction({
            "compare": [{"key": encode("r/a"), "target": "VALUE", "value": encode(value)}],
            "success": [{"request_put": {"key": encode("r/t"), "value": encode("then")}}, {"request_range": {"key": encode("r/t")}}],
            "failure": [{"request_range": {"key": encode("r/a")}}, {"request_delete_range": {"key": encode("r/t")}}],
        })
        step(f"txn if {value}", f"{done.get('succeeded', False)}, {len(done['responses'])} answers, revision {done['header']['revision']}")


class Watching:
    """A watch from a revision on."""

    def __init__(self, client, key, first, **options):
        self.events = queue.Queue()
        self.watcher = watch.Watcher(client, key, self.events.put, start_revision=first, **options)

    def take(self, count):
        return [self.events.get(timeout=PATIENCE) for _ in range(count)]

    def stop(self):
        self.watcher.stop()


def shown(events):
    return ", ".join(
        f"{e.get('type', 'PUT')} {text(e['kv']['key'])}={text(e['kv'].get('value', ''))}@{e['kv']['mod_revision']}" for e in events
    )


def watches(client):
    watching = Watching(client, "r/", 2, range_end="r0")
    step("watch from the past", shown(watching.take(10)))
    client.put("r/w", "before")
    last = watching.take(1)
    step("watch", shown(last))
    ask("restart")
    if MODE == "auth":
        failed("forgotten token", lambda: client.get("r/a"))
        client = connect()
    client.put("r/w", "after")
    resumed = Watching(client, "r/", int(last[0]["kv"]["mod_revision"]) + 1, range_end="r0")
    step("watch after a restart", shown(resumed.take(1)))
    resumed.stop()
    watching.stop()
    once = client.watch_once("r/w", timeout=PATIENCE, start_revision=2)
    step("once", shown([once]))
    return client


def leases(client):
    lease = client.lease(6)
    client.put("r/l", "leased", lease=lease)
    step("lease", f"keys {[text(key) for key in lease.keys()]}")
    begun = time.monotonic()
    while time.monotonic() - begun < 8:
        assert lease.refresh() == 6
        time.sleep(0.3)
    step("kept alive", text(client.get("r/l")[0]))
    gone = client.watch_once("r/l", timeout=PATIENCE, start_revision=2, filters=["NOPUT"])
    step("expired", shown([gone]))
    step("after that", f"{lease.ttl()} s, renewed {lease.refresh()}")
    other = client.lease(100)
    client.put("r/l", "again", lease=other)
    step("revoke", other.revoke())
    step("revoked", client.get("r/l"))


def locks(client):
    lock, rival = client.lock("lock", ttl=20), client.lock("lock", ttl=20)
    step("lock", f"{lock.acquire()} {lock.is_acquired()}, renewed {lock.refresh()}")
    step("rival", rival.acquire())
    step("release", lock.release())
    step("rival, then", f"{rival.acquire()} {rival.is_acquired()} {lock.is_acquired()}")
    rival.release()


def failures(client):
    failed("future", lambda: client.get("r/a", revision=1000))
    client.post(client.get_url("/kv/compaction"), json={"revision": 4})
    failed("compacted", lambda: client.get("r/a", revision=2))
    failed("no key", lambda: client.put("", "x"))
    failed("no lease", lambda: client.post(client.get_url("/kv/put"), json={"key": "cg==", "lease": 1234}))
    failed("no lease to revoke", lambda: client.post(client.get_url("/lease/revoke"), json={"ID": 1234}))
    failed("too large", lambda: client.put("r/x", "x" * (1600 << 10)))
    failed("no such path", lambda: client.post(client.get_url("/kv/none"), json={}))
    failed("not base64", lambda: client.post(client.get_url("/kv/put"), json={"key": "?"}))


def administration(client):
    step("status", client.status()["version"])
    step("members", [(m["name"], len(m["peerURLs"]), len(m["clientURLs"])) for m in client.members()])


def strangers():
    failed("nobody", lambda: connect(None).get("r/a"))
    failed("wrong password", lambda: connect("root", "wrong"))
    reader = connect(READER, READER_PASSWORD)
    step("reader", text(reader.get("r/a")[0]))
    failed("reader puts", lambda: reader.put("r/a", "x"))


def tokens(client):
    ask("expire")
    failed("token run out", lambda: client.get("r/a"))
    step("a new one", text(connect().get("r/a")[0]))


def without_certificate():
    """Checks that a server with client certificates refuses a client without one."""
    stranger = gateway(host=HOST, port=int(PORT), protocol="https", ca_cert=CACERT, timeout=PATIENCE)
    stranger.session.trust_env = False
    try:
        step("without a certificate", stranger.status()["version"])
    except (exceptions.ConnectionFailedError, requests.exceptions.SSLError):
        step("without a certificate", "refused")


def main():
    client = connect()
    keys(client)
    transactions(client)
    client = watches(client)
    leases(client)
    locks(client)
    failures(client)
    administration(client)
    if MODE == "tls":
        without_certificate()
    if MODE == "auth":
        strangers()
        tokens(client)


main()
