//! Pending proposals complete once, time out, stay within bounds and are counted.

use super::*;

use std::sync::mpsc;

use env::SimClock;
use prometheus::Registry;
use prometheus::proto::Metric;
use simkit::poll_once;

const SECOND: Duration = Duration::from_secs(1);

struct PendingFixture {
    clock: Arc<SimClock>,
    metrics: Metrics,
    registry: Registry,
    pending: Arc<PendingProposals>,
}

impl PendingFixture {
    fn new() -> PendingFixture {
        let (clock, registry) = (Arc::new(SimClock::default()), Registry::new());
        let metrics = Metrics::new(&registry).unwrap();
        let pending = Arc::new(PendingProposals::new(Arc::<SimClock>::clone(&clock), &metrics));
        PendingFixture { clock, metrics, registry, pending }
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
        let labeled = |metric: &&Metric| metric.get_label().iter().any(|it| it.value() == success);
        let found = metrics.iter().find(labeled).map(Metric::get_histogram);
        found.map_or((0, 0.0), |all| (all.get_sample_count(), all.get_sample_sum()))
    }

    /// The counts of `success=true`, of `success=false`, and of failed proposals.
    fn outcomes(&self) -> (u64, u64, u64) {
        (self.counted("true").0, self.counted("false").0, self.metrics.proposals_failed.get())
    }
}

fn applied() -> ProposalResult {
    Ok(AppliedProposal::ConfChange(Ok(())))
}

#[test]
fn a_result_reaches_the_waiter_of_its_id() {
    let fixture = PendingFixture::new();
    let (mut first, mut second) = (fixture.register(1), fixture.register(2));
    fixture.pending.complete(2, applied());
    assert!(poll_once(&mut first).is_none());
    assert!(matches!(poll_once(&mut second), Some(Ok(AppliedProposal::ConfChange(Ok(()))))));
    assert!(!fixture.pending.has_waiter(2));
}

#[test]
fn a_completed_request_is_counted_with_its_duration() {
    let fixture = PendingFixture::new();
    let mut proposal = fixture.register(1);
    fixture.clock.advance(2 * SECOND);
    fixture.pending.complete(1, applied());
    assert!(poll_once(&mut proposal).is_some());
    drop(proposal);
    assert_eq!(fixture.counted("true"), (1, 2.0));
    assert_eq!(fixture.outcomes(), (1, 0, 0));
}

#[test]
fn a_request_that_was_never_proposed_counts_as_a_failure() {
    let fixture = PendingFixture::new();
    for (id, error) in [(1, Error::ProposalDropped), (2, Error::DeadlineExceeded)] {
        let mut proposal = fixture.register(id);
        fixture.pending.fail(id, error.clone());
        assert_eq!(poll_once(&mut proposal).unwrap().unwrap_err(), error);
    }
    assert_eq!(fixture.outcomes(), (0, 2, 2));
}

#[test]
fn an_abandoned_request_is_counted_once_and_no_longer_pending() {
    let fixture = PendingFixture::new();
    drop(fixture.register(1));
    assert!(!fixture.pending.has_waiter(1));
    assert_eq!(fixture.pending.request_count(), 0);
    assert_eq!(fixture.outcomes(), (1, 0, 1));
    fixture.pending.fail(1, Error::ProposalDropped);
    assert_eq!(fixture.outcomes(), (1, 0, 1), "counted twice");
}

#[test]
fn conf_changes_are_not_counted() {
    let fixture = PendingFixture::new();
    drop(fixture.pending.register(2, ProposalKind::ConfChange, Ok).unwrap());
    let mut change = fixture.pending.register(3, ProposalKind::ConfChange, Ok).unwrap();
    assert_eq!(fixture.pending.request_count(), 0);
    fixture.pending.fail(3, Error::ProposalDropped);
    assert_eq!(poll_once(&mut change).unwrap().unwrap_err(), Error::ProposalDropped);
    assert!(fixture.pending.table.lock().by_id.is_empty());
    assert_eq!(fixture.outcomes(), (0, 0, 0));
}

