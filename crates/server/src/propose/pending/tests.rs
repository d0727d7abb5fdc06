//! Pending proposals complete once, time out, stay within bounds and are counted.

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
    pending: Arc<PendingProposals>,
}

impl Rig {
    fn new() -> Rig {
        let (clock, registry) = (Arc::new(SimClock::default()), Registry::new());
        let metrics = Metrics::new(&registry).unwrap();
        let pending = Arc::new(PendingProposals::new(Arc::<SimClock>::clone(&clock), &metrics));
        Rig { clock, metrics, registry, pending }
    }

    fn put(&self) -> ProposalKind {
        self.put_of(0)
    }

    fn put_of(&self, bytes: usize) -> ProposalKind {
        ProposalKind::Request { op: Op::Put, bytes, since: self.clock.monotonic() }
    }

    fn register(&self, id: u64) -> Proposal<AppliedProposal> {
        self.pending.register(id, self.put(), Ok).unwrap()
    }

    /// Registers a callback that sends the result to the returned channel.
    fn register_callback(&self, id: u64) -> mpsc::Receiver<ProposalResult> {
        let (sender, receiver) = mpsc::channel();
        self.pending
            .register_callback(id, self.put(), move |result| sender.send(result).unwrap())
            .unwrap();
        receiver
    }

    /// The number of requests with this `success` label, and their total duration in seconds.
    fn counted(&self, success: &str) -> (u64, f64) {
        let name = "etcd_server_request_duration_seconds";
        let family = self.registry.gather().into_iter().find(|family| family.name() == name);
        let metrics = family.map(|mut family| family.take_metric()).unwrap_or_default();
        let labelled = |metric: &&Metric| metric.get_label().iter().any(|it| it.value() == success);
        let found = metrics.iter().find(labelled).map(Metric::get_histogram);
        found.map_or((0, 0.0), |all| (all.get_sample_count(), all.get_sample_sum()))
    }

    /// The counts of `success=true`, of `success=false`, and of failed proposals.
    fn outcomes(&self) -> (u64, u64, u64) {
        (self.counted("true").0, self.counted("false").0, self.metrics.proposals_failed.get())
    }
}

