//! A store that is a log of changes, and clients that print responses in short form.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use mvcc::kv::KeyValueRef;
use mvcc::watch::{
    Config, CreateRequest, Filters, History, HistoryError, Hub, HubTurn, Limits, Response, Stream,
};
use mvcc::{Event, EventKind};
use types::Revision;

/// A change of a transaction.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Put(String, String),
    Delete(String),
}

pub(crate) fn put(key: &str, value: &str) -> Op {
    Op::Put(key.into(), value.into())
}

pub(crate) fn delete(key: &str) -> Op {
    Op::Delete(key.into())
}

/// All changes. Like etcd's store it begins at revision 1.
#[derive(Default)]
pub(crate) struct Log {
    state: Mutex<LogState>,
}

struct LogState {
    current: i64,
    compacted: i64,
    events: Vec<Event>,
    /// The encodings of each key by revision, `None` for a delete.
    values: BTreeMap<Bytes, Vec<(i64, Option<Bytes>)>>,
}

impl Default for LogState {
    fn default() -> LogState {
        LogState { current: 1, compacted: -1, events: Vec::new(), values: BTreeMap::new() }
    }
}

impl Log {
    pub(crate) fn current(&self) -> i64 {
        self.state().current
    }

    pub(crate) fn compact(&self, revision: i64) {
        self.state().compacted = revision;
    }

    /// Writes a transaction that is not visible yet. Returns its revision and events.
    pub(crate) fn write(&self, ops: &[Op]) -> (i64, Vec<Event>) {
        let mut state = self.state();
        let main = state.last() + 1;
        let events: Vec<Event> = ops
            .iter()
            .zip(0..)
            .map(|(op, sub)| state.apply(op, Revision::new(main, sub)))
            .collect();
        state.events.extend(events.iter().cloned());
        (main, events)
    }

    /// Makes a revision visible.
    pub(crate) fn show(&self, revision: i64) {
        self.state().current = revision;
    }

    /// Returns all events.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.state().events.clone()
    }

    /// Returns the events of some revisions.
    pub(crate) fn events_within(&self, from: i64, to: i64) -> Vec<Event> {
        let state = self.state();
        let within = |e: &&Event| (from..=to).contains(&e.revision.main);
        state.events.iter().filter(within).cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, LogState> {
        self.state.lock().unwrap()
    }
}

impl LogState {
    fn last(&self) -> i64 {
        self.events.last().map_or(1, |event| event.revision.main)
    }

    fn apply(&mut self, op: &Op, revision: Revision) -> Event {
        match op {
            Op::Put(key, value) => self.put(key, value, revision),
            Op::Delete(key) => {
                let event = Event::delete(revision, key.as_bytes());
                self.values.entry(event.key.clone()).or_default().push((revision.main, None));
                event
            }
        }
    }

    fn put(&mut self, key: &str, value: &str, revision: Revision) -> Event {
        let versions = self.values.entry(Bytes::copy_from_slice(key.as_bytes())).or_default();
        let before = versions.last().and_then(|(_, kv)| kv.clone());
        let before = before.as_ref().and_then(|kv| KeyValueRef::parse(kv));
        let kv = KeyValueRef {
            key: key.as_bytes(),
            value: value.as_bytes(),
            create_revision: before.map_or(revision.main, |kv| kv.create_revision),
            mod_revision: revision.main,
            version: before.map_or(0, |kv| kv.version) + 1,
            lease: 0,
        };
        let encoded = kv.encode();
        versions.push((revision.main, Some(encoded.clone())));
        Event::from_stored(revision, false, encoded).unwrap()
    }
}

impl History for Log {
    fn current(&self) -> i64 {
        Log::current(self)
    }

    fn compacted(&self) -> i64 {
        self.state().compacted
    }

