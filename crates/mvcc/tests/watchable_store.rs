//! Watchers on a real store: their events equal the changes of the store.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

use std::sync::Arc;
use std::time::Duration;

use backend::Backend;
use bytes::Bytes;
use env::{Random as _, SeededRandom, SimClock, SimDisk};
use mvcc::kv::KeyValueRef;
use mvcc::watch::{self, CreateRequest, HubTurn, Response, Stream};
use mvcc::{CompactionTurn, Config, EventKind, NoLeases, WatchableStore};
use proto::etcdserverpb::{DeleteRangeRequest, PutRequest};
use testkit::waiting::{step_until, wait_until};

struct Fixture {
    disk: SimDisk,
    backend: Backend,
    store: WatchableStore,
    /// All changes: revision, key, and the value, or `None` for a delete.
    log: Vec<(i64, Bytes, Option<Bytes>)>,
}

/// Syncs watchers until no more can be done.
fn sync_watchers(store: &WatchableStore) {
    let is_done = || store.sync_watchers().unwrap() != HubTurn::Again;
    step_until("the watchers are in sync", is_done);
}

/// An event: revision, key, value, and previous value.
type Received = (i64, Bytes, Option<Bytes>, Option<Bytes>);

impl Fixture {
    fn new() -> Fixture {
        let (disk, clock) = (SimDisk::new(0), Arc::new(SimClock::default()));
        let config = backend::Config::default();
        let backend = Backend::open(Arc::new(disk.clone()), clock, "db".as_ref(), config).unwrap();
        let config = Config { compaction_batch_limit: 3 };
        let (watch, wake) = (watch::Config::default(), Arc::new(|| {}));
        let store = WatchableStore::open(backend.clone(), &NoLeases, config, &watch, wake).unwrap();
        Fixture { disk, backend, store, log: Vec::new() }
    }

    fn change(&mut self, key: &Bytes, value: Option<Bytes>) {
        let mut tx = self.backend.begin();
        let mut txn = self.store.write(&mut tx, &NoLeases);
        match value {
            Some(value) => {
                let put = PutRequest { key: key.clone(), value, ..PutRequest::default() };
                txn.put(&put).unwrap();
            }
            None => {
                let delete = DeleteRangeRequest { key: key.clone(), ..Default::default() };
                txn.delete_range(&delete).unwrap();
            }
        }
        let changes = txn.finish();
        for event in changes.events() {
            let value = (event.kind == EventKind::Put).then(|| value_of(&event.kv));
            self.log.push((changes.revision(), event.key.clone(), value));
        }
        self.store.commit(tx, &changes).unwrap();
    }

    fn compact(&self, at: i64) {
        let mut tx = self.backend.begin();
        self.store.compact(&mut tx, at).unwrap();
        tx.commit().unwrap();
    }

    fn finish_compactions(&self) {
        let is_idle = || self.store.turn_compaction().unwrap() == CompactionTurn::Idle;
        step_until("the compactions are finished", is_idle);
    }

    fn stream(&self) -> Stream {
        self.store.watch_stream(Arc::new(|| {}), Duration::ZERO, Duration::ZERO)
    }

    fn drain(&self, stream: &mut Stream) -> Vec<Response> {
        let mut all = Vec::new();
        step_until("the stream is drained", || {
            sync_watchers(&self.store);
            let next = stream.next(&self.store).unwrap();
            let is_drained = next.is_none();
            all.extend(next);
            is_drained
        });
        all
    }

    /// Reads all streams. A previous value has to be present if it is not compacted.
    fn read_all(&self, watching: &mut [(i64, Stream, Vec<Received>)]) {
        for (_, stream, all) in watching {
            let received = received(&self.drain(stream));
            let expected = self.expected(0, self.store.compacted());
            for one in &received {
                assert!(expected.contains(one), "{one:?} is not a change of the store");
            }
            all.extend(received);
        }
    }

    /// Returns the changes from a revision on, with previous values as far as they are not
    /// compacted.
    fn expected(&self, from: i64, compacted: i64) -> Vec<Received> {
        let mut received = Vec::new();
        for (at, (revision, key, value)) in self.log.iter().enumerate() {
            let before = self.log[..at].iter().rfind(|(_, other, _)| other == key);
            let before = before.and_then(|(_, _, value)| value.clone());
            if *revision >= from {
                let before = before.filter(|_| *revision > compacted);
                received.push((*revision, key.clone(), value.clone(), before));
            }
        }
        received
    }
}

fn value_of(kv: &Bytes) -> Bytes {
    kv.slice_ref(KeyValueRef::parse(kv).unwrap().value)
}

fn all_from(start_revision: i64) -> CreateRequest {
    let (key, range_end) = (Bytes::from_static(b"\0"), Bytes::from_static(b"\0"));
    CreateRequest { key, range_end, start_revision, prev_kv: true, ..CreateRequest::default() }
}

fn received(responses: &[Response]) -> Vec<Received> {
    let events = responses.iter().flat_map(|response| &response.events);
    events
        .map(|watched| {
            let event = &watched.event;
            let value = (event.kind == EventKind::Put).then(|| value_of(&event.kv));
            let before = watched.prev_kv.as_ref().map(value_of);
            (event.revision.main, event.key.clone(), value, before)
        })
        .collect()
}

