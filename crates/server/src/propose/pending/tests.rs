//! Everybody is told once, in time; and it is counted.

use super::*;

use std::sync::mpsc;

use env::SimClock;
use prometheus::Registry;
use prometheus::proto::Metric;

const SECOND: Duration = Duration::from_secs(1);

struct Rig {
    clock: Arc<SimClock>,
    metrics: Metrics,
    registry: Registry,
    waits: Arc<Waits>,
}

impl Rig {
    fn new() -> Rig {
        let (clock, registry) = (Arc::new(SimClock::default()), Registry::new());
        let metrics = Metrics::new(&registry).unwrap();
        let waits = Arc::new(Waits::new(Arc::<SimClock>::clone(&clock), &metrics));
        Rig { clock, metrics, registry, waits }
    }

    fn put(&self) -> Asked {
        self.put_of(0)
    }

    fn put_of(&self, bytes: usize) -> Asked {
        Asked::Request { op: Op::Put, bytes, since: self.clock.monotonic() }
    }

    fn register(&self, id: u64) -> Proposal<Settled> {
        self.waits.register(id, self.put(), Ok).unwrap()
    }

    /// Has the answer sent.
    fn register_then(&self, id: u64) -> mpsc::Receiver<Answer> {
        let (tell, told) = mpsc::channel();
        self.waits.register_then(id, self.put(), move |answer| tell.send(answer).unwrap()).unwrap();
        told
    }

    /// How many requests took how long, all together, and came out like this.
    fn counted(&self, success: &str) -> (u64, f64) {
        let name = "etcd_server_request_duration_seconds";
        let family = self.registry.gather().into_iter().find(|family| family.name() == name);
        let metrics = family.map(|mut family| family.take_metric()).unwrap_or_default();
        let labelled = |metric: &&Metric| metric.get_label().iter().any(|it| it.value() == success);
        let found = metrics.iter().find(labelled).map(Metric::get_histogram);
        found.map_or((0, 0.0), |all| (all.get_sample_count(), all.get_sample_sum()))
    }

    /// How many succeeded, did not, and failed.
    fn outcomes(&self) -> (u64, u64, u64) {
        (self.counted("true").0, self.counted("false").0, self.metrics.proposals_failed.get())
    }
}

