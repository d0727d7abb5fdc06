//! Random sequences: all responses are checked against the log of changes.
//!
//! A seed determines the bounds, mostly tiny, and every step: writes, compactions, snapshots,
//! watchers of all kinds, cancellations, progress requests, clients that read little or nothing,
//! and turns during which all of that happens too. Each client checks every response. At the end
//! all clients read until nothing is left, and must have every event.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use env::SeededRandom;
use mvcc::watch::{
    Busy, Config, CreateRequest, Filters, History as _, HubTurn, Limits, NO_WATCH_ID, Response,
    WatchedEvent,
};
use mvcc::{Event, EventKind};

use crate::model::{
    Client, Fixture, InterceptedHistory, Op, ReadStep, delete, put, short, short_event,
};

const SEEDS: u64 = 3000;
const STEPS: u64 = 120;
const CLIENTS: u64 = 3;
const KEYS: [&str; 5] = ["a", "ab", "b", "c", "d"];

#[test]
fn clients_get_exactly_the_changes_of_the_log() {
    let mut seen = Seen::default();
    for seed in 0..SEEDS {
        let named = Named(seed);
        Run::new(seed).all(&mut seen);
        drop(named);
    }
    seen.check();
}

/// Prints the seed of a run that fails.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with seed {}", self.0);
        }
    }
}

/// Counts of what occurred, so that a test without effect fails.
#[derive(Debug, Default)]
struct Seen {
    events: u64,
    prev_kvs: u64,
    fragments: u64,
    progress: u64,
    stream_progress: u64,
    ended: u64,
    canceled: u64,
    busy: u64,
}

impl Seen {
    fn check(&self) {
        let counts = [
            self.events,
            self.prev_kvs,
            self.fragments,
            self.progress,
            self.stream_progress,
            self.ended,
            self.canceled,
            self.busy,
        ];
        assert!(counts.iter().all(|&count| count > SEEDS / 10), "{self:?}");
    }
}

