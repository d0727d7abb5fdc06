//! The applier raises `NOSPACE` before it completes a refused request, and continues behind a
//! received snapshot.

use std::task::{Context, Poll, Waker};

use mvcc::PutResult;
use prost::Message as _;
use proto::etcdserverpb as pb;
use proto::etcdserverpb::InternalRaftRequest;
use raft::EntryType;

use super::*;
use crate::background::tests::{Rig, header};
use crate::error::Error;
use crate::propose::pending::Proposal;
use crate::propose::typed::AppliedReply;

/// A member over its quota, whose log is the list of entries that the test applies.
struct FullMember {
    rig: Rig,
    applier: Applier,
    last: u64,
}

/// Commits nothing.
struct NoMaintenance;

impl BackendMaintenance for NoMaintenance {
    fn switch_to(&mut self, _: &Backend) -> io::Result<()> {
        Ok(())
    }
}

fn applier(rig: &Rig, maintenance: impl BackendMaintenance + 'static) -> Applier {
    let (inboxes, voters) = (Inboxes::default(), Voters::default());
    Applier::new(&rig.server, &inboxes, voters, Index::ZERO, Box::new(maintenance))
}

impl FullMember {
    fn new() -> FullMember {
        let rig = Rig::with(|config| config.quota_backend_bytes = 1);
        let applier = applier(&rig, NoMaintenance);
        FullMember { rig, applier, last: 0 }
    }

    /// Proposes a put.
    fn put(&mut self) -> Proposal<AppliedReply<PutResult>> {
        let put = pb::PutRequest { key: "a".into(), ..pb::PutRequest::default() };
        self.rig.server.propose(put).unwrap()
    }

    /// Applies all proposed requests, and returns them.
    fn apply(&mut self) -> Vec<InternalRaftRequest> {
        self.rig.take_events();
        let proposed = std::mem::take(&mut self.rig.proposed);
        let requests: Vec<_> = proposed.into_iter().map(|(_, request)| request).collect();
        let entries = requests.iter().map(|request| {
            self.last += 1;
            let (index, data) = (Index(self.last), request.encode_to_vec().into());
            Entry { term: Term(1), index, kind: EntryType::Normal, data, ..Entry::default() }
        });
        let message = Message { entries: entries.collect(), ..Message::default() };
        self.applier.inbox.push(ApplyWork::Apply(Box::new(message)));
        self.applier.turn().unwrap();
        requests
    }

    fn alarms(&self) -> usize {
        self.rig.server.state().alarms.get(AlarmType::Nospace.into()).len()
    }
}

fn poll<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
    match std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// Returns whether the put completed with `NoSpace`.
fn is_refused(put: &mut Proposal<AppliedReply<PutResult>>) -> bool {
    matches!(poll(put), Some(Ok(AppliedReply { result: Err(Refusal::NoSpace), .. })))
}

#[test]
fn a_request_is_refused_for_space_after_the_alarm_is_active() {
    let mut full = FullMember::new();
    let (mut first, mut second) = (full.put(), full.put());
    full.apply();
    assert!(poll(&mut first).is_none() && poll(&mut second).is_none());
    assert_eq!(full.alarms(), 0);
    let raised = full.apply();
    assert_eq!(raised.len(), 1, "the alarm is proposed once");
    assert_eq!(raised[0].alarm.unwrap().member_id, full.rig.server.local().0);
    assert_eq!(full.alarms(), 1);
    assert!(is_refused(&mut first) && is_refused(&mut second));
    let mut third = full.put();
    full.apply();
    assert!(is_refused(&mut third), "at once: the alarm is active");
    assert!(full.apply().is_empty());
}

#[test]
fn a_quota_check_and_an_applied_request_share_one_alarm() {
    let mut full = FullMember::new();
    let server = full.rig.server.clone();
    let mut applied = full.put();
    full.apply();
    let mut asked = Box::pin(server.check_quota(100));
    assert_eq!(poll(&mut asked), None);
    assert!(poll(&mut applied).is_none());
    drop(Box::pin(server.check_quota(100)));
    assert_eq!(full.apply().len(), 1);
    assert!(is_refused(&mut applied));
    assert_eq!(poll(&mut asked), Some(Err(Refusal::NoSpace.into())));
}