fn poll(proposal: &mut Proposal<Settled>) -> Option<Answer> {
    match Pin::new(proposal).poll(&mut Context::from_waker(std::task::Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

fn settled() -> Answer {
    Ok(Settled::ConfChange(Ok(())))
}

#[test]
fn an_answer_reaches_its_own_waiter() {
    let rig = Rig::new();
    let (mut first, mut second) = (rig.register(1), rig.register(2));
    rig.waits.settle(2, settled());
    assert!(poll(&mut first).is_none());
    assert!(matches!(poll(&mut second), Some(Ok(Settled::ConfChange(Ok(()))))));
    assert!(!rig.waits.contains(2));
}

#[test]
fn what_is_settled_is_counted_with_the_time_it_took() {
    let rig = Rig::new();
    let mut proposal = rig.register(1);
    rig.clock.advance(2 * SECOND);
    rig.waits.settle(1, settled());
    assert!(poll(&mut proposal).is_some());
    drop(proposal);
    assert_eq!(rig.counted("true"), (1, 2.0));
    assert_eq!(rig.outcomes(), (1, 0, 0));
}

#[test]
fn what_was_never_proposed_is_no_success() {
    let rig = Rig::new();
    for (id, error) in [(1, Error::ProposalDropped), (2, Error::DeadlineExceeded)] {
        let mut proposal = rig.register(id);
        rig.waits.fail(id, error.clone());
        assert_eq!(poll(&mut proposal).unwrap().unwrap_err(), error);
    }
    assert_eq!(rig.outcomes(), (0, 2, 2));
}

#[test]
fn whoever_gives_up_is_counted_and_waited_for_no_more() {
    let rig = Rig::new();
    drop(rig.register(1));
    assert!(!rig.waits.contains(1));
    assert_eq!(rig.waits.pending(), 0);
    assert_eq!(rig.outcomes(), (1, 0, 1));
    rig.waits.fail(1, Error::ProposalDropped);
    assert_eq!(rig.outcomes(), (1, 0, 1), "not twice");
}

#[test]
fn changes_of_members_are_not_counted() {
    let rig = Rig::new();
    drop(rig.waits.register(2, Asked::ConfChange, Ok).unwrap());
    let mut change = rig.waits.register(3, Asked::ConfChange, Ok).unwrap();
    assert_eq!(rig.waits.pending(), 0);
    rig.waits.fail(3, Error::ProposalDropped);
    assert_eq!(poll(&mut change).unwrap().unwrap_err(), Error::ProposalDropped);
    assert!(rig.waits.lock().by_id.is_empty());
    assert_eq!(rig.outcomes(), (0, 0, 0));
}

#[test]
fn time_runs_out_for_the_first_ones_first() {
    let rig = Rig::new();
    let mut first = rig.register(1);
    let until = rig.clock.monotonic();
    rig.clock.advance(SECOND);
    let mut second = rig.register(2);
    rig.waits.expire(until, |_| Error::Timeout);
    assert!(matches!(poll(&mut first), Some(Err(Error::Timeout))));
    assert!(poll(&mut second).is_none());
    assert_eq!(rig.outcomes(), (1, 0, 1));
}

#[test]
fn a_change_of_members_waits_for_ever_and_holds_up_nobody() {
    let rig = Rig::new();
    let mut change = rig.waits.register(1, Asked::ConfChange, Ok).unwrap();
    let mut put = rig.register(2);
    rig.clock.advance(1000 * SECOND);
    rig.waits.expire(rig.clock.monotonic(), |_| Error::Timeout);
    assert!(matches!(poll(&mut put), Some(Err(Error::Timeout))));
    assert!(poll(&mut change).is_none());
    rig.waits.fail_all(&Error::Stopped);
    assert!(matches!(poll(&mut change), Some(Err(Error::Stopped))), "unless it all ends");
}

#[test]
fn a_function_is_called_with_the_answer_and_counted() {
    let rig = Rig::new();
    let told = rig.register_then(1);
    assert!(rig.waits.contains(1), "it is to be proposed, though nobody waits");
    rig.clock.advance(SECOND);
    rig.waits.settle(1, settled());
    assert!(told.try_recv().unwrap().is_ok());
    assert_eq!(rig.counted("true"), (1, 1.0));
    let told = rig.register_then(2);
    rig.waits.expire(rig.clock.monotonic(), |_| Error::Timeout);
    assert_eq!(told.try_recv().unwrap().unwrap_err(), Error::Timeout);
    assert_eq!(rig.outcomes(), (2, 0, 1));
}

/// Whoever is told may ask for something else.
#[test]
fn a_function_may_settle_others() {
    let rig = Rig::new();
    let mut parked = rig.register(1);
    let waits = Arc::clone(&rig.waits);
    let then = move |_| waits.settle(1, settled());
    rig.waits.register_then(2, rig.put(), then).unwrap();
    rig.waits.settle_all([(2, Settled::ConfChange(Ok(())))].into_iter());
    assert!(poll(&mut parked).is_some());
}

#[test]
fn there_is_room_for_so_many() {
    let rig = Rig::new();
    let all: Vec<_> = (0..PROPOSALS_MAX as u64).map(|id| rig.register(id)).collect();
    let one_more = rig.waits.register(u64::MAX, rig.put(), Ok);
    assert_eq!(one_more.unwrap_err(), Error::TooManyRequests);
    rig.waits.settle(7, settled());
    assert!(rig.waits.register(u64::MAX, rig.put(), Ok).is_ok());
    drop(all);
}

/// What was given up is on its way to the disk nevertheless.
#[test]
fn there_is_room_for_so_many_bytes_whoever_gives_up() {
    let rig = Rig::new();
    let half = rig.put_of(PROPOSAL_BYTES_MAX / 2);
    let first = rig.waits.register(1, half, Ok).unwrap();
    drop(rig.waits.register(2, half, Ok).unwrap());
    let one_more = |id| rig.waits.register(id, rig.put_of(1), Ok).map(drop);
    assert_eq!(one_more(3), Err(Error::TooManyRequests));
    rig.waits.settle(2, settled());
    assert_eq!(one_more(4), Ok(()));
    drop(first);
    rig.waits.expire(rig.clock.monotonic(), |_| Error::Timeout);
    assert_eq!(rig.waits.lock().bytes, 0);
}

#[test]
fn nobody_begins_to_wait_after_the_end() {
    let rig = Rig::new();
    let mut waiting = rig.register(1);
    rig.waits.fail_all(&Error::Stopped);
    assert!(matches!(poll(&mut waiting), Some(Err(Error::Stopped))));
    assert_eq!(rig.waits.register(2, rig.put(), Ok).unwrap_err(), Error::Stopped);
    assert_eq!(rig.waits.register_then(3, rig.put(), |_| ()), Err(Error::Stopped));
}