/// etcd bug 17247: a change that was both in the file and in a buffer was read twice.
#[test]
fn bug_17247_no_event_is_repeated_while_its_batch_is_committed() {
    let mut fixture = Fixture::new();
    let write = |fixture: &mut Fixture| {
        for key in ["a", "b", "a", "c"] {
            fixture.change(&key.into(), Some("1".into()));
        }
        fixture.change(&"b".into(), None);
    };
    let assert_all = |fixture: &Fixture| {
        let mut stream = fixture.stream();
        stream.create(&all_from(2)).unwrap();
        assert_eq!(received(&fixture.drain(&mut stream)), fixture.expected(2, -1));
    };
    write(&mut fixture);
    fixture.backend.committer().turn().unwrap();
    write(&mut fixture);
    // Now one batch is in the file, the next is being written, and a third is in memory.
    let (disk, committer) = (fixture.disk.clone(), fixture.backend.committer());
    let before = disk.calls().writes;
    let hung = disk.hang();
    std::thread::scope(|scope| {
        let hung = hung;
        let commit = scope.spawn(|| committer.turn().map(drop));
        wait_until("the batch is being written", || disk.calls().writes > before);
        write(&mut fixture);
        assert_all(&fixture);
        drop(hung);
        commit.join().unwrap().unwrap();
    });
    assert_all(&fixture);
    fixture.backend.committer().turn().unwrap();
    assert_all(&fixture);
}

/// etcd bugs 18089 and 19179: a watcher that starts at the compacted revision gets a tombstone at
/// that revision.
#[test]
fn bug_18089_19179_a_tombstone_at_the_compacted_revision_is_delivered() {
    let mut it = Fixture::new();
    let key = Bytes::from_static(b"a");
    it.change(&key, Some(Bytes::from_static(b"1")));
    it.change(&key, Some(Bytes::from_static(b"2")));
    it.change(&key, None); // 4
    it.change(&key, Some(Bytes::from_static(b"3")));
    it.compact(4);
    it.finish_compactions();
    let mut stream = it.stream();
    stream.create(&all_from(4)).unwrap();
    let responses = it.drain(&mut stream);
    assert_eq!(received(&responses), it.expected(4, 4));
    let revisions: Vec<_> = received(&responses).iter().map(|(revision, ..)| *revision).collect();
    assert_eq!(revisions, [4, 5]);

    let mut late = it.stream();
    late.create(&all_from(3)).unwrap();
    let told = it.drain(&mut late).pop().unwrap();
    assert_eq!((told.canceled, told.compact_revision), (true, 4));
}

/// A watch thread may still hold the predecessor after a snapshot replaced it.
#[test]
fn syncing_watchers_with_the_predecessor_loses_no_event() {
    let (mut old, mut new) = (Fixture::new(), Fixture::new());
    for it in [&mut old, &mut new] {
        it.change(&Bytes::from_static(b"a"), Some(Bytes::from_static(b"1")));
    }
    let mut stream = old.stream();
    stream.create(&all_from(2)).unwrap();
    for value in ["2", "3", "4"] {
        new.change(&Bytes::from_static(b"a"), Some(Bytes::from(value)));
    }
    let next = old.store.successor(new.backend.clone(), &NoLeases).unwrap();
    let mut visible = false;
    next.take_over(|| visible = true);
    assert!(visible, "the caller replaces what readers see");
    for _ in 0..3 {
        assert_eq!(old.store.sync_watchers().unwrap(), HubTurn::Again);
    }
    sync_watchers(&next);
    let mut responses = Vec::new();
    while let Some(response) = stream.next(&next).unwrap() {
        responses.push(response);
    }
    assert_eq!(received(&responses), new.expected(2, -1));
}

/// Watchers are created at any time, at any revision, while compactions run in small batches.
#[test]
fn watchers_get_every_change_exactly_once() {
    let mut befores = 0;
    for seed in 0..60 {
        let mut random = SeededRandom::new(seed);
        let mut roll = |below: u64| random.next_u64().unwrap() % below;
        let mut it = Fixture::new();
        let mut watching: Vec<(i64, Stream, Vec<Received>)> = Vec::new();
        for _ in 0..150 {
            match roll(12) {
                0 => {
                    let from = it.store.compacted().max(1) + i64::try_from(roll(8)).unwrap();
                    let stream = it.stream();
                    stream.create(&all_from(from)).unwrap();
                    watching.push((from, stream, Vec::new()));
                }
                1 if it.store.current() > it.store.compacted().max(1) => {
                    // All streams catch up first, so that the compaction cancels no watcher.
                    it.read_all(&mut watching);
                    let (low, high) = (it.store.compacted().max(1), it.store.current());
                    it.compact(low + 1 + i64::try_from(roll((high - low).unsigned_abs())).unwrap());
                }
                2 => drop(it.store.turn_compaction().unwrap()),
                3 => it.read_all(&mut watching[..]),
                _ => {
                    let key = Bytes::from(vec![b'a' + u8::try_from(roll(4)).unwrap()]);
                    let value = Bytes::from(roll(1000).to_string());
                    it.change(&key, Some(value).filter(|value| value.len() > 1));
                }
            }
        }
        it.read_all(&mut watching);
        for (from, _, received) in watching {
            let happened: Vec<_> =
                it.log.iter().filter(|(revision, ..)| *revision >= from).collect();
            let plain = received.iter().map(|(revision, key, value, _)| (revision, key, value));
            let actual: Vec<_> = plain.collect();
            let same = happened.iter().map(|(revision, key, value)| (revision, key, value));
            assert_eq!(actual, same.collect::<Vec<_>>(), "seed {seed}, from {from}");
            befores += received.iter().filter(|(.., before)| before.is_some()).count();
        }
    }
    assert!(befores > 1000, "only {befores} events had a previous value");
}
