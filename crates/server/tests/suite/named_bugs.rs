//! Crash bugs of etcd releases, each with the shortest log that triggers it.

use backend::schema::{Bucket, meta};
use env::{Fault, SimDisk};
use prost::Message as _;
use proto::etcdserverpb::InternalRaftRequest as Request;
use raft::Entry;
use testkit::waiting::STEPS_MAX;
use types::{Index, Term};

use crate::support::observe::pairs;
use crate::support::{Member, Setup, requests as req};

/// The work between entries: a commit, and turns of compaction.
type Between<'a> = &'a dyn Fn(&Member) -> anyhow::Result<()>;

fn log(requests: &[Request]) -> Vec<Entry> {
    let entry = |(index, request): (u64, &Request)| Entry {
        term: Term(1),
        index: Index(index),
        data: request.encode_to_vec().into(),
        ..Entry::default()
    };
    (1..).zip(requests).map(entry).collect()
}

/// Commits each backend transaction separately.
const EAGER: Setup = Setup { pending_bytes_max: 0, ..Setup::DEFAULT };

fn run(disk: &SimDisk, log: &[Entry], between: Between<'_>) -> anyhow::Result<()> {
    let mut member = Member::open(disk, EAGER)?;
    for entry in log {
        member.apply(entry)?;
        between(&member)?;
    }
    Ok(())
}

/// Cuts the power at every disk operation and checks the member that recovers. Returns the number
/// of power cuts.
fn at_every_crash(log: &[Entry], between: Between<'_>, check: &dyn Fn(Member)) -> u64 {
    const CUTS: u64 = 6;
    let whole = SimDisk::new(0);
    run(&whole, log, between).unwrap();
    for change in 0..whole.calls().changes() {
        let disk = SimDisk::new(0);
        disk.fail_change(change, Fault::Crash);
        assert!(run(&disk, log, between).is_err());
        for cut in 0..CUTS {
            check(Member::open(&disk.power_cut(cut), Setup::default()).unwrap());
        }
    }
    whole.calls().changes() * CUTS
}

fn commit(member: &Member) -> anyhow::Result<()> {
    member.machine.backend().committer().turn()?;
    Ok(())
}

/// Commits after the entry and after each turn of compaction.
fn commit_and_compact(member: &Member) -> anyhow::Result<()> {
    commit(member)?;
    for _ in 0..STEPS_MAX {
        if member.machine.store().turn_compaction()? == mvcc::CompactionTurn::Idle {
            return Ok(());
        }
        commit(member)?;
    }
    panic!("not reached in {STEPS_MAX} steps: the compaction is finished");
}

/// Releases with the bug could make the consistent index durable before the effects of its entry,
/// which were then lost.
#[test]
fn the_applied_index_is_durable_with_its_data_3_5_0_to_3_5_2() {
    let puts: Vec<Request> = (0..12).map(|n| req::put("k", &[n], 0)).collect();
    let cuts = at_every_crash(&log(&puts), &commit, &|member| {
        let view = member.machine.backend().view();
        let (Index(applied), _) = meta::applied(&view).unwrap();
        let revisions = pairs(&view, Bucket::Key).len() as u64;
        assert_eq!(applied, revisions, "each entry puts one key");
        assert_eq!(member.machine.store().current(), 1 + applied.cast_signed());
    });
    assert!(cuts > 300, "only {cuts} cuts");
}

/// A revoked lease and its keys are deleted in one transaction.
#[test]
fn a_revoked_lease_is_deleted_together_with_its_keys() {
    let mut requests = vec![req::grant(7, 60)];
    requests.extend(["a", "b", "c"].map(|key| req::put(key, b"v", 7)));
    requests.push(req::revoke(7));
    at_every_crash(&log(&requests), &commit, &|member| {
        let (applied, _) = member.applied();
        let (store, lessor) = (member.machine.store(), member.machine.lessor());
        let granted = (1..5).contains(&applied.0);
        let keys = if granted { applied.0 - 1 } else { 0 };
        assert_eq!((lessor.len(), store.keys()), (usize::from(granted), keys), "{applied}");
        assert_eq!(pairs(&member.machine.backend().view(), Bucket::Lease).len(), lessor.len());
    });
}

