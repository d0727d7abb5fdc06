//! Bugs that etcd had when power or process failed, each as the shortest log that shows it.

use backend::schema::{Bucket, meta};
use env::{Fault, SimDisk};
use prost::Message as _;
use proto::etcdserverpb::InternalRaftRequest as Request;
use raft::Entry;
use types::{Index, Term};

use crate::support::observe::pairs;
use crate::support::{Member, Setup, requests as of};

/// What is done between entries: a commit, turns of compaction, or nothing.
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

/// Whatever is a transaction of its own is committed on its own.
const EAGER: Setup = Setup { pending_bytes_max: 0, ..Setup::DEFAULT };

fn run(disk: &SimDisk, log: &[Entry], between: Between<'_>) -> anyhow::Result<()> {
    let mut member = Member::open(disk, EAGER)?;
    for entry in log {
        member.apply(entry)?;
        between(&member)?;
    }
    Ok(())
}

/// Loses power at every change of the disk, and looks at the member that starts again. Returns how often.
fn at_any_change(log: &[Entry], between: Between<'_>, look: &dyn Fn(Member)) -> u64 {
    const CUTS: u64 = 6;
    let whole = SimDisk::new(0);
    run(&whole, log, between).unwrap();
    for change in 0..whole.calls().changes() {
        let disk = SimDisk::new(0);
        disk.fail_change(change, Fault::Crash);
        assert!(run(&disk, log, between).is_err());
        for cut in 0..CUTS {
            look(Member::open(&disk.power_cut(cut), Setup::default()).unwrap());
        }
    }
    whole.calls().changes() * CUTS
}

fn commit(member: &Member) -> anyhow::Result<()> {
    member.machine.backend.committer().turn()?;
    Ok(())
}

/// Interval turn of compaction in a commit of its own.
fn commit_and_compact(member: &Member) -> anyhow::Result<()> {
    commit(member)?;
    while member.machine.store.turn_compaction()? != mvcc::CompactionTurn::Idle {
        commit(member)?;
    }
    Ok(())
}

/// These releases could make the index durable without what the entry did, and then never did it again.
#[test]
fn the_applied_index_is_durable_with_its_data_3_5_0_to_3_5_2() {
    let puts: Vec<Request> = (0..12).map(|n| of::put("k", &[n], 0)).collect();
    let cuts = at_any_change(&log(&puts), &commit, &|member| {
        let view = member.machine.backend.view();
        let (Index(applied), _) = meta::applied(&view).unwrap();
        let revisions = pairs(&view, Bucket::Key).len() as u64;
        assert_eq!(applied, revisions, "each entry puts one key");
        assert_eq!(member.machine.store.current(), 1 + applied.cast_signed());
    });
    assert!(cuts > 300, "only {cuts} cuts");
}

/// A lease that is revoked takes its keys with it: neither is there without the other.
#[test]
fn a_lease_is_gone_with_its_keys() {
    let mut requests = vec![of::grant(7, 60)];
    requests.extend(["a", "b", "c"].map(|key| of::put(key, b"v", 7)));
    requests.push(of::revoke(7));
    at_any_change(&log(&requests), &commit, &|member| {
        let (applied, _) = member.applied();
        let (store, lessor) = (&member.machine.store, &member.machine.lessor);
        let there = (1..5).contains(&applied.0);
        let keys = if there { applied.0 - 1 } else { 0 };
        assert_eq!((lessor.len(), store.keys()), (usize::from(there), keys), "{applied}");
        assert_eq!(pairs(&member.machine.backend.view(), Bucket::Lease).len(), lessor.len());
    });
}

/// What is compacted when the power fails may be all that told how far the revision had come.
#[test]
fn the_revision_does_not_go_back_after_a_crash_17780() {
    let compacted_at_a_deletion =
        [of::put("a", b"1", 0), of::put("a", b"2", 0), of::delete("a", ""), of::compact(4)];
    let compacted_before_it =
        [of::put("a", b"1", 0), of::put("b", b"2", 0), of::delete("a", "z"), of::compact(3)];
    let compacted_twice = [
        of::put("a", b"1", 0),
        of::delete("a", ""),
        of::compact(3),
        of::put("b", b"2", 0),
        of::delete("b", ""),
        of::compact(5),
    ];
    for requests in [&compacted_at_a_deletion[..], &compacted_before_it, &compacted_twice] {
        at_any_change(&log(requests), &commit_and_compact, &|mut member| {
            let Index(applied) = member.applied().0;
            let writes = (1..).zip(requests).filter(|(_, request)| request.compaction.is_none());
            let written = writes.filter(|(index, _)| *index <= applied).count();
            let revision = 1 + i64::try_from(written).unwrap();
            assert_eq!(member.machine.store.current(), revision, "after entry {applied}");
            member.finish_compactions();
            assert_eq!(member.apply_next(&of::put("c", b"", 0)).revision, revision + 1);
        });
    }
}

/// Releases before 3.5.16 dropped a deletion at the revision of a compaction: their files may tell of it by the compaction alone, also if that was
/// cut short after all was dropped.
#[test]
fn a_file_of_an_older_release_with_nothing_left_in_it_keeps_its_revision_17780() {
    for finished in [true, false] {
        let mut member = Member::new(Setup::default());
        for request in [of::put("a", b"1", 0), of::delete("a", ""), of::compact(3)] {
            member.answer(&request).unwrap();
        }
        let mut tx = member.machine.backend.begin();
        for (key, _) in pairs(&member.machine.backend.view(), Bucket::Key) {
            tx.delete(Bucket::Key, key);
        }
        if finished {
            meta::set_finished_compaction(&mut tx, 3);
        }
        tx.commit().unwrap();
        let mut member = member.reopened();
        assert_eq!(member.machine.store.current(), 3, "finished: {finished}");
        member.finish_compactions();
        assert_eq!(member.apply_next(&of::put("a", b"2", 0)).revision, 4);
    }
}

/// Whoever finds a compaction finished finds nothing that it should have dropped; if not, it is begun again.
#[test]
fn a_compaction_that_was_cut_short_is_finished_at_the_next_start() {
    let mut requests: Vec<Request> = (0..20).map(|n| of::put("k", &[n], 0)).collect();
    requests.push(of::compact(21));
    let finished = at_any_change_finished(&log(&requests));
    assert!(finished.contains(&true) && finished.contains(&false), "at both times");
}

fn at_any_change_finished(log: &[Entry]) -> Vec<bool> {
    let found = std::cell::RefCell::new(Vec::new());
    at_any_change(log, &commit_and_compact, &|member| {
        let view = member.machine.backend.view();
        if meta::scheduled_compaction(&view).unwrap().is_none() {
            return;
        }
        let finished = meta::finished_compaction(&view).unwrap() == Some(21);
        found.borrow_mut().push(finished);
        assert_eq!(member.machine.store.compacted(), 21, "nothing before it can be read");
        assert!(!finished || pairs(&view, Bucket::Key).len() == 1, "finished, and not done");
        assert_eq!(member.turn_compaction(), !finished);
        member.finish_compactions();
        assert_eq!(pairs(&member.machine.backend.view(), Bucket::Key).len(), 1);
    });
    found.into_inner()
}
