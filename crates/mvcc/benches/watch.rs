//! The cost of watchers: `cargo bench -p mvcc --bench watch`.
//!
//! Publishes one put of 1 KiB to ten thousand watchers, each in its own stream, of which all or
//! none want it; reads the events; catches up; and measures the memory of a watcher. Each figure is
//! the median of many rounds, with the fastest and the slowest. Counting allocations costs a little
//! in every figure.
//!
//! `-- --quick` runs with few watchers, as a smoke test. So does `cargo test --benches`.

#![expect(clippy::disallowed_types, reason = "a benchmark measures time")]

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use mvcc::Event;
use mvcc::kv::KeyValueRef;
use mvcc::watch::{Config, CreateRequest, History, HistoryError, Hub, HubTurn, Stream};
use proto::etcdserverpb::ResponseHeader;
use types::Revision;

const VALUE: [u8; 1024] = [7; 1024];

/// The size of a measurement.
#[derive(Clone, Copy)]
struct Effort {
    rounds: usize,
    watchers: usize,
}

const FULL: Effort = Effort { rounds: 200, watchers: 10_000 };
const QUICK: Effort = Effort { rounds: 3, watchers: 100 };

fn main() {
    let has = |flag: &str| std::env::args().any(|argument| argument == flag);
    // `cargo bench` passes `--bench`, `cargo test` does not.
    let effort = if has("--bench") && !has("--quick") { FULL } else { QUICK };
    let watchers = effort.watchers;

    println!("one event of 1 KiB, {watchers} watchers, each in its own stream\n");
    println!(
        "{:<44} {:>12} {:>26} {:>12}",
        "publish", "median", "fastest .. slowest", "allocations"
    );
    publish(effort, "to all, of the same key", watchers, |_| key("hot"));
    publish(effort, "to all, of the same range", watchers, |_| range("h", "i"));
    publish(effort, "to all, each of its own range", watchers, |i| range("h", &format!("i{i}")));
    publish(effort, "to none, each of its own key", 0, |i| key(&format!("cold{i}")));
    publish(effort, "to none, each of its own range", 0, |i| {
        range(&format!("cold{i:06}a"), &format!("cold{i:06}b"))
    });
    publish(Effort { watchers: 0, ..effort }, "with no watcher at all", 0, |_| key(""));

    println!();
    read(effort);
    catch_up(effort);

    println!("\n{:<44} {:>12}", "memory", "bytes");
    memory(effort, "a watcher of its own key, in a shared stream", |i| key(&format!("key{i:08}")));
    memory(effort, "a watcher of the same key", |_| key("hot"));
    memory(effort, "a watcher of its own range", |i| range(&format!("key{i:08}"), "l"));
    memory_of_streams(effort);
}

/// Publishes to watchers, of which `interested` want the event.
fn publish(
    effort: Effort,
    name: &str,
    interested: usize,
    request: impl Fn(usize) -> CreateRequest,
) {
    let hub = hub();
    let mut streams = streams(&hub, effort.watchers, request);
    let mut revision = 1;
    let mut allocations = 0;
    let times = (0..effort.rounds).map(|_| {
        revision += 1;
        let event = event(revision);
        let mut time = Duration::ZERO;
        let counted = allocation_counter::measure(|| {
            let start = Instant::now();
            hub.publish(revision, std::slice::from_ref(&event), || ());
            time = start.elapsed();
        });
        allocations = counted.count_total;
        assert_eq!(hub.pending_events(), interested);
        streams
            .iter_mut()
            .for_each(|stream| drop(stream.next(&EventHistory(&[])).expect("no history is read")));
        time
    });
    let times = times.collect();
    println!("{name:<44} {} {allocations:>12}", Figures(times));
}

/// Reads and encodes the events of all watchers.
fn read(effort: Effort) {
    let hub = hub();
    let mut streams = streams(&hub, effort.watchers, |_| key("hot"));
    let header = ResponseHeader { cluster_id: 1, member_id: 2, revision: 0, raft_term: 3 };
    let mut out = BytesMut::new();
    let times = (2..).take(effort.rounds).map(|revision| {
        hub.publish(revision, &[event(revision)], || ());
        let start = Instant::now();
        for stream in &mut streams {
            let response =
                stream.next(&EventHistory(&[])).expect("no history is read").expect("a response");
            out.clear();
            response.encode(&header, &mut out);
        }
        start.elapsed()
    });
    println!("{:<44} {}", "read and encode by all", Figures(times.collect()));
    assert!(out.len() > VALUE.len());
}