struct Run {
    fixture: Fixture,
    random: RefCell<SeededRandom>,
    clients: Vec<RefCell<Checker>>,
    now: RefCell<Duration>,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut random = SeededRandom::new(seed);
        let config = Config {
            limits: limits(&mut random),
            fragment_bytes: usize::try_from(60 + random.below(200)).unwrap(),
            ..Config::default()
        };
        let fixture = Fixture::with(&config);
        let clients = (0..CLIENTS).map(|_| RefCell::new(Checker::new(&fixture))).collect();
        Run { fixture, random: RefCell::new(random), clients, now: RefCell::default() }
    }

    fn all(&self, seen: &mut Seen) {
        for _ in 0..STEPS {
            match self.below(8) {
                0 => self.turn(),
                1 | 2 => self.read(seen),
                _ => self.meddle(),
            }
        }
        self.finish(seen);
        seen.busy += self.clients.iter().map(|client| client.borrow().busy).sum::<u64>();
    }

    /// Takes a turn, with other steps in between.
    fn turn(&self) {
        let history = InterceptedHistory(&self.fixture.log, |_: ReadStep| {
            if self.below(4) == 0 {
                self.meddle();
            }
        });
        self.fixture.hub.turn(&history).unwrap();
    }

    /// Reads some responses of a client.
    fn read(&self, seen: &mut Seen) {
        let mut client = self.any_client().borrow_mut();
        for _ in 0..self.below(6) {
            client.read_one(&self.fixture, seen);
        }
    }

    /// Executes a random step.
    fn meddle(&self) {
        match self.below(20) {
            0..8 => self.write(),
            8..12 => {
                let request = self.request();
                self.any_client().borrow_mut().create(request);
            }
            12..14 => self.any_client().borrow_mut().request_progress(),
            14 => {
                let pick = self.below(10);
                self.any_client().borrow_mut().cancel(pick);
            }
            15 => self.compact(),
            16 => self.snapshot(),
            17..19 => {
                *self.now.borrow_mut() += Duration::from_secs(60 * self.below(12));
                self.fixture.hub.tick_progress(*self.now.borrow());
            }
            _ => {
                let i = usize::try_from(self.below(CLIENTS)).unwrap();
                if self.below(4) == 0 {
                    self.clients[i].replace(Checker::new(&self.fixture));
                }
            }
        }
    }

    fn write(&self) {
        self.fixture.write(&self.transaction());
    }

    fn compact(&self) {
        let (compacted, current) =
            (self.fixture.log.compacted().max(0), self.fixture.log.current());
        let step = self.below(current.abs_diff(compacted) + 1).cast_signed();
        self.fixture.log.compact(compacted + step);
    }

    fn snapshot(&self) {
        let transactions: Vec<_> = (0..1 + self.below(3)).map(|_| self.transaction()).collect();
        let slices: Vec<&[Op]> = transactions.iter().map(|ops| &ops[..]).collect();
        self.fixture.receive_snapshot(&slices);
    }

    /// Generates changes of different keys.
    fn transaction(&self) -> Vec<Op> {
        let keys: BTreeSet<&str> = (0..1 + self.below(3)).map(|_| self.key()).collect();
        keys.into_iter().map(|key| self.op(key)).collect()
    }

    fn op(&self, key: &str) -> Op {
        match self.below(4) {
            0 => delete(key),
            n => put(key, &"x".repeat(usize::try_from(n * self.below(20)).unwrap())),
        }
    }

    fn request(&self) -> CreateRequest {
        let current = self.fixture.log.current().cast_unsigned();
        let start_revision = match self.below(4) {
            0 => 0,
            1 => current + self.below(5),
            _ => self.below(current + 1),
        };
        let ends = ["", "", "b", "c", "e", "\0"];
        CreateRequest {
            key: self.key().into(),
            range_end: ends[usize::try_from(self.below(6)).unwrap()].into(),
            start_revision: start_revision.cast_signed(),
            watch_id: self.below(4).cast_signed() * 10,
            filters: Filters { no_put: self.below(6) == 0, no_delete: self.below(6) == 0 },
            progress_notify: self.below(2) == 0,
            prev_kv: self.below(2) == 0,
            fragment: self.below(2) == 0,
        }
    }

    /// Reads until no client gets a response.
    fn finish(&self, seen: &mut Seen) {
        for _ in 0..10_000 {
            let next = self.fixture.turn();
            let read = self.clients.iter().map(|c| c.borrow_mut().read_all(&self.fixture, seen));
            if read.sum::<usize>() == 0 && next == HubTurn::Idle {
                break;
            }
        }
        assert_eq!((self.fixture.hub.slow_watchers(), self.fixture.hub.pending_events()), (0, 0));
        let mut watchers = 0;
        for client in &self.clients {
            let mut client = client.borrow_mut();
            client.check_complete(&self.fixture);
            watchers += client.live.len();
            // All watchers are synced now: a stream whose watchers have reached their start
            // revision gets an answer.
            let begun = client
                .live
                .values()
                .all(|w| w.request.start_revision <= self.fixture.log.current());
            let answered = client.client.stream.request_progress().unwrap();
            assert_eq!(answered, begun && !client.live.is_empty());
            client.read_all(&self.fixture, seen);
        }
        assert_eq!(self.fixture.hub.watchers(), watchers);
    }

    fn any_client(&self) -> &RefCell<Checker> {
        &self.clients[usize::try_from(self.below(CLIENTS)).unwrap()]
    }

    fn key(&self) -> &'static str {
        KEYS[usize::try_from(self.below(5)).unwrap()]
    }

    fn below(&self, bound: u64) -> u64 {
        self.random.borrow_mut().below(bound)
    }
}

fn limits(random: &mut SeededRandom) -> Limits {
    if random.below(8) == 0 {
        return Limits::default();
    }
    let mut below = |bound: u64| usize::try_from(random.below(bound)).unwrap();
    Limits {
        stream_responses: 1 + below(6),
        stream_bytes: 1 + below(2000),
        stream_answers: 1 + below(6),
        victim_bytes: below(1000),
        // An id that the stream no longer remembers gets no answer, which another test covers.
        canceled_ids: usize::MAX,
        turn_watchers: 1 + below(6),
        turn_changes: 1 + below(10),
        turn_bytes: 1 + below(2000),
        catch_up_revisions: 1 + below(6),
        catch_up_bytes: 1 + below(1000),
        tail_events: below(6),
        tail_bytes: below(1000),
        drop_watchers: 1 + below(3),
    }
}

