//! The commands of a script.
//!
//! | command | effect |
//! | --- | --- |
//! | `put`, `delete`, `range`, `txn` | a request: see [`request`](crate::request) |
//! | `compact 4` | schedules a compaction |
//! | `turn-compaction`, `finish-compaction` | one turn of compaction; all that are left |
//! | `hash rev=3`, `stored-hashes` | HashKV; the hashes that compactions stored |
//! | `index` | the revisions in the database, by key: `{2.0 3.0 4.0t}` is a generation |
//! | `restart` | closes the database and opens it again |
//! | `leases 7 8` | makes leases exist; `attached` lists their keys |
//! | `options stream-responses=2` | an empty store with other bounds for watchers |
//! | `watch 1 a..c rev=3 id=5` | creates a watcher in stream 1 |
//! | | flags: `prev-kv`, `fragment`, `progress-notify`, `no-put`, `no-delete` |
//! | `read 1 max=2` | reads the responses of a stream |
//! | `sync` | a turn for watchers that are behind |
//! | `cancel 1 0`, `progress 1` | further requests of a stream |
//! | `tick 600` | sends the progress notifications that are due at a second |
//! | `watchers` | how many watchers there are, and how many are behind |
//! | `receive-snapshot` | replaces the database by one that also has the puts of the input |

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use backend::schema::Bucket;
use backend::schema::revision::RevisionKey;
use backend::{Backend, Read as _};
use env::{SimClock, SimDisk};
use mvcc::kv::KeyValueRef;
use mvcc::watch::{self, CreateRequest, Filters, HubTurn, Stream};
use mvcc::{CompactionTurn, Config, Error, Leases, WatchableStore, WriteTxn};
use testkit::script::Case;
use types::LeaseId;

use crate::print;
use crate::request::{self, Words};

/// A store with watch streams and leases.
pub(crate) struct Fixture {
    disk: SimDisk,
    backend: Backend,
    store: WatchableStore,
    leases: FakeLessor,
    streams: BTreeMap<u64, Stream>,
    watch: watch::Config,
    /// The write commands so far, to build the database of a snapshot.
    log: Vec<String>,
}

/// Leases without a lifetime.
#[derive(Clone, Default)]
struct FakeLessor {
    ids: Vec<i64>,
    keys: RefCell<BTreeMap<Vec<u8>, i64>>,
}

impl Leases for FakeLessor {
    fn contains(&self, id: LeaseId) -> bool {
        self.ids.contains(&id.0)
    }

    fn lease_of(&self, key: &[u8]) -> Option<LeaseId> {
        self.keys.borrow().get(key).copied().map(LeaseId)
    }

    fn attach(&self, id: LeaseId, key: &[u8]) {
        self.keys.borrow_mut().insert(key.to_vec(), id.0);
    }

    fn detach(&self, _: LeaseId, key: &[u8]) {
        self.keys.borrow_mut().remove(key);
    }
}

fn open_backend(disk: &SimDisk) -> Backend {
    let clock = Arc::new(SimClock::default());
    Backend::open(Arc::new(disk.clone()), clock, "db".as_ref(), backend::Config::default()).unwrap()
}

fn open_store(
    backend: &Backend,
    leases: &dyn Leases,
    watch: &watch::Config,
    batch: usize,
) -> WatchableStore {
    let config = Config { compaction_batch_limit: batch };
    WatchableStore::open(backend.clone(), leases, config, watch, Arc::new(|| ())).unwrap()
}

/// Revisions per compaction turn: small, so that the scripts show several.
const COMPACTION_BATCH: usize = 3;

impl Fixture {
    pub(crate) fn new() -> Fixture {
        Fixture::with(watch::Config::default())
    }

    fn with(watch: watch::Config) -> Fixture {
        let disk = SimDisk::new(0);
        let backend = open_backend(&disk);
        let leases = FakeLessor::default();
        let store = open_store(&backend, &leases, &watch, COMPACTION_BATCH);
        let (streams, log) = (BTreeMap::new(), Vec::new());
        Fixture { disk, backend, store, leases, streams, watch, log }
    }

