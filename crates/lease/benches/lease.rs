//! The cost of leases: `cargo bench -p lease`.
//!
//! Grants a million leases of one minute, restores them as after a restart, promotes the lessor,
//! renews from one thread and from two, takes turns, and lets the leases expire. Rates are medians
//! of several rounds, with the slowest and the fastest; bytes are those currently allocated.
//! Counting costs a little in every figure.
//!
//! `cargo bench -p lease -- --quick` runs with few leases, as a smoke test. So does `cargo test
//! --benches`.

#![expect(clippy::disallowed_types, reason = "a benchmark measures time")]
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use backend::Backend;
use env::{SeededRandom, SimClock, SimDisk};
use lease::{Config, EXPIRED_PER_TURN_MAX, Lessor, Renewal, TURN_INTERVAL};
use types::LeaseId;

/// The TTL of every lease in seconds.
const TTL: i64 = 60;
/// Grants per transaction.
const BATCH: usize = 1000;

/// The size of a measurement.
#[derive(Clone, Copy)]
struct Effort {
    leases: usize,
    rounds: usize,
    /// Renewals per round.
    renewals: u64,
}

const FULL: Effort = Effort { leases: 1_000_000, rounds: 9, renewals: 2_000_000 };
const QUICK: Effort = Effort { leases: 5_000, rounds: 1, renewals: 5_000 };

fn main() {
    let has = |flag: &str| std::env::args().any(|argument| argument == flag);
    // `cargo bench` passes `--bench`, `cargo test` does not.
    let effort = if has("--bench") && !has("--quick") { FULL } else { QUICK };
    println!("{} leases\n", effort.leases);

    let backend = database();
    grant_and_revoke(&backend, effort);
    let lessor = restore(&backend, effort);
    promote(&lessor, effort);
    renew(&lessor, effort, 1);
    renew(&lessor, effort, 2);
    turns(&lessor, effort);
    attach(&lessor, effort);
}

fn database() -> Backend {
    let (disk, clock) = (Arc::new(SimDisk::new(0)), Arc::new(SimClock::default()));
    Backend::open(disk, clock, "db".as_ref(), backend::Config::default()).unwrap()
}

/// Returns the nth id, distributed like random ids of clients.
fn id(n: usize) -> LeaseId {
    LeaseId(SeededRandom::new(n as u64).next().cast_signed() | 1)
}

/// Grants all leases in the database, then revokes and grants a part of them repeatedly.
fn grant_and_revoke(backend: &Backend, effort: Effort) {
    let lessor = Lessor::new(Config::default());
    lessor.promote(Duration::ZERO, Duration::ZERO);
    let start = Instant::now();
    for from in (0..effort.leases).step_by(BATCH) {
        let mut tx = backend.begin();
        for n in from..from + BATCH {
            lessor.grant(&mut tx, id(n), TTL, Duration::ZERO).unwrap();
        }
        tx.commit().unwrap();
    }
    let took = start.elapsed();
    println!("grant, {BATCH} in a transaction {:>12.0} /s", rate(effort.leases as u64, took));

    let part = effort.leases / 10;
    let figures = Figures::measure(effort, 2 * part as u64, || {
        let mut tx = backend.begin();
        (0..part).for_each(|n| drop(lessor.revoke(&mut tx, id(n)).unwrap()));
        for n in 0..part {
            lessor.grant(&mut tx, id(n), TTL, Duration::ZERO).unwrap();
        }
        tx.commit().unwrap();
    });
    println!("revoke and grant again       {figures}");
    assert_eq!(lessor.len(), effort.leases);
}

/// Restores the database, as after a restart.
fn restore(backend: &Backend, effort: Effort) -> Lessor {
    let view = backend.view();
    let lessor = Lessor::new(Config::default());
    let start = Instant::now();
    let heap_bytes = heap_bytes_of(|| lessor.restore(&view).unwrap());
    let took = start.elapsed();
    assert_eq!(lessor.len(), effort.leases);
    println!("restore                      {:>12.0} /s", rate(effort.leases as u64, took));
    println!(
        "a follower keeps             {:>12.1} bytes a lease",
        heap_bytes / effort.leases as f64
    );
    lessor
}

/// Promotes the lessor while another thread renews and measures its waits.
fn promote(lessor: &Lessor, effort: Effort) {
    let heap_bytes = heap_bytes_of(|| lessor.promote(Duration::ZERO, Duration::ZERO));
    println!(
        "a leader keeps, on top       {:>12.1} bytes a lease",
        heap_bytes / effort.leases as f64
    );
    lessor.demote();

    let done = AtomicBool::new(false);
    let (took, waited) = std::thread::scope(|scope| {
        let renewer = scope.spawn(|| longest_renewal(lessor, effort, &done));
        let took = time(|| lessor.promote(Duration::from_secs(1), Duration::ZERO));
        done.store(true, Ordering::Relaxed);
        (took, renewer.join().unwrap())
    });
    println!("promote                      {:>12.1} ms", took.as_secs_f64() * 1e3);
    println!("longest renewal meanwhile    {:>12.1} us", waited.as_secs_f64() * 1e6);
}