/// A client that knows which responses it may get.
struct Checker {
    client: Client,
    /// Requests without an answer, in order.
    pending: Vec<PendingRequest>,
    live: BTreeMap<i64, Expected>,
    /// Watchers canceled by a compaction, which can be canceled once more.
    ended: BTreeSet<i64>,
    busy: u64,
}

enum PendingRequest {
    Created(i64, CreateRequest),
    Refused,
    Canceled(i64),
    Progress,
}

/// A watcher as the client sees it.
struct Expected {
    request: CreateRequest,
    /// The first revision it may get.
    from: i64,
    /// The number of events that it got.
    got: usize,
    /// The last revision of an event or a progress response.
    last: i64,
    in_fragments: bool,
}

impl Checker {
    fn new(fixture: &Fixture) -> Checker {
        let (pending, live, ended) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
        Checker { client: fixture.client(), pending, live, ended, busy: 0 }
    }

    fn create(&mut self, request: CreateRequest) {
        match self.client.stream.create(&request) {
            Ok(Some(id)) => self.pending.push(PendingRequest::Created(id, request)),
            Ok(None) => self.pending.push(PendingRequest::Refused),
            Err(Busy) => self.busy += 1,
        }
    }

    fn request_progress(&mut self) {
        match self.client.stream.request_progress() {
            Ok(true) => self.pending.push(PendingRequest::Progress),
            Ok(false) => {}
            Err(Busy) => self.busy += 1,
        }
    }

    fn cancel(&mut self, pick: u64) {
        // At most the expected answers, each once: whether there is one is tested elsewhere.
        let pending = |id: i64| {
            self.pending.iter().any(|a| matches!(a, PendingRequest::Canceled(i) if *i == id))
        };
        let mut known = self.live.keys().copied().filter(|&id| !pending(id));
        let Some(id) = known.nth(usize::try_from(pick).unwrap()) else { return };
        drop(known);
        match self.client.stream.cancel(id) {
            Ok(()) => self.pending.push(PendingRequest::Canceled(id)),
            Err(Busy) => self.busy += 1,
        }
    }

    fn read_all(&mut self, fixture: &Fixture, seen: &mut Seen) -> usize {
        std::iter::from_fn(|| self.read_one(fixture, seen).then_some(())).count()
    }

    fn read_one(&mut self, fixture: &Fixture, seen: &mut Seen) -> bool {
        let Some(response) = self.client.next() else { return false };
        if !response.events.is_empty() {
            self.on_events(fixture, &response, seen);
        } else if response.created {
            self.on_created(&response);
        } else if response.compact_revision != 0 {
            seen.ended += 1;
            self.on_ended(fixture, &response);
        } else if response.canceled {
            seen.canceled += 1;
            self.on_canceled(&response);
        } else {
            self.on_progress(fixture, &response, seen);
        }
        true
    }

    fn on_created(&mut self, response: &Response) {
        match self.pending.remove(0) {
            PendingRequest::Created(id, request) => {
                assert!(!response.canceled && response.watch_id == id, "{}", short(response));
                let now = response.revision;
                let from =
                    if request.start_revision == 0 { now + 1 } else { request.start_revision };
                let expected = Expected { request, from, got: 0, last: 0, in_fragments: false };
                assert!(self.live.insert(id, expected).is_none(), "created twice");
            }
            PendingRequest::Refused => {
                assert!(response.canceled && response.watch_id == NO_WATCH_ID);
            }
            _ => panic!("unexpected response {}", short(response)),
        }
    }

    fn on_events(&mut self, fixture: &Fixture, response: &Response, seen: &mut Seen) {
        let watcher =
            self.live.get_mut(&response.watch_id).expect("the watcher is created and not canceled");
        seen.events += response.events.len() as u64;
        seen.fragments += u64::from(response.fragment);
        watcher.check_events(fixture, response);
        seen.prev_kvs += response.events.iter().filter(|e| e.prev_kv.is_some()).count() as u64;
    }