/// A crash during compaction could lose the only record of the current revision.
#[test]
fn the_revision_does_not_go_back_after_a_crash_17780() {
    let compacted_at_a_deletion =
        [req::put("a", b"1", 0), req::put("a", b"2", 0), req::delete("a", ""), req::compact(4)];
    let compacted_before_it =
        [req::put("a", b"1", 0), req::put("b", b"2", 0), req::delete("a", "z"), req::compact(3)];
    let compacted_twice = [
        req::put("a", b"1", 0),
        req::delete("a", ""),
        req::compact(3),
        req::put("b", b"2", 0),
        req::delete("b", ""),
        req::compact(5),
    ];
    for requests in [&compacted_at_a_deletion[..], &compacted_before_it, &compacted_twice] {
        at_every_crash(&log(requests), &commit_and_compact, &|mut member| {
            let Index(applied) = member.applied().0;
            let writes = (1..).zip(requests).filter(|(_, request)| request.compaction.is_none());
            let written = writes.filter(|(index, _)| *index <= applied).count();
            let revision = 1 + i64::try_from(written).unwrap();
            assert_eq!(member.machine.store().current(), revision, "after entry {applied}");
            member.finish_compactions();
            assert_eq!(member.apply_next(&req::put("c", b"", 0)).revision, revision + 1);
        });
    }
}

/// Releases before 3.5.16 dropped a tombstone at the compaction revision. In their files the
/// compaction record may be the only trace of the revision, also if a crash left it unfinished.
#[test]
fn a_fully_compacted_file_of_an_older_release_keeps_its_revision_17780() {
    for finished in [true, false] {
        let mut member = Member::new(Setup::default());
        for request in [req::put("a", b"1", 0), req::delete("a", ""), req::compact(3)] {
            member.answer(&request).unwrap();
        }
        let mut tx = member.machine.backend().begin();
        for (key, _) in pairs(&member.machine.backend().view(), Bucket::Key) {
            tx.delete(Bucket::Key, key);
        }
        if finished {
            meta::set_finished_compaction(&mut tx, 3);
        }
        tx.commit().unwrap();
        let mut member = member.reopened();
        assert_eq!(member.machine.store().current(), 3, "finished: {finished}");
        member.finish_compactions();
        assert_eq!(member.apply_next(&req::put("a", b"2", 0)).revision, 4);
    }
}

/// A compaction that is recorded as finished has deleted everything; any other is resumed.
#[test]
fn an_interrupted_compaction_is_finished_after_a_restart() {
    let mut requests: Vec<Request> = (0..20).map(|n| req::put("k", &[n], 0)).collect();
    requests.push(req::compact(21));
    let finished = finished_at_every_crash(&log(&requests));
    assert!(
        finished.contains(&true) && finished.contains(&false),
        "crashes must hit finished and unfinished compactions"
    );
}

fn finished_at_every_crash(log: &[Entry]) -> Vec<bool> {
    let found = std::cell::RefCell::new(Vec::new());
    at_every_crash(log, &commit_and_compact, &|member| {
        let view = member.machine.backend().view();
        if meta::scheduled_compaction(&view).unwrap().is_none() {
            return;
        }
        let finished = meta::finished_compaction(&view).unwrap() == Some(21);
        found.borrow_mut().push(finished);
        assert_eq!(member.machine.store().compacted(), 21, "compacted revision after recovery");
        assert!(
            !finished || pairs(&view, Bucket::Key).len() == 1,
            "a finished compaction left revisions"
        );
        assert_eq!(member.turn_compaction(), !finished);
        member.finish_compactions();
        assert_eq!(pairs(&member.machine.backend().view(), Bucket::Key).len(), 1);
    });
    found.into_inner()
}