fn longest_renewal(lessor: &Lessor, effort: Effort, done: &AtomicBool) -> Duration {
    let (mut random, mut longest) = (SeededRandom::new(1), Duration::ZERO);
    while !done.load(Ordering::Relaxed) {
        let id = id(below(&mut random, effort.leases));
        longest = longest.max(time(|| {
            // Refused until the shard is promoted.
            let _ = lessor.renew(id, Duration::ZERO);
        }));
    }
    longest
}

/// Renews random leases from some threads.
fn renew(lessor: &Lessor, effort: Effort, threads: u64) {
    let ids: Vec<_> = (0..effort.leases).map(id).collect();
    let each = effort.renewals / threads;
    let renew_some = |seed: u64| {
        let mut random = SeededRandom::new(seed);
        for _ in 0..each {
            let id = ids[below(&mut random, effort.leases)];
            assert_eq!(lessor.renew(id, Duration::ZERO), Ok(Renewal::Renewed { ttl: TTL }));
        }
    };
    let figures = Figures::measure(effort, each * threads, || {
        std::thread::scope(|scope| {
            (0..threads).for_each(|seed| drop(scope.spawn(move || renew_some(seed))));
        });
    });
    println!(
        "renew from {threads} thread{}         {figures}",
        if threads == 1 { " " } else { "s" }
    );
}

/// Measures a minute with renewals every 20 seconds, and one without renewals.
fn turns(lessor: &Lessor, effort: Effort) {
    lessor.promote(Duration::ZERO, Duration::ZERO);
    let mut now = Duration::ZERO;
    let idle = time(|| assert!(lessor.turn(now).expired.is_empty()));
    println!("turn with nothing due        {:>12.1} us", idle.as_secs_f64() * 1e6);

    // Renewals do not touch the queue: turns move each entry once a minute.
    let (mut spent, turns, share) = (Vec::new(), 120, effort.leases / 40);
    for turn in 0..2 * turns {
        now += TURN_INTERVAL;
        let from = share * (turn % 40);
        for n in from..from + share {
            assert_eq!(lessor.renew(id(n), now), Ok(Renewal::Renewed { ttl: TTL }));
        }
        spent.push(time(|| assert!(lessor.turn(now).expired.is_empty())));
    }
    spent.drain(..turns);
    let mean = spent.iter().sum::<Duration>().as_secs_f64() / spent.len() as f64;
    let longest = spent.iter().max().unwrap().as_secs_f64();
    println!("turn while all are renewed   {:>12.1} us, longest {:.1}", mean * 1e6, longest * 1e6);

    now += Duration::from_secs(2 * TTL.cast_unsigned());
    let mut expired = 0;
    let took = time(|| expired = lessor.turn(now).expired.len());
    assert_eq!(expired, EXPIRED_PER_TURN_MAX);
    println!("turn with all of them due    {:>12.1} us", took.as_secs_f64() * 1e6);
}

/// Attaches a key of 40 bytes to each of some leases.
fn attach(lessor: &Lessor, effort: Effort) {
    let keys = effort.leases / 10;
    let key = |n: usize| format!("/registry/events/default/{n:015}");
    let ids: Vec<_> = (0..keys).map(|n| (id(n), key(n))).collect();
    let start = Instant::now();
    let heap_bytes = heap_bytes_of(|| {
        ids.iter().for_each(|(id, key)| assert!(lessor.attach(*id, key.as_bytes())));
    });
    println!("attach                       {:>12.0} /s", rate(keys as u64, start.elapsed()));
    println!("an attached key of 40 bytes  {:>12.1} bytes", heap_bytes / keys as f64);
}

fn time(act: impl FnOnce()) -> Duration {
    let start = Instant::now();
    act();
    start.elapsed()
}

fn below(random: &mut SeededRandom, bound: usize) -> usize {
    usize::try_from(random.below(bound as u64)).unwrap()
}

fn rate(units: u64, took: Duration) -> f64 {
    units as f64 / took.as_secs_f64()
}

/// Returns the bytes that this thread has allocated and not freed.
fn heap_bytes_of(act: impl FnOnce()) -> f64 {
    allocation_counter::measure(act).bytes_current as f64
}

/// Rates per second, sorted.
struct Figures {
    per_second: Vec<f64>,
}

impl Figures {
    /// Calls `act`, which does `units` of work, once for each round.
    fn measure(effort: Effort, units: u64, mut act: impl FnMut()) -> Figures {
        let mut per_second: Vec<f64> =
            (0..effort.rounds).map(|_| rate(units, time(&mut act))).collect();
        per_second.sort_by(f64::total_cmp);
        Figures { per_second }
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (slowest, fastest) = (self.per_second[0], self.per_second[self.per_second.len() - 1]);
        let median = self.per_second[self.per_second.len() / 2];
        write!(f, "{median:>12.0} /s, {slowest:.0} .. {fastest:.0}")
    }
}