    fn on_ended(&mut self, fixture: &Fixture, response: &Response) {
        let watcher = self.live.remove(&response.watch_id).expect("the watcher is created");
        assert!(response.canceled && response.revision == 0);
        assert!(response.compact_revision <= fixture.log.compacted());
        assert!(!watcher.in_fragments);
        // The cancellation has a reason: the next revision is compacted.
        let next = watcher.from.max(watcher.last + 1);
        assert!(next < response.compact_revision, "{next}: {}", short(response));
        self.ended.insert(response.watch_id);
    }

    fn on_canceled(&mut self, response: &Response) {
        let id = response.watch_id;
        assert!(
            matches!(self.pending.remove(0), PendingRequest::Canceled(pending) if pending == id)
        );
        let known = self.live.remove(&id).is_some() || self.ended.remove(&id);
        assert!(known, "{}", short(response));
    }

    fn on_progress(&mut self, fixture: &Fixture, response: &Response, seen: &mut Seen) {
        assert!(response.revision > 0, "{}", short(response));
        if response.watch_id == NO_WATCH_ID {
            seen.stream_progress += 1;
            // The answer to the first progress request; those before it are answered.
            if matches!(self.pending.first(), Some(PendingRequest::Progress)) {
                self.pending.remove(0);
            }
            assert!(!self.live.is_empty());
            self.live.values_mut().for_each(|w| w.check_progress(fixture, response.revision));
        } else {
            seen.progress += 1;
            let watcher = self.live.get_mut(&response.watch_id).expect("the watcher is created");
            assert!(watcher.request.progress_notify);
            watcher.check_progress(fixture, response.revision);
        }
    }

    fn check_complete(&self, fixture: &Fixture) {
        assert!(self.pending.is_empty(), "all requests are answered");
        for (id, watcher) in &self.live {
            let expected = watcher.expected(fixture);
            assert_eq!(watcher.got, expected.len(), "watcher {id}");
        }
    }
}

impl Expected {
    /// Returns all events that the watcher has to get.
    fn expected(&self, fixture: &Fixture) -> Vec<Event> {
        let mut events = fixture.log.events();
        events.retain(|event| {
            event.revision.main <= fixture.log.current()
                && event.revision.main >= self.from
                && self.wants(event)
        });
        events
    }

    fn wants(&self, event: &Event) -> bool {
        let (key, end) = (&self.request.key, &self.request.range_end);
        let within = match &end[..] {
            b"" => event.key == *key,
            b"\0" => event.key >= *key,
            _ => event.key >= *key && event.key < *end,
        };
        within
            && match event.kind {
                EventKind::Put => !self.request.filters.no_put,
                EventKind::Delete => !self.request.filters.no_delete,
            }
    }

    fn check_events(&mut self, fixture: &Fixture, response: &Response) {
        let expected = self.expected(fixture);
        for watched in &response.events {
            let next = expected.get(self.got).map(short_event);
            assert_eq!(Some(short_event(&watched.event)), next, "events are delivered in order");
            self.check_previous(fixture, watched);
            self.got += 1;
        }
        self.in_fragments = response.fragment;
        assert!(!response.fragment || self.request.fragment);
        self.last = expected[self.got - 1].revision.main;
        assert!(response.revision >= self.last, "{}", short(response));
        // A revision is complete, at the latest with the last fragment.
        let split = expected.get(self.got).is_some_and(|e| e.revision.main == self.last);
        assert!(!split || response.fragment, "{}", short(response));
    }

    fn check_previous(&self, fixture: &Fixture, watched: &WatchedEvent) {
        let event = &watched.event;
        let before = fixture.log.value_at(&event.key, event.revision.main - 1).unwrap();
        let expected = before.filter(|_| self.request.prev_kv && !event.created);
        // A response is split after previous values were read: a compaction in between does not
        // remove them.
        if watched.prev_kv.is_none() || expected.is_some() || !self.request.fragment {
            assert_eq!(watched.prev_kv, expected);
        }
    }

    fn check_progress(&mut self, fixture: &Fixture, revision: i64) {
        let mut expected = self.expected(fixture);
        expected.retain(|event| event.revision.main <= revision);
        assert!(self.got >= expected.len(), "progress {revision} precedes an event that it covers");
        assert!(revision >= self.request.start_revision, "progress before the start revision");
        assert!(!self.in_fragments);
        self.last = self.last.max(revision);
    }
}