    fn changes(
        &self,
        from: i64,
        to: i64,
        f: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<(), HistoryError> {
        assert!(to <= self.current(), "only visible revisions are read");
        let compacted = self.compacted();
        if from < compacted {
            return Err(HistoryError::Compacted(compacted));
        }
        let _ = self.events_within(from, to).into_iter().try_for_each(f);
        Ok(())
    }

    fn value_at(&self, key: &[u8], revision: i64) -> Result<Option<Bytes>, HistoryError> {
        let state = self.state();
        if revision < state.compacted {
            return Ok(None);
        }
        let versions = state.values.get(key).map_or(&[][..], |versions| versions);
        let version = versions.iter().rev().find(|(at, _)| *at <= revision);
        Ok(version.and_then(|(_, kv)| kv.clone()))
    }
}

/// A point within a turn where a test can interfere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadStep {
    /// After reading the compacted revision.
    Compacted,
    /// Before the first change.
    Start,
    /// Before each change.
    Change,
    /// After the last change.
    End,
}

/// A history that calls back while it is read.
pub(crate) struct InterceptedHistory<'a, F>(pub(crate) &'a Log, pub(crate) F);

impl<F: Fn(ReadStep)> History for InterceptedHistory<'_, F> {
    fn current(&self) -> i64 {
        self.0.current()
    }

    fn compacted(&self) -> i64 {
        let compacted = self.0.compacted();
        self.1(ReadStep::Compacted);
        compacted
    }

    fn changes(
        &self,
        from: i64,
        to: i64,
        f: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<(), HistoryError> {
        self.1(ReadStep::Start);
        self.0.changes(from, to, &mut |event| {
            self.1(ReadStep::Change);
            f(event)
        })?;
        self.1(ReadStep::End);
        Ok(())
    }

    fn value_at(&self, key: &[u8], revision: i64) -> Result<Option<Bytes>, HistoryError> {
        self.0.value_at(key, revision)
    }
}

/// A store with a hub.
#[derive(Clone)]
pub(crate) struct Fixture {
    pub(crate) log: Arc<Log>,
    pub(crate) hub: Hub,
    wakes: Arc<AtomicUsize>,
}

impl Fixture {
    pub(crate) fn new() -> Fixture {
        Fixture::with(&Config::default())
    }

    /// Creates a store with other bounds than the defaults.
    pub(crate) fn bounded(change: impl FnOnce(&mut Limits)) -> Fixture {
        let mut config = Config::default();
        change(&mut config.limits);
        Fixture::with(&config)
    }

    pub(crate) fn with(config: &Config) -> Fixture {
        let wakes = Arc::new(AtomicUsize::new(0));
        let hub = Hub::new(1, config, counter(&wakes));
        Fixture { log: Arc::new(Log::default()), hub, wakes }
    }

    /// Writes a transaction. Returns its revision.
    pub(crate) fn write(&self, ops: &[Op]) -> i64 {
        let (revision, events) = self.log.write(ops);
        self.hub.publish(revision, &events, || self.log.show(revision));
        revision
    }

    pub(crate) fn put(&self, key: &str, value: &str) -> i64 {
        self.write(&[put(key, value)])
    }

    pub(crate) fn delete(&self, key: &str) -> i64 {
        self.write(&[delete(key)])
    }

    /// Replaces the store by one that also has these transactions.
    pub(crate) fn receive_snapshot(&self, transactions: &[&[Op]]) -> i64 {
        transactions.iter().for_each(|ops| drop(self.log.write(ops)));
        let revision = self.log.state().last();
        self.hub.restore(revision, || self.log.show(revision));
        revision
    }

    pub(crate) fn client(&self) -> Client {
        self.client_at(Duration::ZERO, Duration::ZERO)
    }

    pub(crate) fn client_at(&self, now: Duration, jitter: Duration) -> Client {
        let notified = Arc::new(AtomicUsize::new(0));
        let stream = self.hub.stream(counter(&notified), now, jitter);
        Client { stream, log: Arc::clone(&self.log), notified }
    }

    pub(crate) fn turn(&self) -> HubTurn {
        self.hub.turn(&*self.log).unwrap()
    }