#[test]
fn a_request_completes_if_its_alarm_cannot_be_raised() {
    let mut full = FullMember::new();
    let mut put = full.put();
    full.apply();
    full.rig.fail_all(&Error::ProposalDropped);
    assert!(is_refused(&mut put));
    assert_eq!(full.alarms(), 0);
    let mut again = full.put();
    full.apply();
    assert_eq!(full.apply().len(), 1, "the next request raises it");
    assert!(is_refused(&mut again));
}

#[test]
fn a_request_times_out_if_its_alarm_is_never_applied() {
    let mut full = FullMember::new();
    let (mut put, server) = (full.put(), full.rig.server.clone());
    full.apply();
    let pending = &server.inner.proposals.pending;
    let since = full.rig.now();
    full.rig.advance(server.config().request_timeout());
    let mut late = Box::pin(server.check_quota(100));
    assert_eq!(poll(&mut late), None);
    pending.expire(since, |_| Error::Timeout);
    assert!(matches!(poll(&mut put), Some(Err(Error::Timeout))));
    assert_eq!(poll(&mut late), Some(Err(Refusal::NoSpace.into())));
}

/// Returns the database of a member with a scheduled compaction, and its applied index.
fn database_with_scheduled_compaction() -> (Vec<u8>, Index) {
    let mut rig = Rig::new();
    (0..10).for_each(|_| rig.put("a"));
    let compaction = pb::CompactionRequest { revision: 8, ..pb::CompactionRequest::default() };
    rig.apply_ok(&InternalRaftRequest { compaction: Some(compaction), ..header() });
    let (state, mut image) = (rig.server.state(), Vec::new());
    state.backend.snapshot_to(&mut image).unwrap();
    (image, state.applied().unwrap().0)
}

/// Restores the member from a received database.
fn restore(maintenance: impl BackendMaintenance + 'static, rig: &Rig) {
    let (image, index) = database_with_scheduled_compaction();
    let inner = &rig.server.inner;
    inner.context.disk.create_dir_all_durably(&inner.context.config.snap_path()).unwrap();
    for index in [1, index.0] {
        inner
            .snapshot_files
            .snapshotter
            .receive_db(&mut &image[..])
            .unwrap()
            .sync()
            .unwrap()
            .keep(index)
            .unwrap();
    }
    let mut applier = applier(rig, maintenance);
    applier.inbox.push(ApplyWork::Restore(index));
    applier.turn().unwrap();
    assert_eq!(rig.server.applied(), index);
}

#[test]
fn a_compaction_scheduled_in_a_snapshot_is_resumed() {
    let rig = Rig::new();
    assert!(!rig.server.inner.compaction.is_notified());
    restore(NoMaintenance, &rig);
    assert!(rig.server.inner.compaction.is_notified());
    let turn = rig.server.state().store.turn_compaction().unwrap();
    assert_ne!(turn, mvcc::CompactionTurn::Idle);
}

/// Checks the gauge when the database is replaced.
struct GaugeCheck(prometheus::IntGauge);

impl BackendMaintenance for GaugeCheck {
    fn switch_to(&mut self, _: &Backend) -> io::Result<()> {
        assert_eq!(self.0.get(), 1);
        Ok(())
    }
}

#[test]
fn received_databases_up_to_the_snapshot_are_removed() {
    let rig = Rig::new();
    restore(NoMaintenance, &rig);
    let inner = &rig.server.inner;
    assert_eq!(inner.context.disk.read_dir(&inner.context.config.snap_path()).unwrap(), ["db"]);
}

#[test]
fn the_gauge_is_one_while_a_snapshot_is_applied() {
    let rig = Rig::new();
    let in_progress = rig.server.metrics().snapshot_apply_in_progress.clone();
    restore(GaugeCheck(in_progress.clone()), &rig);
    assert_eq!(in_progress.get(), 0);
}
