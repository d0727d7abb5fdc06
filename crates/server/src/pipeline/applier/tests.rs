//! A member that has no space tells all others before it tells whoever asked; one that is sent a snapshot goes on where that is.

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

/// A member without space, whose log is what the test applies.
struct Full {
    rig: Rig,
    applier: Applier,
    last: u64,
}

/// Nobody commits anything here.
struct Nobody;

impl Keeper for Nobody {
    fn take_over(&mut self, _: &Backend) -> io::Result<()> {
        Ok(())
    }
}

fn applier(rig: &Rig, keeper: impl Keeper + 'static) -> Applier {
    let (shared, (inbox, snapshots)) = (Arc::clone(&rig.server.shared), Default::default());
    Applier::new(shared, inbox, snapshots, Voters::default(), Index::ZERO, Box::new(keeper))
}

impl Full {
    fn new() -> Full {
        let rig = Rig::with(|config| config.quota_backend_bytes = 1);
        let applier = applier(&rig, Nobody);
        Full { rig, applier, last: 0 }
    }

    /// Proposes a put.
    fn put(&mut self) -> Proposal<AppliedReply<PutResult>> {
        let put = pb::PutRequest { key: "a".into(), ..pb::PutRequest::default() };
        self.rig.server.propose(put).unwrap()
    }

    /// Applies all that was proposed. Returns it.
    fn apply(&mut self) -> Vec<InternalRaftRequest> {
        self.rig.look();
        let proposed = std::mem::take(&mut self.rig.proposed);
        let requests: Vec<_> = proposed.into_iter().map(|(_, request)| request).collect();
        let entries = requests.iter().map(|request| {
            self.last += 1;
            let (index, data) = (Index(self.last), request.encode_to_vec().into());
            Entry { term: Term(1), index, kind: EntryType::Normal, data, ..Entry::default() }
        });
        let message = Message { entries: entries.collect(), ..Message::default() };
        self.applier.inbox.push(Work::Apply(Box::new(message)));
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

/// Whether it was answered that there is no space.
fn is_refused(put: &mut Proposal<AppliedReply<PutResult>>) -> bool {
    let answer = poll(put);
    matches!(answer, Some(Ok(AppliedReply { result: Err(Refusal::NoSpace), .. })))
}

#[test]
fn whoever_hears_that_there_is_no_space_finds_the_alarm() {
    let mut full = Full::new();
    let (mut first, mut second) = (full.put(), full.put());
    full.apply();
    assert!(poll(&mut first).is_none() && poll(&mut second).is_none());
    assert_eq!(full.alarms(), 0);
    let raised = full.apply();
    assert_eq!(raised.len(), 1, "it is proposed once");
    assert_eq!(raised[0].alarm.unwrap().member_id, full.rig.server.local().0);
    assert_eq!(full.alarms(), 1);
    assert!(is_refused(&mut first) && is_refused(&mut second));
    let mut third = full.put();
    full.apply();
    assert!(is_refused(&mut third), "at once: all know already");
    assert!(full.apply().is_empty());
}

#[test]
fn those_who_ask_and_those_who_are_applied_share_one_alarm() {
    let mut full = Full::new();
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
fn an_alarm_that_cannot_be_raised_holds_up_nobody() {
    let mut full = Full::new();
    let mut put = full.put();
    full.apply();
    full.rig.fail_all(&Error::ProposalDropped);
    assert!(is_refused(&mut put));
    assert_eq!(full.alarms(), 0);
    let mut again = full.put();
    full.apply();
    assert_eq!(full.apply().len(), 1, "the next one tries again");
    assert!(is_refused(&mut again));
}

/// As long as a request may take, and no longer.
#[test]
fn an_alarm_that_is_never_applied_is_not_waited_for_forever() {
    let mut full = Full::new();
    let (mut put, server) = (full.put(), full.rig.server.clone());
    full.apply();
    let waits = &server.shared.waits;
    let asked = full.rig.now();
    full.rig.advance(server.config().request_timeout());
    let mut late = Box::pin(server.check_quota(100));
    assert_eq!(poll(&mut late), None);
    waits.expire(asked, |_| Error::Timeout);
    assert!(matches!(poll(&mut put), Some(Err(Error::Timeout))), "nobody knows what became of it");
    assert_eq!(poll(&mut late), Some(Err(Refusal::NoSpace.into())));
}

/// The database of a member that has been asked to compact, and has not begun; and how far it is.
fn in_the_midst_of_a_compaction() -> (Vec<u8>, Index) {
    let mut rig = Rig::new();
    (0..10).for_each(|_| rig.put("a"));
    let compaction = pb::CompactionRequest { revision: 8, ..pb::CompactionRequest::default() };
    rig.done(&InternalRaftRequest { compaction: Some(compaction), ..header() });
    let (state, mut image) = (rig.server.state(), Vec::new());
    state.backend.snapshot_to(&mut image).unwrap();
    (image, state.applied().unwrap().0)
}

/// Has a database of a member that was sent it.
fn restored(keeper: impl Keeper + 'static, rig: &Rig) {
    let (image, index) = in_the_midst_of_a_compaction();
    let shared = &rig.server.shared;
    shared.disk.create_dir_all_durably(&shared.config.snap_path()).unwrap();
    for index in [1, index.0] {
        shared.files.receive_db(&mut &image[..]).unwrap().sync().unwrap().keep(index).unwrap();
    }
    let mut applier = applier(rig, keeper);
    applier.inbox.push(Work::Restore(index));
    applier.turn().unwrap();
    assert_eq!(rig.server.applied(), index);
}

#[test]
fn a_compaction_that_a_snapshot_brings_begins() {
    let rig = Rig::new();
    assert!(!rig.server.shared.compaction.is_rung());
    restored(Nobody, &rig);
    assert!(rig.server.shared.compaction.is_rung());
    let turn = rig.server.state().store.turn_compaction().unwrap();
    assert_ne!(turn, mvcc::CompactionTurn::Idle);
}

/// Looks at what is counted when a database takes the place of another.
struct Looking(prometheus::IntGauge);

impl Keeper for Looking {
    fn take_over(&mut self, _: &Backend) -> io::Result<()> {
        assert_eq!(self.0.get(), 1);
        Ok(())
    }
}

#[test]
fn databases_from_before_a_snapshot_go_with_it() {
    let rig = Rig::new();
    restored(Nobody, &rig);
    let shared = &rig.server.shared;
    assert_eq!(shared.disk.read_dir(&shared.config.snap_path()).unwrap(), ["db"]);
}

#[test]
fn it_is_counted_that_a_snapshot_is_being_applied() {
    let rig = Rig::new();
    let in_progress = rig.server.metrics().snapshot_apply_in_progress.clone();
    restored(Looking(in_progress.clone()), &rig);
    assert_eq!(in_progress.get(), 0);
}
