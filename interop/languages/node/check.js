// npm's etcd3, over gRPC.
//
// The library implements locks and elections itself, with transactions and watches. It renews
// tokens, and resumes watches unless their token has become invalid. It keeps the text of an error
// and maps its code to a class. It cannot list members: it passes no request, where current grpc-js
// versions need an empty one. It requests snapshots without its token.

"use strict";

const fs = require("fs");
const path = require("path");
const readline = require("readline");
const { once } = require("events");
const { Etcd3 } = require("etcd3");

const env = process.env;
const answers = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Prints the result of a step. */
function step(name, result) {
  console.log(`${name}: ${String(result).replaceAll("\n", "\\n")}`);
}

/** Sends a request to cmd/languages and returns the response. */
async function ask(request) {
  console.log(`@${request}`);
  return (await answers.next()).value;
}

/** Prints the error of an attempt, by class and text. */
async function failed(name, attempt) {
  try {
    await attempt;
    step(name, "no error");
  } catch (error) {
    step(name, `${error.constructor.name}: ${error.message}`);
  }
}

function connect(username = env.USERNAME, password = env.PASSWORD) {
  return new Etcd3({
    hosts: `${env.CACERT ? "https" : "http"}://${env.ENDPOINT}`,
    auth: username ? { username, password } : undefined,
    credentials: env.CACERT && {
      rootCertificate: fs.readFileSync(env.CACERT),
      privateKey: fs.readFileSync(env.KEY),
      certChain: fs.readFileSync(env.CERT),
    },
    grpcOptions: { "grpc.initial_reconnect_backoff_ms": 100, "grpc.max_reconnect_backoff_ms": 500 },
  });
}

function list(response) {
  const all = response.kvs.map((kv) => `${kv.key}=${kv.value}`).join(" ");
  return `${all}; more ${response.more}, of ${response.count}`;
}

async function keys(client) {
  const put = await client.put("r/a").value("planted-true");
  step("put", `revision ${put.header.revision}`);
  const { kvs } = await client.get("r/a").exec();
  const { value, version, create_revision, mod_revision } = kvs[0];
  step("get", `${value}, version ${version}, created at ${create_revision}, modified at ${mod_revision}`);
  step("put again", `was ${(await client.put("r/a").value("second").getPrevious()).value}`);
  await client.put("r/b").value("b");
  await client.put("r/c").value("c");
  step("range", list(await client.getAll().prefix("r/").exec()));
  step("last first, two", list(await client.getAll().prefix("r/").sort("Key", "Descend").limit(2).exec()));
  step("in the past", await client.get("r/a").revision(2).string());
  step("count", await client.getAll().prefix("r/").count());
  step("delete", (await client.delete().key("r/b")).deleted);
  step("delete, and what was", (await client.delete().key("r/c").getPrevious())[0].value);
  step("delete nothing", (await client.delete().key("r/z")).deleted);
  step("not there", await client.get("r/z"));
}

async function transactions(client) {
  for (const value of ["second", "first"]) {
    const done = await client
      .if("r/a", "Value", "==", value)
      .then(client.put("r/t").value("then"), client.get("r/t"))
      .else(client.get("r/a"), client.delete().key("r/t"))
      .commit();
    step(`txn if ${value}`, `${done.succeeded}, ${done.responses.length} answers, revision ${done.header.revision}`);
  }
  await client.stm().transact(async (tx) => tx.put("r/s").value(`${await tx.get("r/a").string()}, by stm`));
  step("stm", await client.get("r/s"));
}

/** Collects the events of a watcher and returns them in order. */
class Events {
  constructor(watcher) {
    this.all = [];
    this.watcher = watcher;
    watcher.on("data", (response) => this.all.push(...response.events));
  }

  async take(count) {
    while (this.all.length < count) {
      await once(this.watcher, "data");
    }
    const shown = (event) => {
      const before = event.prev_kv ? ` was ${event.prev_kv.value}` : "";
      return `${event.type} ${event.kv.key}=${event.kv.value}@${event.kv.mod_revision}${before}`;
    };
    return this.all.splice(0, count).map(shown).join(", ");
  }
}

async function watches(client) {
  const watcher = client.watch().prefix("r/").startRevision("2").withPreviousKV().watcher();
  const events = new Events(watcher);
  step("watch from the past", await events.take(9));
  await client.put("r/w").value("before");
  step("watch", await events.take(1));
  if (env.MODE === "auth") {
    return watchAgain(client, watcher);
  }
  const disconnected = once(watcher, "disconnected");
  await ask("restart");
  await disconnected;
  await foundAgain(client);
  await client.put("r/w").value("after");
  step("watch after a restart", await events.take(1));
  await watcher.cancel();
  return client;
}

/** Resumes a watch with a new client: after a refused token a client's watches stay broken. */
async function watchAgain(client, watcher) {
  const next = Number(watcher.request.start_revision);
  const refused = once(watcher, "error");
  await ask("restart");
  const [error] = await refused;
  step("cut off", `${error.constructor.name}: ${error.message}`);
  await foundAgain(client);
  await client.put("r/w").value("after");
  const other = connect();
  const again = other.watch().prefix("r/").startRevision(String(next)).watcher();
  step("watch after a restart", await new Events(again).take(1));
  await again.cancel();
  client.close();
  return other;
}

