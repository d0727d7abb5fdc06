//! A member killed under load keeps every acknowledged write, and each transaction as a whole.
//!
//! Each writer puts, in one transaction, a new key and its own counter:
//!
//! ```text
//!   writer 2, step 17:    w2/00017 = 17    count/2 = 17
//! ```
//!
//! Afterwards the keys of a writer must reach up to its counter without a gap, and the counter must
//! be at least the last acknowledged step.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use e2e::process::Signal;
use e2e::{Client, Member, Options, Sandbox, TIMEOUT};
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::{PutRequest, RequestOp, TxnRequest};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

const WRITERS: usize = 6;
const ROUNDS: usize = 4;
/// The kill comes after this many acknowledgements, up to twice as many.
const ACKNOWLEDGED_MIN: u64 = 100;
const ACKNOWLEDGED_SPREAD: u64 = 400;

/// The last acknowledged step of a writer.
#[derive(Clone, Copy, Default)]
struct Acknowledged {
    step: u64,
    revision: i64,
}

/// Counts the acknowledgements of all writers, and notifies when there are enough.
struct Count {
    left: AtomicU64,
    enough: Notify,
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_writes_survive_a_kill() {
    let mut member = Member::start(Options::new());
    let mut known = [Acknowledged::default(); WRITERS];
    for round in 0..ROUNDS {
        let kill_after = ACKNOWLEDGED_MIN + any_number() % ACKNOWLEDGED_SPREAD;
        println!("round {round}: kill after {kill_after} acknowledgements");
        let count = Arc::new(Count { left: kill_after.into(), enough: Notify::new() });
        let mut writers = start_writers(&member, known, &count);
        let acknowledged = timeout(TIMEOUT, count.enough.notified()).await;
        acknowledged.expect("timed out waiting for acknowledgements");
        let stopped = member.kill();
        while let Some(ended) = writers.join_next().await {
            let (writer, acknowledged) = ended.unwrap();
            known[writer] = acknowledged;
        }
        member = stopped.start();
        let found = check(&member.client(), &known).await;
        // Writes in flight may be applied or not; from here on it is known which.
        known = found;
    }
}

/// Runs the check on falsified expectations.
#[tokio::test(flavor = "multi_thread")]
async fn the_check_detects_a_lost_write() {
    let member = Member::start(Options::new());
    let client = member.client();
    let mut known = [Acknowledged::default(); WRITERS];
    for step in 1..=3 {
        let revision = client.txn(both_puts(0, step)).await.unwrap().header.unwrap().revision;
        known[0] = Acknowledged { step, revision };
    }
    let check = |known| {
        let client = client.clone();
        tokio::spawn(async move { check(&client, &known).await })
    };
    assert!(check(known).await.is_ok());
    let mut more = known;
    more[0].step += 1;
    assert!(check(more).await.is_err(), "the last write is missing");
    more[0].step -= 3;
    assert!(check(more).await.is_err(), "there is more than was written");
    client.delete("w0/00002").await.unwrap();
    assert!(check(known).await.is_err(), "a write in the middle is missing");
}

/// Kills the member at each line of its log, first while it creates its files, then while it opens
/// them.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_start_can_be_repeated() {
    let mut sandbox = Sandbox::new();
    for lines in 4..14 {
        let process = sandbox.spawn(&Options::new());
        let seen = Cell::new(0);
        let enough = |_: &str| {
            seen.set(seen.get() + 1);
            seen.get() == lines
        };
        assert!(process.stderr().wait_for(enough).is_some(), "{}", process.stderr().tail());
        process.signal(Signal::KILL);
        process.wait();
        if lines % 3 == 0 {
            let member = Member::start_in(sandbox, Options::new());
            member.client().put(&format!("k/{lines}"), "v").await.unwrap();
            sandbox = member.kill().sandbox;
        }
    }
    let member = Member::start_in(sandbox, Options::new());
    assert_eq!(member.client().get_prefix("k/").await.unwrap().count, 3);
}

fn start_writers(
    member: &Member,
    known: [Acknowledged; WRITERS],
    count: &Arc<Count>,
) -> JoinSet<(usize, Acknowledged)> {
    let mut writers = JoinSet::new();
    for (writer, known) in known.into_iter().enumerate() {
        writers.spawn(write(writer, member.client(), known, Arc::clone(count)));
    }
    writers
}

/// Writes until the connection fails.
async fn write(
    writer: usize,
    client: Client,
    mut known: Acknowledged,
    count: Arc<Count>,
) -> (usize, Acknowledged) {
    loop {
        let step = known.step + 1;
        let Ok(answer) = client.txn(both_puts(writer, step)).await else {
            return (writer, known);
        };
        known = Acknowledged { step, revision: answer.header.unwrap().revision };
        if count.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            count.enough.notify_one();
        }
    }
}

fn both_puts(writer: usize, step: u64) -> TxnRequest {
    let put = |key: String| {
        let (key, value) = (key.into(), step.to_string().into());
        let put = PutRequest { key, value, ..PutRequest::default() };
        RequestOp { request: Some(Request::RequestPut(put)) }
    };
    let success = vec![put(format!("w{writer}/{step:05}")), put(format!("count/{writer}"))];
    TxnRequest { success, ..TxnRequest::default() }
}

/// Compares the stored steps with the acknowledged ones, and returns the stored ones.
async fn check(client: &Client, known: &[Acknowledged; WRITERS]) -> [Acknowledged; WRITERS] {
    let mut found = *known;
    for (writer, known) in known.iter().enumerate() {
        let counter = client.get(&format!("count/{writer}")).await.unwrap();
        let revision = counter.header.unwrap().revision;
        assert!(revision >= known.revision, "revision {revision} after {}", known.revision);
        let counter = counter.kvs.first().map_or((0, 0), |kv| (number(&kv.value), kv.mod_revision));
        let steps = steps(client, writer).await;
        assert!(counter.0 >= known.step, "writer {writer}: {} of {}", counter.0, known.step);
        assert!(counter.0 <= known.step + 1, "writer {writer} did not write step {}", counter.0);
        assert!(steps.keys().copied().eq(1..=counter.0), "writer {writer}: a step is missing");
        if known.step > 0 {
            assert_eq!(steps[&known.step], known.revision, "writer {writer} step {}", known.step);
        }
        assert_eq!(
            steps.get(&counter.0).copied().unwrap_or_default(),
            counter.1,
            "a partial transaction"
        );
        found[writer] = Acknowledged { step: counter.0, revision: counter.1 };
    }
    found
}

/// Returns the stored steps of a writer, with the revisions of their keys.
async fn steps(client: &Client, writer: usize) -> BTreeMap<u64, i64> {
    let keys = client.get_prefix(&format!("w{writer}/")).await.unwrap();
    let step = |kv: &proto::mvccpb::KeyValue| (number(&kv.value), kv.mod_revision);
    let steps: BTreeMap<_, _> = keys.kvs.iter().map(step).collect();
    assert_eq!(steps.len(), keys.kvs.len(), "each step has a key of its own");
    steps
}

fn number(text: &[u8]) -> u64 {
    std::str::from_utf8(text).unwrap().parse().unwrap()
}

/// A random number.
fn any_number() -> u64 {
    RandomState::new().hash_one(0)
}
