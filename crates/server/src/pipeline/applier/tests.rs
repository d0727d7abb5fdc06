//! The applier raises `NOSPACE` before it completes a refused request, and continues after a
//! received snapshot.

use backend::schema::Bucket;
use mvcc::PutResult;
use prost::Message as _;
use proto::etcdserverpb as pb;
use proto::etcdserverpb::InternalRaftRequest;
use raft::EntryType;
use simkit::poll_once;

use super::*;
use crate::background::tests::{ManualMember, header};
use crate::error::Error;
use crate::propose::pending::Proposal;
use crate::propose::typed::AppliedReply;

/// A member over its quota, whose log is the list of entries that the test applies.
struct FullMember {
    member: ManualMember,
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

fn applier(member: &ManualMember, maintenance: impl BackendMaintenance + 'static) -> Applier {
    let (inboxes, voters) = (Inboxes::default(), Voters::default());
    Applier::new(&member.server.inner, &inboxes, voters, Index::ZERO, Box::new(maintenance))
}

impl FullMember {
    fn new() -> FullMember {
        let member = ManualMember::with(|config| config.quota_backend_bytes = 1);
        let applier = applier(&member, NoMaintenance);
        FullMember { member, applier, last: 0 }
    }

    /// Proposes a put.
    fn put(&mut self) -> Proposal<AppliedReply<PutResult>> {
        let put = pb::PutRequest { key: "a".into(), ..pb::PutRequest::default() };
        self.member.server.propose(put).unwrap()
    }

    /// Applies all proposed requests, and returns them.
    fn apply(&mut self) -> Vec<InternalRaftRequest> {
        self.member.take_events();
        let proposed = std::mem::take(&mut self.member.proposed);
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
        self.member.server.state().alarms.get(AlarmType::Nospace.into()).len()
    }
}

/// Returns whether the put completed with `NoSpace`.
fn is_refused(put: &mut Proposal<AppliedReply<PutResult>>) -> bool {
    matches!(poll_once(put), Some(Ok(AppliedReply { result: Err(Refusal::NoSpace), .. })))
}

#[test]
fn a_request_is_refused_for_space_after_the_alarm_is_active() {
    let mut full = FullMember::new();
    let (mut first, mut second) = (full.put(), full.put());
    full.apply();
    assert!(poll_once(&mut first).is_none() && poll_once(&mut second).is_none());
    assert_eq!(full.alarms(), 0);
    let raised = full.apply();
    assert_eq!(raised.len(), 1, "the alarm is proposed once");
    assert_eq!(raised[0].alarm.unwrap().member_id, full.member.server.local().0);
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
    let server = full.member.server.clone();
    let mut applied = full.put();
    full.apply();
    let request = pb::PutRequest::default();
    let mut asked = Box::pin(server.check_quota(&request));
    assert_eq!(poll_once(&mut asked), None);
    assert!(poll_once(&mut applied).is_none());
    drop(Box::pin(server.check_quota(&request)));
    assert_eq!(full.apply().len(), 1);
    assert!(is_refused(&mut applied));
    assert_eq!(poll_once(&mut asked), Some(Err(Refusal::NoSpace.into())));
}

#[test]
fn a_request_completes_if_its_alarm_cannot_be_raised() {
    let mut full = FullMember::new();
    let mut put = full.put();
    full.apply();
    full.member.fail_all(&Error::ProposalDropped);
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
    let (mut put, server) = (full.put(), full.member.server.clone());
    full.apply();
    let pending = &server.inner.proposals.pending;
    let since = full.member.now();
    full.member.advance(server.config().request_timeout());
    let request = pb::PutRequest::default();
    let mut late = Box::pin(server.check_quota(&request));
    assert_eq!(poll_once(&mut late), None);
    pending.expire(since, |_| Error::Timeout);
    assert!(matches!(poll_once(&mut put), Some(Err(Error::Timeout))));
    assert_eq!(poll_once(&mut late), Some(Err(Refusal::NoSpace.into())));
}

/// Returns the database of a member with a scheduled compaction, and its applied index.
fn database_with_scheduled_compaction() -> (Vec<u8>, Index) {
    let mut member = ManualMember::new();
    (0..10).for_each(|_| member.put("a"));
    let compaction = pb::CompactionRequest { revision: 8, ..pb::CompactionRequest::default() };
    member.apply_ok(&InternalRaftRequest { compaction: Some(compaction), ..header() });
    let (state, mut image) = (member.server.state(), Vec::new());
    state.backend.snapshot_to(&mut image).unwrap();
    (image, state.applied().unwrap().0)
}

/// Restores the member from a received database.
fn restore(maintenance: impl BackendMaintenance + 'static, member: &ManualMember) {
    let (image, index) = database_with_scheduled_compaction();
    let inner = &member.server.inner;
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
    let mut applier = applier(member, maintenance);
    applier.inbox.push(ApplyWork::Restore { index, term: Term(1) });
    applier.turn().unwrap();
    assert_eq!(member.server.applied(), index);
}

#[test]
fn a_compaction_scheduled_in_a_snapshot_is_resumed() {
    let member = ManualMember::new();
    assert!(!member.server.inner.compaction.is_notified());
    restore(NoMaintenance, &member);
    assert!(member.server.inner.compaction.is_notified());
    let turn = member.server.state().store.turn_compaction().unwrap();
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
    let member = ManualMember::new();
    restore(NoMaintenance, &member);
    let inner = &member.server.inner;
    assert_eq!(inner.context.disk.read_dir(&inner.context.config.snap_path()).unwrap(), ["db"]);
}

#[test]
fn the_gauge_is_one_while_a_snapshot_is_applied() {
    let member = ManualMember::new();
    let in_progress = member.server.metrics().snapshot_apply_in_progress.clone();
    restore(GaugeCheck(in_progress.clone()), &member);
    assert_eq!(in_progress.get(), 0);
}

/// Defragments the old database while the received one takes its place.
struct DefragmentsOld(Arc<StateMachine>);

impl BackendMaintenance for DefragmentsOld {
    fn switch_to(&mut self, _: &Backend) -> io::Result<()> {
        let refused = self.0.backend.defragment().unwrap_err();
        assert!(refused.is_replaced(), "{refused}");
        Ok(())
    }
}

/// The report 20271 of etcd's robustness record: a defragmentation put the replaced database back,
/// and the member went on with a deleted file.
#[test]
fn a_defragmentation_does_not_put_a_replaced_database_back_20271() {
    let member = ManualMember::new();
    restore(DefragmentsOld(member.server.state()), &member);
    let state = member.server.state();
    let mut tx = state.backend.begin();
    tx.put(Bucket::Meta, "mark", MARK).unwrap();
    tx.commit().unwrap();
    state.backend.force_commit().unwrap();
    let context = &member.server.inner.context;
    let file = context.disk.read(&context.config.snap_path().join("db"), u64::MAX).unwrap();
    let is_there = file.windows(MARK.len()).any(|bytes| bytes == MARK.as_bytes());
    assert!(is_there, "the file is not the received database");
}

/// A text that no other part of a database contains.
const MARK: &str = "written after the restore";