/** Waits until the client has reconnected, which shows only in a request. */
async function foundAgain(client) {
  for (const begun = Date.now(); Date.now() - begun < 60000; ) {
    try {
      return await client.get("r/a");
    } catch (error) {
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
  throw new Error("timed out waiting to reconnect");
}

async function leases(client) {
  const lease = client.lease(6, { autoKeepAlive: false });
  const put = await lease.put("r/l").value("leased");
  const id = await lease.grant();
  const left = await client.leaseClient.leaseTimeToLive({ ID: id, keys: true });
  step("lease", `granted ${left.grantedTTL} s, keys ${left.keys}`);
  for (const begun = Date.now(); Date.now() - begun < 8000; ) {
    const { TTL } = await lease.keepaliveOnce();
    if (TTL !== "6") throw new Error(`renewed for ${TTL} s`);
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
  step("kept alive", await client.get("r/l"));
  const watcher = client.watch().key("r/l").startRevision(String(Number(put.header.revision) + 1)).watcher();
  step("expired", await new Events(watcher).take(1));
  await watcher.cancel();
  step("after that", `${(await client.leaseClient.leaseTimeToLive({ ID: id })).TTL} s`);
  const other = client.lease(6);
  await other.put("r/l").value("again");
  await once(other, "keepaliveSucceeded");
  await other.revoke();
  step("revoked", await client.get("r/l"));
}

async function locks(client) {
  const lock = client.lock("lock").ttl(20);
  const rival = client.lock("lock").ttl(20);
  await lock.acquire();
  await failed("rival", rival.acquire());
  await lock.release();
  step("rival, then", (await rival.acquire()) === rival);
  await rival.release();
}

async function elections(client) {
  const election = client.election("election", 20);
  const campaign = election.campaign("me");
  await campaign.wait();
  step("leader", await election.leader());
  const observer = await election.observe();
  step("observed", observer.leader());
  const changed = once(observer, "change");
  await campaign.proclaim("still me");
  step("observed, later", await changed);
  await observer.cancel();
  await campaign.resign();
  step("no leader", await election.leader());
}

async function failures(client) {
  await failed("future", client.get("r/a").revision(1000).exec());
  await client.kv.compact({ revision: "4" });
  await failed("compacted", client.get("r/a").revision(2).exec());
  await failed("compacted again", client.kv.compact({ revision: "4" }));
  await failed("no key", client.put("").value("x").exec());
  await failed("no lease", client.put("r/x").value("x").lease(1234).exec());
  await failed("no lease to revoke", client.leaseClient.leaseRevoke({ ID: "1234" }));
  const twice = [client.put("r/x").value("1"), client.put("r/x").value("2")];
  await failed("twice", client.if("r/a", "Version", ">", 0).then(...twice).commit());
  await failed("too large", client.put("r/x").value("x".repeat(1600 << 10)).exec());
}

async function administration(client) {
  step("status", (await client.maintenance.status()).version);
}

async function users(client) {
  const role = await client.role("worker").create();
  await role.grant({ permission: "Readwrite", range: client.range({ prefix: "w/" }) });
  const user = await client.user("ann").create("first");
  await user.addRole("worker");
  await failed("user twice", client.user("ann").create("first"));
  await failed("no such role", client.role("none").permissions());
  const names = (all) => all.map((one) => one.name);
  const [everyone, roles] = [names(await client.getUsers()), names(await client.getRoles())];
  step("users", `${everyone}, roles ${roles}, ann has ${names(await user.roles())}`);
  const [permission] = await role.permissions();
  step("role", `${permission.permission} ${permission.range.start} to ${permission.range.end}`);
  const ann = connect("ann", "first");
  await ann.put("w/1").value("x");
  await failed("beyond", ann.put("r/1").value("x").exec());
  ann.close();
  await user.setPassword("second");
  const late = connect("ann", "first");
  await failed("old password", late.get("w/1").exec());
  late.close();
  await user.delete();
  await role.delete();
}

async function strangers() {
  const nobody = connect("");
  await failed("nobody", nobody.get("r/a").exec());
  nobody.close();
  const wrong = connect("root", "wrong");
  await failed("wrong password", wrong.get("r/a").exec());
  wrong.close();
  const reader = connect(env.READER, env.READER_PASSWORD);
  step("reader", await reader.get("r/a"));
  await failed("reader puts", reader.put("r/a").value("x").exec());
  reader.close();
}

async function tokens(client) {
  await ask("expire");
  await client.put("r/a").value("renewed");
  step("token renewed", await client.get("r/a"));
}

async function snapshot(client) {
  const stream = await client.maintenance.snapshot();
  const blobs = [];
  stream.on("data", (piece) => blobs.push(piece.blob));
  await once(stream, "end");
  const file = path.join(env.WORKDIR, "snapshot.db");
  fs.writeFileSync(file, Buffer.concat(blobs));
  step("snapshot", await ask(`status ${file}`));
}

async function main() {
  let client = connect();
  await keys(client);
  await transactions(client);
  if (!env.BRIEF) {
    client = await watches(client);
    await leases(client);
    await locks(client);
    await elections(client);
    await failures(client);
    await administration(client);
  }
  if (env.USERNAME) {
    if (!env.BRIEF) {
      await users(client);
    }
    await strangers();
    await tokens(client);
    await failed("snapshot", snapshot(client));
  } else {
    await snapshot(client);
  }
  client.close();
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