    pub(crate) fn run(&mut self, case: &Case) -> String {
        let directive = case.to_string();
        let words = Words::new(&directive);
        let number = |at: usize| words.at(at).parse::<i64>().unwrap();
        match case.cmd.as_str() {
            "put" | "delete" | "txn" => self.write(&format!("{directive}\n{}", case.input)),
            "range" => or_error(&self.store.range(&request::range(&words)), print::range),
            "compact" => self.compact(number(1)),
            "turn-compaction" => print::turn(self.store.turn_compaction().unwrap()),
            "finish-compaction" => self.finish_compaction(),
            "hash" => or_error(&self.store.hash_kv(words.number("rev")), |(hash, current)| {
                format!("{}, store at {current}", print::hash(hash))
            }),
            "stored-hashes" => lines(self.store.compaction_hashes().iter().map(print::hash)),
            "index" => self.index(),
            "status" => self.status(),
            "restart" => self.restart(),
            "leases" => {
                self.leases.ids = case.bare();
                "ok".to_owned()
            }
            "attached" => self.attached(),
            "options" => self.set_options(&words),
            "watch" => self.watch(&words),
            "read" => self.read(&words),
            "cancel" => {
                self.stream(number(1)).cancel(number(2)).unwrap();
                "ok".to_owned()
            }
            "progress" => match self.stream(number(1)).request_progress().unwrap() {
                true => "answered".to_owned(),
                false => "no answer".to_owned(),
            },
            "sync" => match self.store.sync_watchers().unwrap() {
                HubTurn::Again => "more work".to_owned(),
                HubTurn::Idle => "idle".to_owned(),
            },
            "tick" => {
                let next = self.store.tick_progress(Duration::from_secs(number(1).unsigned_abs()));
                next.map_or("no stream".to_owned(), |next| format!("next at {}", next.as_secs()))
            }
            "watchers" => self.watchers(),
            "receive-snapshot" => self.receive_snapshot(&case.input),
            other => case.fail(format_args!("no such command: {other}")),
        }
    }

    /// Applies a write command as one entry of the log.
    fn write(&mut self, command: &str) -> String {
        self.log.push(command.to_owned());
        apply(&self.backend, &self.store, &self.leases, command)
    }

    fn compact(&self, at: i64) -> String {
        let mut tx = self.backend.begin();
        let scheduled = self.store.compact(&mut tx, at);
        tx.commit().unwrap();
        or_error(&scheduled, |_| "scheduled".to_owned())
    }

    fn finish_compaction(&self) -> String {
        let turns = std::iter::from_fn(|| {
            let turn = self.store.turn_compaction().unwrap();
            (turn != CompactionTurn::Idle).then_some(turn)
        });
        lines(turns.map(print::turn))
    }

    fn index(&self) -> String {
        let mut keys: BTreeMap<String, String> = BTreeMap::new();
        let view = self.backend.view();
        for item in view.all(Bucket::Key).unwrap() {
            let item = item.unwrap();
            let RevisionKey { revision, tombstone } = RevisionKey::decode(&item.key).unwrap();
            let key = KeyValueRef::parse(&item.value).unwrap().key.escape_ascii().to_string();
            let history = keys.entry(key).or_default();
            let begins = history.is_empty() || history.ends_with('}');
            history.push_str(if history.is_empty() { "" } else { " " });
            history.push_str(if begins { "{" } else { "" });
            let _ = write!(history, "{}.{}", revision.main, revision.sub);
            history.push_str(if tombstone { "t}" } else { "" });
        }
        lines(keys.iter().map(|(key, history)| {
            let open = if history.ends_with('}') { "" } else { "}" };
            format!("{key} {history}{open}")
        }))
    }

    fn status(&self) -> String {
        let store = &self.store;
        let (current, compacted, keys) = (store.current(), store.compacted(), store.keys());
        format!("revision {current}, compacted {compacted}, keys {keys}")
    }

    fn restart(&mut self) -> String {
        let Fixture { disk, backend, store, leases, watch, log, .. } =
            std::mem::replace(self, Fixture::new());
        drop(store);
        backend.close().unwrap();
        let backend = open_backend(&disk);
        leases.keys.borrow_mut().clear();
        let store = open_store(&backend, &leases, &watch, COMPACTION_BATCH);
        *self = Fixture { disk, backend, store, leases, streams: BTreeMap::new(), watch, log };
        self.status()
    }

    fn attached(&self) -> String {
        let keys = self.leases.keys.borrow();
        lines(keys.iter().map(|(key, lease)| format!("{} → {lease}", key.escape_ascii())))
    }