    /// Takes turns until the hub is idle. Returns their number.
    pub(crate) fn settle(&self) -> usize {
        (1..10_000)
            .find(|_| self.turn() == HubTurn::Idle)
            .expect("the hub is idle after 10,000 turns")
    }

    /// Returns how often the hub requested a turn since the last call.
    pub(crate) fn wakes(&self) -> usize {
        self.wakes.swap(0, Ordering::Relaxed)
    }
}

fn counter(count: &Arc<AtomicUsize>) -> mvcc::watch::Notify {
    let count = Arc::clone(count);
    Arc::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
    })
}

/// A client with one stream.
pub(crate) struct Client {
    pub(crate) stream: Stream,
    log: Arc<Log>,
    notified: Arc<AtomicUsize>,
}

impl Client {
    /// Creates a watcher and reads the answer, which has to be the next response. Returns the id.
    pub(crate) fn watch(&mut self, request: &CreateRequest) -> i64 {
        let id = self.stream.create(request).unwrap().expect("the request is accepted");
        let answer = self.next().expect("an answer");
        assert!(answer.created && !answer.canceled && answer.watch_id == id, "{answer:?}");
        id
    }

    /// Returns the next response.
    pub(crate) fn next(&mut self) -> Option<Response> {
        self.stream.next(&*self.log).unwrap()
    }

    /// Returns all responses in short form.
    pub(crate) fn read(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.next()).map(|response| short(&response)).collect()
    }

    /// Returns how often the client was notified since the last call.
    pub(crate) fn notified(&self) -> usize {
        self.notified.swap(0, Ordering::Relaxed)
    }
}

/// A watcher of one key, from now on.
pub(crate) fn key(key: &str) -> CreateRequest {
    CreateRequest { key: Bytes::copy_from_slice(key.as_bytes()), ..CreateRequest::default() }
}

/// A watcher of a range.
pub(crate) fn range(from: &str, end: &str) -> CreateRequest {
    CreateRequest { range_end: Bytes::copy_from_slice(end.as_bytes()), ..key(from) }
}

/// A watcher of all keys.
pub(crate) fn everything() -> CreateRequest {
    range("", "\0")
}

/// Sets the start revision.
pub(crate) fn from(start_revision: i64, request: CreateRequest) -> CreateRequest {
    CreateRequest { start_revision, ..request }
}

pub(crate) fn no_put() -> Filters {
    Filters { no_put: true, no_delete: false }
}

pub(crate) fn no_delete() -> Filters {
    Filters { no_put: false, no_delete: true }
}

/// A response in a line: `0 @7: a=1@6 b-@7 fragment`.
pub(crate) fn short(response: &Response) -> String {
    let mut line = format!("{} @{}:", response.watch_id, response.revision);
    let mut word = |is: bool, text: String| {
        if is {
            line.push(' ');
            line.push_str(&text);
        }
    };
    word(response.created, "created".into());
    word(response.canceled, "canceled".into());
    word(response.compact_revision != 0, format!("compacted {}", response.compact_revision));
    word(!response.cancel_reason.is_empty(), format!("({})", response.cancel_reason));
    for watched in &response.events {
        let before = watched.prev_kv.as_ref().map(|kv| value(kv));
        let before = before.map_or(String::new(), |value| format!(" (was {value})"));
        word(true, format!("{}{before}", short_event(&watched.event)));
    }
    word(response.fragment, "fragment".into());
    line
}

/// An event in short form: `a=1@6`, or `a-@7` for a delete.
pub(crate) fn short_event(event: &Event) -> String {
    let (name, revision) = (String::from_utf8_lossy(&event.key), event.revision.main);
    match event.kind {
        EventKind::Put => format!("{name}={}@{revision}", value(&event.kv)),
        EventKind::Delete => format!("{name}-@{revision}"),
    }
}

fn value(kv: &[u8]) -> String {
    String::from_utf8_lossy(KeyValueRef::parse(kv).unwrap().value).into_owned()
}