/// Measures watchers that start a thousand revisions ago.
fn catch_up(effort: Effort) {
    let history: Vec<Event> = (2..1002).map(event).collect();
    let times = (0..effort.rounds.min(5)).map(|_| {
        let hub = Hub::new(1001, &Config::default(), Arc::new(|| ()));
        let from_start = || CreateRequest { start_revision: 2, ..key("hot") };
        let streams = streams(&hub, effort.watchers, |_| from_start());
        let start = Instant::now();
        while hub.turn(&EventHistory(&history)) != Ok(HubTurn::Idle) {}
        let time = start.elapsed();
        assert_eq!((hub.slow_watchers(), streams.len()), (0, effort.watchers));
        time
    });
    println!("{:<44} {}", "catch up 1000 revisions each, all", Figures(times.collect()));
}

fn memory(effort: Effort, name: &str, request: impl Fn(usize) -> CreateRequest) {
    let hub = hub();
    let mut stream = hub.stream(Arc::new(|| ()), Duration::ZERO, Duration::ZERO);
    let counted = allocation_counter::measure(|| {
        (0..effort.watchers).for_each(|i| create(&mut stream, &request(i)));
    });
    println!("{name:<44} {:>12}", per(counted.bytes_current, effort.watchers));
}

fn memory_of_streams(effort: Effort) {
    let hub = hub();
    let mut held_streams = Vec::with_capacity(effort.watchers);
    let counted = allocation_counter::measure(|| {
        held_streams = streams(&hub, effort.watchers, |i| key(&format!("key{i:08}")));
    });
    println!(
        "{:<44} {:>12}",
        "a stream with one watcher",
        per(counted.bytes_current, held_streams.len())
    );
}

fn per(bytes: i64, count: usize) -> i64 {
    bytes / i64::try_from(count).expect("the count fits into an i64")
}

fn hub() -> Hub {
    Hub::new(1, &Config::default(), Arc::new(|| ()))
}

fn streams(hub: &Hub, count: usize, request: impl Fn(usize) -> CreateRequest) -> Vec<Stream> {
    let stream = |i| {
        let mut stream = hub.stream(Arc::new(|| ()), Duration::ZERO, Duration::ZERO);
        create(&mut stream, &request(i));
        stream
    };
    (0..count).map(stream).collect()
}

/// Creates a watcher and reads the answer.
fn create(stream: &mut Stream, request: &CreateRequest) {
    assert!(stream.create(request).expect("the response queue has room").is_some());
    assert!(
        stream
            .next(&EventHistory(&[]))
            .expect("no history is read")
            .is_some_and(|answer| answer.created)
    );
}

fn key(key: &str) -> CreateRequest {
    CreateRequest { key: Bytes::copy_from_slice(key.as_bytes()), ..CreateRequest::default() }
}

fn range(from: &str, end: &str) -> CreateRequest {
    CreateRequest { range_end: Bytes::copy_from_slice(end.as_bytes()), ..key(from) }
}

fn event(revision: i64) -> Event {
    let kv = KeyValueRef {
        key: b"hot",
        value: &VALUE,
        create_revision: 2,
        mod_revision: revision,
        version: 1,
        lease: 0,
    };
    Event::from_stored(Revision::new(revision, 0), false, kv.encode()).expect("just encoded")
}

/// A history with one change in each revision, from 2 on.
struct EventHistory<'a>(&'a [Event]);

impl History for EventHistory<'_> {
    fn current(&self) -> i64 {
        self.0.last().map_or(1, |event| event.revision.main)
    }

    fn compacted(&self) -> i64 {
        -1
    }

    fn changes(
        &self,
        from: i64,
        to: i64,
        f: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<(), HistoryError> {
        let within = |event: &&Event| (from..=to).contains(&event.revision.main);
        let _ = self.0.iter().filter(within).cloned().try_for_each(f);
        Ok(())
    }

    fn value_at(&self, _: &[u8], _: i64) -> Result<Option<Bytes>, HistoryError> {
        Ok(None)
    }
}

/// The durations of the rounds.
struct Figures(Vec<Duration>);

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut times = self.0.clone();
        times.sort_unstable();
        let (fastest, slowest) = (times[0], times[times.len() - 1]);
        let spread = format!("{fastest:.1?} .. {slowest:.1?}");
        write!(f, "{:>12} {spread:>26}", format!("{:.1?}", times[times.len() / 2]))
    }
}