    fn set_options(&mut self, words: &Words<'_>) -> String {
        let mut watch = watch::Config::default();
        let set = |name: &str, bound: &mut usize| {
            if let Some(value) = words.option(name) {
                *bound = value.parse().unwrap();
            }
        };
        set("fragment-bytes", &mut watch.fragment_bytes);
        set("stream-responses", &mut watch.limits.stream_responses);
        set("catch-up-revisions", &mut watch.limits.catch_up_revisions);
        *self = Fixture::with(watch);
        "ok".to_owned()
    }

    fn stream(&mut self, number: i64) -> &mut Stream {
        let store = &self.store;
        self.streams
            .entry(number.unsigned_abs())
            .or_insert_with(|| store.watch_stream(Arc::new(|| ()), Duration::ZERO, Duration::ZERO))
    }

    fn watch(&mut self, words: &Words<'_>) -> String {
        let (key, range_end) = request::span(words.at(2));
        let request = CreateRequest {
            key,
            range_end,
            start_revision: words.number("rev"),
            watch_id: words.number("id"),
            filters: Filters { no_put: words.flag("no-put"), no_delete: words.flag("no-delete") },
            progress_notify: words.flag("progress-notify"),
            prev_kv: words.flag("prev-kv"),
            fragment: words.flag("fragment"),
        };
        let stream = self.stream(words.at(1).parse().unwrap());
        match stream.create(&request).unwrap() {
            Some(id) => format!("watch {id}"),
            None => "refused".to_owned(),
        }
    }

    fn read(&mut self, words: &Words<'_>) -> String {
        let max = words.option("max").map_or(usize::MAX, |max| max.parse().unwrap());
        let number: u64 = words.at(1).parse().unwrap();
        let (store, stream) = (&self.store, self.streams.get_mut(&number).unwrap());
        let responses = std::iter::from_fn(|| stream.next(store).unwrap());
        lines(responses.take(max).map(|response| print::response(&response)))
    }

    fn watchers(&self) -> String {
        let store = &self.store;
        let (all, behind, pending) =
            (store.watchers(), store.slow_watchers(), store.pending_events());
        format!("{all} watchers, {behind} behind, {pending} events queued")
    }

    /// Builds the database of a member that is ahead by the commands of the input.
    fn receive_snapshot(&mut self, input: &str) -> String {
        let disk = SimDisk::new(0);
        let backend = open_backend(&disk);
        let leases = FakeLessor { ids: self.leases.ids.clone(), ..FakeLessor::default() };
        let source = open_store(&backend, &leases, &self.watch, COMPACTION_BATCH);
        self.log.extend(input.lines().map(str::to_owned));
        for command in &self.log {
            apply(&backend, &source, &leases, command);
        }
        drop(source);
        let next = self.store.successor(backend.clone(), &leases).unwrap();
        next.take_over(|| ());
        (self.disk, self.backend, self.store, self.leases) = (disk, backend, next, leases);
        self.status()
    }
}

/// Applies a write command. A request that fails changes nothing.
fn apply(backend: &Backend, store: &WatchableStore, leases: &dyn Leases, command: &str) -> String {
    let mut tx = backend.begin();
    let mut write = store.write(&mut tx, leases);
    let result = execute(&mut write, command);
    let changes = write.finish();
    store.commit(tx, &changes).unwrap();
    result
}

fn execute(write: &mut WriteTxn<'_, '_>, command: &str) -> String {
    let (directive, input) = command.split_once('\n').unwrap_or((command, ""));
    let words = Words::new(directive);
    match words.at(0) {
        "put" => or_error(&write.put(&request::put(&words)), print::put),
        "delete" => or_error(&write.delete_range(&request::delete(&words)), print::delete),
        _ => {
            let lines: Vec<&str> = input.lines().collect();
            or_error(&write.txn(&request::txn(&lines), false), print::txn)
        }
    }
}

fn or_error<T>(result: &Result<T, Error>, print: impl FnOnce(&T) -> String) -> String {
    result.as_ref().map_or_else(|error| format!("error: {error}"), print)
}

fn lines(lines: impl Iterator<Item = String>) -> String {
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() { "none".to_owned() } else { lines.join("\n") }
}