fn poll(proposal: &mut Proposal<AppliedProposal>) -> Option<ProposalResult> {
    match Pin::new(proposal).poll(&mut Context::from_waker(std::task::Waker::noop())) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

fn applied() -> ProposalResult {
    Ok(AppliedProposal::ConfChange(Ok(())))
}

#[test]
fn a_result_reaches_the_waiter_of_its_id() {
    let rig = Rig::new();
    let (mut first, mut second) = (rig.register(1), rig.register(2));
    rig.pending.complete(2, applied());
    assert!(poll(&mut first).is_none());
    assert!(matches!(poll(&mut second), Some(Ok(AppliedProposal::ConfChange(Ok(()))))));
    assert!(!rig.pending.has_waiter(2));
}

#[test]
fn a_completed_request_is_counted_with_its_duration() {
    let rig = Rig::new();
    let mut proposal = rig.register(1);
    rig.clock.advance(2 * SECOND);
    rig.pending.complete(1, applied());
    assert!(poll(&mut proposal).is_some());
    drop(proposal);
    assert_eq!(rig.counted("true"), (1, 2.0));
    assert_eq!(rig.outcomes(), (1, 0, 0));
}

#[test]
fn a_request_that_was_never_proposed_counts_as_a_failure() {
    let rig = Rig::new();
    for (id, error) in [(1, Error::ProposalDropped), (2, Error::DeadlineExceeded)] {
        let mut proposal = rig.register(id);
        rig.pending.fail(id, error.clone());
        assert_eq!(poll(&mut proposal).unwrap().unwrap_err(), error);
    }
    assert_eq!(rig.outcomes(), (0, 2, 2));
}

#[test]
fn an_abandoned_request_is_counted_once_and_no_longer_pending() {
    let rig = Rig::new();
    drop(rig.register(1));
    assert!(!rig.pending.has_waiter(1));
    assert_eq!(rig.pending.request_count(), 0);
    assert_eq!(rig.outcomes(), (1, 0, 1));
    rig.pending.fail(1, Error::ProposalDropped);
    assert_eq!(rig.outcomes(), (1, 0, 1), "counted twice");
}

#[test]
fn conf_changes_are_not_counted() {
    let rig = Rig::new();
    drop(rig.pending.register(2, ProposalKind::ConfChange, Ok).unwrap());
    let mut change = rig.pending.register(3, ProposalKind::ConfChange, Ok).unwrap();
    assert_eq!(rig.pending.request_count(), 0);
    rig.pending.fail(3, Error::ProposalDropped);
    assert_eq!(poll(&mut change).unwrap().unwrap_err(), Error::ProposalDropped);
    assert!(rig.pending.table.lock().by_id.is_empty());
    assert_eq!(rig.outcomes(), (0, 0, 0));
}

#[test]
fn requests_expire_in_the_order_of_their_start() {
    let rig = Rig::new();
    let mut first = rig.register(1);
    let until = rig.clock.monotonic();
    rig.clock.advance(SECOND);
    let mut second = rig.register(2);
    rig.pending.expire(until, |_| Error::Timeout);
    assert!(matches!(poll(&mut first), Some(Err(Error::Timeout))));
    assert!(poll(&mut second).is_none());
    assert_eq!(rig.outcomes(), (1, 0, 1));
}

#[test]
fn a_conf_change_never_expires_and_does_not_delay_other_expiries() {
    let rig = Rig::new();
    let mut change = rig.pending.register(1, ProposalKind::ConfChange, Ok).unwrap();
    let mut put = rig.register(2);
    rig.clock.advance(1000 * SECOND);
    rig.pending.expire(rig.clock.monotonic(), |_| Error::Timeout);
    assert!(matches!(poll(&mut put), Some(Err(Error::Timeout))));
    assert!(poll(&mut change).is_none());
    rig.pending.fail_all(&Error::Stopped);
    assert!(matches!(poll(&mut change), Some(Err(Error::Stopped))), "shutdown fails it");
}

#[test]
fn a_callback_gets_the_result_and_is_counted() {
    let rig = Rig::new();
    let result = rig.register_callback(1);
    assert!(rig.pending.has_waiter(1), "a callback counts as a waiter");
    rig.clock.advance(SECOND);
    rig.pending.complete(1, applied());
    assert!(result.try_recv().unwrap().is_ok());
    assert_eq!(rig.counted("true"), (1, 1.0));
    let result = rig.register_callback(2);
    rig.pending.expire(rig.clock.monotonic(), |_| Error::Timeout);
    assert_eq!(result.try_recv().unwrap().unwrap_err(), Error::Timeout);
    assert_eq!(rig.outcomes(), (2, 0, 1));
}

/// The table must not be locked while a callback runs.
#[test]
fn a_callback_may_complete_another_proposal() {
    let rig = Rig::new();
    let mut other = rig.register(1);
    let pending = Arc::clone(&rig.pending);
    let callback = move |_| pending.complete(1, applied());
    rig.pending.register_callback(2, rig.put(), callback).unwrap();
    rig.pending.complete_all([(2, AppliedProposal::ConfChange(Ok(())))].into_iter());
    assert!(poll(&mut other).is_some());
}

#[test]
fn the_number_of_pending_proposals_is_bounded() {
    let rig = Rig::new();
    let all: Vec<_> = (0..PROPOSALS_MAX as u64).map(|id| rig.register(id)).collect();
    let refused = rig.pending.register(u64::MAX, rig.put(), Ok);
    assert_eq!(refused.unwrap_err(), Error::TooManyRequests);
    rig.pending.complete(7, applied());
    assert!(rig.pending.register(u64::MAX, rig.put(), Ok).is_ok());
    drop(all);
}

/// The entry of an abandoned request is still on the way to the log.
#[test]
fn the_bytes_of_pending_proposals_are_bounded_including_abandoned_ones() {
    let rig = Rig::new();
    let half = rig.put_of(PROPOSAL_BYTES_MAX / 2);
    let first = rig.pending.register(1, half, Ok).unwrap();
    drop(rig.pending.register(2, half, Ok).unwrap());
    let register_one = |id| rig.pending.register(id, rig.put_of(1), Ok).map(drop);
    assert_eq!(register_one(3), Err(Error::TooManyRequests));
    rig.pending.complete(2, applied());
    assert_eq!(register_one(4), Ok(()));
    drop(first);
    rig.pending.expire(rig.clock.monotonic(), |_| Error::Timeout);
    assert_eq!(rig.pending.table.lock().bytes, 0);
}

#[test]
fn proposals_are_refused_after_shutdown() {
    let rig = Rig::new();
    let mut proposal = rig.register(1);
    rig.pending.fail_all(&Error::Stopped);
    assert!(matches!(poll(&mut proposal), Some(Err(Error::Stopped))));
    assert_eq!(rig.pending.register(2, rig.put(), Ok).unwrap_err(), Error::Stopped);
    assert_eq!(rig.pending.register_callback(3, rig.put(), |_| ()), Err(Error::Stopped));
}
