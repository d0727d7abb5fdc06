//! Watchers on a real store: their events equal the changes of the store.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

use std::sync::Arc;
use std::time::Duration;

use backend::Backend;
use bytes::Bytes;
use env::{Random as _, SeededRandom, SimClock, SimDisk};
use mvcc::kv::KeyValueRef;
use mvcc::watch::{self, CreateRequest, Next, Response, Stream};
use mvcc::{CompactionTurn, Config, EventKind, NoLeases, WatchableStore};
use proto::etcdserverpb::{DeleteRangeRequest, PutRequest};

struct Fixture {
    backend: Backend,
    store: WatchableStore,
    /// All changes: revision, key, and the value, or `None` for a delete.
    log: Vec<(i64, Bytes, Option<Bytes>)>,
}

/// An event: revision, key, value, and previous value.
type Heard = (i64, Bytes, Option<Bytes>, Option<Bytes>);

impl Fixture {
    fn new() -> Fixture {
        let (disk, clock) = (Arc::new(SimDisk::new(0)), Arc::new(SimClock::default()));
        let backend =
            Backend::open(disk, clock, "db".as_ref(), backend::Config::default()).unwrap();
        let config = Config { compaction_batch_limit: 3 };
        let (watch, wake) = (watch::Config::default(), Arc::new(|| {}));
        let store = WatchableStore::open(backend.clone(), &NoLeases, config, &watch, wake).unwrap();
        Fixture { backend, store, log: Vec::new() }
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
        while self.store.turn_compaction().unwrap() != CompactionTurn::Idle {}
    }

    fn stream(&self) -> Stream {
        self.store.watch_stream(Arc::new(|| {}), Duration::ZERO, Duration::ZERO)
    }

    fn drain(&self, stream: &mut Stream) -> Vec<Response> {
        let mut all = Vec::new();
        loop {
            while self.store.sync_watchers().unwrap() == Next::Again {}
            match stream.next(&self.store).unwrap() {
                Some(response) => all.push(response),
                None => return all,
            }
        }
    }

    /// Reads all streams. A previous value has to be present if it is not compacted.
    fn read_all(&self, watching: &mut [(i64, Stream, Vec<Heard>)]) {
        for (_, stream, told) in watching {
            let said = heard(&self.drain(stream));
            let expected = self.expected(0, self.store.compacted());
            for one in &said {
                assert!(expected.contains(one), "{one:?} is not a change of the store");
            }
            told.extend(said);
        }
    }

    /// Returns the changes from a revision on, with previous values as far as they are not
    /// compacted.
    fn expected(&self, from: i64, compacted: i64) -> Vec<Heard> {
        let mut heard = Vec::new();
        for (at, (revision, key, value)) in self.log.iter().enumerate() {
            let before = self.log[..at].iter().rfind(|(_, other, _)| other == key);
            let before = before.and_then(|(_, _, value)| value.clone());
            if *revision >= from {
                let before = before.filter(|_| *revision > compacted);
                heard.push((*revision, key.clone(), value.clone(), before));
            }
        }
        heard
    }
}

fn value_of(kv: &Bytes) -> Bytes {
    kv.slice_ref(KeyValueRef::parse(kv).unwrap().value)
}

fn all_from(start_revision: i64) -> CreateRequest {
    let (key, range_end) = (Bytes::from_static(b"\0"), Bytes::from_static(b"\0"));
    CreateRequest { key, range_end, start_revision, prev_kv: true, ..CreateRequest::default() }
}

fn heard(responses: &[Response]) -> Vec<Heard> {
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
    assert_eq!(heard(&responses), it.expected(4, 4));
    let revisions: Vec<_> = heard(&responses).iter().map(|(revision, ..)| *revision).collect();
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
        assert_eq!(old.store.sync_watchers().unwrap(), Next::Again);
    }
    while next.sync_watchers().unwrap() == Next::Again {}
    let mut responses = Vec::new();
    while let Some(response) = stream.next(&next).unwrap() {
        responses.push(response);
    }
    assert_eq!(heard(&responses), new.expected(2, -1));
}

/// Watchers are created at any time, at any revision, while compactions run in small batches.
#[test]
fn watchers_get_every_change_exactly_once() {
    let mut befores = 0;
    for seed in 0..60 {
        let mut random = SeededRandom::new(seed);
        let mut roll = |below: u64| random.next_u64().unwrap() % below;
        let mut it = Fixture::new();
        let mut watching: Vec<(i64, Stream, Vec<Heard>)> = Vec::new();
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
        for (from, _, said) in watching {
            let happened: Vec<_> =
                it.log.iter().filter(|(revision, ..)| *revision >= from).collect();
            let plain = said.iter().map(|(revision, key, value, _)| (revision, key, value));
            let told: Vec<_> = plain.collect();
            let same = happened.iter().map(|(revision, key, value)| (revision, key, value));
            assert_eq!(told, same.collect::<Vec<_>>(), "seed {seed}, from {from}");
            befores += said.iter().filter(|(.., before)| before.is_some()).count();
        }
    }
    assert!(befores > 1000, "only {befores} events had a previous value");
}