#[test]
fn requests_expire_in_the_order_of_their_start() {
    let fixture = PendingFixture::new();
    let mut first = fixture.register(1);
    let until = fixture.clock.monotonic();
    fixture.clock.advance(SECOND);
    let mut second = fixture.register(2);
    fixture.pending.expire(until, |_| Error::Timeout);
    assert!(matches!(poll_once(&mut first), Some(Err(Error::Timeout))));
    assert!(poll_once(&mut second).is_none());
    assert_eq!(fixture.outcomes(), (1, 0, 1));
}

#[test]
fn a_conf_change_never_expires_and_does_not_delay_other_expiries() {
    let fixture = PendingFixture::new();
    let mut change = fixture.pending.register(1, ProposalKind::ConfChange, Ok).unwrap();
    let mut put = fixture.register(2);
    fixture.clock.advance(1000 * SECOND);
    fixture.pending.expire(fixture.clock.monotonic(), |_| Error::Timeout);
    assert!(matches!(poll_once(&mut put), Some(Err(Error::Timeout))));
    assert!(poll_once(&mut change).is_none());
    fixture.pending.fail_all(&Error::Stopped);
    assert!(matches!(poll_once(&mut change), Some(Err(Error::Stopped))), "shutdown fails it");
}

#[test]
fn a_callback_gets_the_result_and_is_counted() {
    let fixture = PendingFixture::new();
    let result = fixture.register_callback(1);
    assert!(fixture.pending.has_waiter(1), "a callback counts as a waiter");
    fixture.clock.advance(SECOND);
    fixture.pending.complete(1, applied());
    assert!(result.try_recv().unwrap().is_ok());
    assert_eq!(fixture.counted("true"), (1, 1.0));
    let result = fixture.register_callback(2);
    fixture.pending.expire(fixture.clock.monotonic(), |_| Error::Timeout);
    assert_eq!(result.try_recv().unwrap().unwrap_err(), Error::Timeout);
    assert_eq!(fixture.outcomes(), (2, 0, 1));
}

/// The table must not be locked while a callback runs.
#[test]
fn a_callback_may_complete_another_proposal() {
    let fixture = PendingFixture::new();
    let mut other = fixture.register(1);
    let pending = Arc::clone(&fixture.pending);
    let callback = move |_| pending.complete(1, applied());
    fixture.pending.register_callback(2, fixture.put(), callback).unwrap();
    fixture.pending.complete_all([(2, AppliedProposal::ConfChange(Ok(())))].into_iter());
    assert!(poll_once(&mut other).is_some());
}

#[test]
fn the_number_of_pending_proposals_is_bounded() {
    let fixture = PendingFixture::new();
    let all: Vec<_> = (0..PROPOSALS_MAX as u64).map(|id| fixture.register(id)).collect();
    let refused = fixture.pending.register(u64::MAX, fixture.put(), Ok);
    assert_eq!(refused.unwrap_err(), Error::TooManyRequests);
    fixture.pending.complete(7, applied());
    assert!(fixture.pending.register(u64::MAX, fixture.put(), Ok).is_ok());
    drop(all);
}

/// The entry of an abandoned request is still on the way to the log.
#[test]
fn the_bytes_of_pending_proposals_are_bounded_including_abandoned_ones() {
    let fixture = PendingFixture::new();
    let half = fixture.put_of(PROPOSAL_BYTES_MAX / 2);
    let first = fixture.pending.register(1, half, Ok).unwrap();
    drop(fixture.pending.register(2, half, Ok).unwrap());
    let register_one = |id| fixture.pending.register(id, fixture.put_of(1), Ok).map(drop);
    assert_eq!(register_one(3), Err(Error::TooManyRequests));
    fixture.pending.complete(2, applied());
    assert_eq!(register_one(4), Ok(()));
    drop(first);
    fixture.pending.expire(fixture.clock.monotonic(), |_| Error::Timeout);
    assert_eq!(fixture.pending.table.lock().bytes, 0);
}

#[test]
fn proposals_are_refused_after_shutdown() {
    let fixture = PendingFixture::new();
    let mut proposal = fixture.register(1);
    fixture.pending.fail_all(&Error::Stopped);
    assert!(matches!(poll_once(&mut proposal), Some(Err(Error::Stopped))));
    assert_eq!(fixture.pending.register(2, fixture.put(), Ok).unwrap_err(), Error::Stopped);
    assert_eq!(fixture.pending.register_callback(3, fixture.put(), |_| ()), Err(Error::Stopped));
}
