//! Random sequences of requests, compactions and restarts: every response, stored byte and lease
//! equals the model's.
//!
//! After each step the revisions, the number of keys and the leases of the keys are compared. After
//! each compaction turn and each restart, the database has all that it must have, and nothing else.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use mvcc::watch::{History as _, HistoryError};
use mvcc::{
    Changes, CompactionTicket, CompactionTurn, Config, Error, Event, EventKind, Reader, Response,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use prost::Message as _;
use proto::etcdserverpb::{
    DeleteRangeRequest, PutRequest, RangeRequest, RangeResponse, TxnRequest, TxnResponse,
};
use proto::mvccpb::KeyValue;
use types::Revision;

use crate::answers::Write;
use crate::requests::{self, Resolve};
use crate::state::{Change, Model};
use crate::subject::{Stop, Subject, message};

/// The maximum number of steps.
const STEPS_MAX: usize = 180;
/// The maximum number of readers that are held.
const HELD_MAX: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    Put(PutRequest),
    Delete(DeleteRangeRequest),
    Txn { request: TxnRequest, skip_ranges: bool },
    Revoke(i64),
    Grant(i64),
    Range(RangeRequest),
    ReadTxn(TxnRequest),
    ValueAt { key: Bytes, revision: i64 },
    Changes { from: i64, to: i64, most: usize },
    HashKv(i64),
    Compact(i64),
    Turns(usize),
    Hold,
    AskHeld(usize, RangeRequest),
    LetGo,
    Commit,
    Defragment,
    Restart(Stop),
}

fn step() -> impl Strategy<Value = Step> {
    let stop =
        prop_oneof![Just(Stop::Close), Just(Stop::Drop), any::<u64>().prop_map(Stop::PowerCut),];
    let past = || -4..30_i64;
    prop_oneof![
        30 => requests::put().prop_map(Step::Put),
        5 => requests::delete().prop_map(Step::Delete),
        16 => (requests::txn(2), any::<bool>())
            .prop_map(|(request, skip_ranges)| Step::Txn { request, skip_ranges }),
        1 => requests::known_lease().prop_map(Step::Revoke),
        1 => requests::known_lease().prop_map(Step::Grant),
        16 => requests::range(requests::revision()).prop_map(Step::Range),
        5 => requests::read_txn().prop_map(Step::ReadTxn),
        4 => (requests::key(), requests::revision())
            .prop_map(|(key, revision)| Step::ValueAt { key, revision }),
        4 => (past(), past(), 0..20_usize)
            .prop_map(|(from, to, most)| Step::Changes { from, to, most }),
        4 => requests::revision().prop_map(Step::HashKv),
        8 => past().prop_map(Step::Compact),
        8 => prop_oneof![5 => 1..6_usize, 1 => Just(1000)].prop_map(Step::Turns),
        2 => Just(Step::Hold),
        8 => (any::<usize>(), requests::range(requests::revision()))
            .prop_map(|(which, range)| Step::AskHeld(which, range)),
        1 => Just(Step::LetGo),
        2 => Just(Step::Commit),
        1 => Just(Step::Defragment),
        2 => stop.prop_map(Step::Restart),
    ]
}

/// Counts of what occurred, so that a test without effect fails.
#[derive(Debug, Default)]
struct Seen {
    changes: u32,
    succeeded: u32,
    failed: u32,
    refused: u32,
    compacted: u32,
    future: u32,
    resumed: u32,
    hashes: u32,
    old_hashes: u32,
    held_past_compaction: u32,
}

impl Seen {
    fn check(&self, cases: u32) {
        let Seen { changes, succeeded, failed, refused, compacted, .. } = self;
        let Seen { future, resumed, hashes, old_hashes, held_past_compaction, .. } = self;
        let often = [changes, succeeded, failed, refused, hashes];
        assert!(often.into_iter().all(|count| *count > cases), "{self:?}");
        let seldom = [compacted, future, resumed, old_hashes, held_past_compaction];
        assert!(seldom.into_iter().all(|count| *count > cases / 20), "{self:?}");
    }
}

#[test]
fn random_sequences_give_the_results_of_the_model() {
    let seen = RefCell::new(Seen::default());
    let mut runner = TestRunner::new(ProptestConfig::default());
    let runs = (1..6_usize, vec(step(), 1..STEPS_MAX));
    let outcome = runner.run(&runs, |(compaction_batch_limit, steps)| {
        let mut run = Run::new(Config { compaction_batch_limit });
        for step in steps {
            run = run.step(step, &mut seen.borrow_mut());
            run.check();
        }
        run.finish(&mut seen.borrow_mut());
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    seen.borrow().check(runner.config().cases);
}

/// A store and its model.
struct Run {
    subject: Subject,
    model: Model,
    /// The model after a power cut.
    durable: Model,
    /// Unfinished compactions in order, and the number of callbacks of each.
    tickets: Vec<(CompactionTicket, Arc<AtomicU32>)>,
    held: Vec<(Reader, Model)>,
}

impl Run {
    fn new(config: Config) -> Run {
        let model = Model::new();
        let subject = Subject::new(config, &model.leases);
        Run { subject, durable: model.clone(), model, tickets: Vec::new(), held: Vec::new() }
    }

    fn step(mut self, step: Step, seen: &mut Seen) -> Run {
        match step {
            Step::Put(request) => self.put(&request, seen),
            Step::Delete(request) => self.delete(&request),
            Step::Txn { request, skip_ranges } => self.txn(request, skip_ranges, seen),
            Step::Revoke(lease) => self.revoke(lease),
            Step::Grant(lease) => self.grant(lease),
            Step::Range(request) => self.range(request, seen),
            Step::ReadTxn(request) => self.read_txn(request),
            Step::ValueAt { key, revision } => self.value_at(&key, revision),
            Step::Changes { from, to, most } => self.changes(from, to, most),
            Step::HashKv(revision) => self.hash_kv(revision, seen),
            Step::Compact(at) => self.compact(at, seen),
            Step::Turns(turns) => self.turns(turns, seen),
            Step::Hold if self.held.len() < HELD_MAX => self.hold(),
            Step::Hold | Step::LetGo => self.held.truncate(1),
            Step::AskHeld(which, request) => self.ask_held(which, request, seen),
            Step::Commit => self.commit(),
            Step::Defragment => self.defragment(),
            Step::Restart(stop) => self = self.restart(stop, seen),
        }
        self
    }

    fn resolve(&self) -> Resolve<'_> {
        Resolve { current: self.model.current(), keys: self.model.keys() }
    }

    fn put(&mut self, request: &PutRequest, seen: &mut Seen) {
        let expected = self.model.write(|write| write.put(request));
        let answer = self.subject.write(|txn| txn.put(request));
        seen.refused += u32::from(answer.is_err());
        self.same_write(&expected, answer);
    }

    fn delete(&mut self, request: &DeleteRangeRequest) {
        let expected = self.model.write(|write| Ok(write.delete_range(request)));
        let answer = self.subject.write(|txn| txn.delete_range(request));
        self.same_write(&expected, answer);
    }

    fn txn(&mut self, request: TxnRequest, skip_ranges: bool, seen: &mut Seen) {
        let request = self.resolve().txn(request);
        let before = self.model.current();
        let expected = self.model.write(|write| write.txn(&request, skip_ranges));
        let answer = self.subject.write(|txn| txn.txn(&request, skip_ranges));
        match &answer {
            Ok((result, _)) if result.succeeded => seen.succeeded += 1,
            Ok(_) => seen.failed += 1,
            Err(_) => seen.refused += 1,
        }
        seen.changes += u32::from(self.model.current() > before);
        self.same_write(&expected, answer);
    }

    fn revoke(&mut self, lease: i64) {
        let revoke = |write: &mut Write<'_>| {
            write.revoke(lease);
            Ok(())
        };
        self.model.write(revoke).unwrap();
        let keys = self.subject.leases.keys_of(lease);
        let answer = self.subject.write(|txn| Ok(txn.delete_keys(&keys)?));
        self.same_changes(&answer.unwrap().1);
        self.model.leases.remove(&lease);
        self.subject.leases.set_known(&self.model.leases);
    }

    fn grant(&mut self, lease: i64) {
        self.model.leases.insert(lease);
        self.subject.leases.set_known(&self.model.leases);
    }

    /// Compares a response and its changes.
    fn same_write<M, R>(&self, expected: &Result<M, Error>, answer: Result<(R, Changes), Error>)
    where
        M: prost::Message + Default + PartialEq + std::fmt::Debug,
        R: Response,
    {
        let answer = answer.map(|(answer, changes)| {
            self.same_changes(&changes);
            message(&answer)
        });
        assert_eq!(&answer, expected);
    }

    fn same_changes(&self, changes: &Changes) {
        assert_eq!(changes.revision(), self.model.current());
        let new = self.model.log.iter().rev().zip(changes.events());
        let new = new.filter(|(change, _)| change.revision.main == changes.revision()).count();
        let expected = &self.model.log[self.model.log.len() - new..];
        assert_eq!(changes.events().len(), expected.len(), "{:?}", changes.events());
        for (event, change) in changes.events().iter().zip(expected) {
            same_event(event, change);
        }
    }

    fn range(&self, request: RangeRequest, seen: &mut Seen) {
        let request = self.resolve().range(request);
        let answer = self.subject.store.range(&request);
        seen.compacted += u32::from(answer == Err(Error::Compacted));
        seen.future += u32::from(answer == Err(Error::FutureRevision));
        if let Ok(answer) = &answer {
            let kvs: Vec<_> = answer.kvs.iter().map(|kv| KeyValue::decode(kv).unwrap()).collect();
            assert_eq!(kvs, message::<RangeResponse>(answer).kvs);
            assert_eq!((kvs.len(), kvs.is_empty()), (answer.kvs.len(), answer.kvs.is_empty()));
        }
        let answer = answer.map(|answer| message(&answer));
        assert_eq!(answer, self.model.range(&request), "{request:?}");
    }

    fn read_txn(&self, request: TxnRequest) {
        let request = self.resolve().txn(request);
        let answer = self.subject.store.read_txn(&request);
        let answer = answer.map(|answer| message::<TxnResponse>(&answer));
        assert_eq!(answer, self.model.read_txn(&request), "{request:?}");
    }

    fn value_at(&self, key: &Bytes, revision: i64) {
        let revision = self.resolve().revision(revision);
        let keys = self.model.keys_at(revision.min(self.model.current()));
        let expected = match revision {
            past if past < self.model.compacted => Err(Error::Compacted),
            future if future > self.model.current() => Err(Error::FutureRevision),
            _ => Ok(keys.get(key).map(|kv| Bytes::from(kv.encode_to_vec()))),
        };
        let store = &self.subject.store;
        let found = expected.clone().unwrap_or_default();
        assert_eq!(mvcc::watch::History::value_at(store, key, revision), Ok(found));
        assert_eq!(store.value_at(key, revision), expected);
    }

    fn changes(&self, from: i64, to: i64, most: usize) {
        let (from, to) = (self.resolve().revision(from), self.resolve().revision(to));
        let mut events = Vec::new();
        let outcome = self.subject.store.changes(from, to, &mut |event| {
            events.push(event);
            if events.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        if from < self.model.compacted {
            assert_eq!(outcome, Err(HistoryError::Compacted(self.model.compacted)));
            assert_eq!(events, []);
            return;
        }
        assert_eq!(outcome, Ok(()));
        // At the compacted revision, only changes that are still in the database.
        let file: BTreeSet<_> = self.subject.file().into_iter().map(|(key, _)| key).collect();
        let changes = self.model.stored.values().filter(|change| {
            (from..=to).contains(&change.revision.main) && file.contains(&change.encode().0)
        });
        let changes: Vec<_> = changes.take(most.max(1)).collect();
        assert_eq!(events.len(), changes.len(), "{events:?}");
        for (event, change) in events.iter().zip(changes) {
            same_event(event, change);
        }
    }

    fn hash_kv(&self, revision: i64, seen: &mut Seen) {
        let revision = self.resolve().revision(revision);
        let expected = self.model.hash_kv(&self.subject.file(), revision);
        let answer = self.subject.store.hash_kv(revision);
        seen.hashes += u32::from(answer.is_ok());
        assert_eq!(answer, expected.map(|hash| (hash, self.model.current())), "at {revision}");
    }

    fn compact(&mut self, at: i64, seen: &mut Seen) {
        let at = self.resolve().revision(at);
        let expected = self.model.compact(at);
        let answer = self.subject.compact(at);
        assert_eq!(answer.as_ref().map(|_| ()), expected.as_ref().copied(), "at {at}");
        seen.refused += u32::from(answer.is_err());
        if let Ok(ticket) = answer {
            assert_eq!(ticket, self.subject.store.last_compaction());
            self.expect_compaction(ticket);
        }
    }

    fn expect_compaction(&mut self, ticket: CompactionTicket) {
        let calls = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&calls);
        let callback = move || _ = count.fetch_add(1, Ordering::Relaxed);
        self.subject.store.when_compacted(ticket, Box::new(callback));
        self.tickets.push((ticket, calls));
    }

    /// Executes bounded turns of compaction.
    fn turns(&mut self, most: usize, seen: &mut Seen) {
        let limit = self.subject.limit();
        for _ in 0..most {
            let before = self.subject.file().len();
            let turn = self.subject.store.turn_compaction().unwrap();
            if self.model.jobs.is_empty() {
                assert_eq!(turn, CompactionTurn::Idle);
                return;
            }
            assert_ne!(turn, CompactionTurn::Idle);
            let dropped = before - self.subject.file().len();
            assert!(dropped <= limit);
            assert_eq!(dropped, dropped_in(turn));
            if self.subject.store.is_compacted(self.tickets[0].0) {
                self.finish_compaction(seen);
            }
            self.check_file();
        }
    }

    fn finish_compaction(&mut self, seen: &mut Seen) {
        let (_, calls) = self.tickets.remove(0);
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        let hashes = self.model.hashes.len();
        self.model.finish_compaction();
        assert_eq!(self.subject.file(), self.model.pairs());
        assert_eq!(self.subject.store.compaction_hashes(), self.model.comparable_hashes());
        seen.old_hashes += u32::from(self.model.hashes.len() > hashes);
    }

    fn hold(&mut self) {
        self.held.push((self.subject.store.reader(), self.model.clone()));
    }

    /// A reader returns the results of the revision at which it was created.
    fn ask_held(&self, which: usize, request: RangeRequest, seen: &mut Seen) {
        let Some(which) = which.checked_rem(self.held.len()) else { return };
        let (reader, model) = &self.held[which];
        let request = Resolve { current: model.current(), keys: model.keys() }.range(request);
        let answer = reader.range(&request).map(|answer| message::<RangeResponse>(&answer));
        assert_eq!(reader.current(), model.current());
        assert_eq!(answer, model.range(&request), "{request:?}");
        seen.held_past_compaction += u32::from(self.model.finished > Some(model.compacted));
    }

    fn commit(&mut self) {
        self.subject.backend.force_commit().unwrap();
        self.durable = self.model.clone();
    }

    /// Defragments the database, also under readers.
    fn defragment(&mut self) {
        self.subject.backend.defragment().unwrap();
        self.durable = self.model.clone();
    }

    fn restart(mut self, stop: Stop, seen: &mut Seen) -> Run {
        // A reader would keep the file open.
        self.held.clear();
        let mut model = if stop == Stop::Close { self.model } else { self.durable };
        model.restart();
        let subject = self.subject.restart(stop, &model.leases);
        let mut run =
            Run { subject, durable: model.clone(), model, tickets: Vec::new(), held: Vec::new() };
        if !run.model.jobs.is_empty() {
            seen.resumed += 1;
            run.expect_compaction(run.subject.store.last_compaction());
        }
        run.check_file();
        run
    }

    /// Checks the invariants.
    fn check(&self) {
        let store = &self.subject.store;
        assert_eq!(
            (store.current(), store.compacted()),
            (self.model.current(), self.model.compacted)
        );
        assert_eq!(store.keys(), self.model.keys().len() as u64);
        assert_eq!(self.subject.leases.keys(), self.model.attached());
        for (ticket, calls) in &self.tickets {
            assert!(!store.is_compacted(*ticket));
            assert_eq!(calls.load(Ordering::Relaxed), 0);
        }
    }

    /// Checks that the database has all that the current compaction keeps, and nothing that it did
    /// not have before.
    fn check_file(&self) {
        let file = self.subject.file();
        let has: BTreeSet<_> = file.iter().collect();
        let pairs = self.model.pairs();
        let may: BTreeSet<_> = pairs.iter().collect();
        assert!(has.is_subset(&may), "{:?}", has.difference(&may));
        let job = self.model.jobs.front();
        let kept = job.map(|job| (job.at, self.model.kept(job.at)));
        let stays = |revision: &Revision| match &kept {
            Some((at, kept)) => revision.main > *at || kept.contains(revision),
            None => true,
        };
        for (revision, change) in &self.model.stored {
            assert!(
                !stays(revision) || has.contains(&change.encode()),
                "{change:?} is missing in the database"
            );
        }
    }

    /// Compares everything that can be read, after all compactions, and again after a restart.
    fn finish(mut self, seen: &mut Seen) {
        self.turns(usize::MAX, seen);
        self.check_everything();
        let mut run = self.restart(Stop::Close, seen);
        run.turns(usize::MAX, seen);
        run.check();
        run.check_everything();
    }

    fn check_everything(&self) {
        let everything = Bytes::from_static(b"\0");
        for revision in self.model.compacted.max(1)..=self.model.current() {
            let (key, range_end) = (everything.clone(), everything.clone());
            let request = RangeRequest { key, range_end, revision, ..RangeRequest::default() };
            let answer = self.subject.store.range(&request).map(|answer| message(&answer));
            assert_eq!(answer, self.model.range(&request));
        }
        let hash = self.subject.store.hash_kv(self.model.current());
        let expected = self.model.hash_kv(&self.model.pairs(), self.model.current());
        assert_eq!(hash, expected.map(|hash| (hash, self.model.current())));
    }
}

/// Returns the number of revisions that a turn deleted.
fn dropped_in(turn: CompactionTurn) -> usize {
    match turn {
        CompactionTurn::Idle | CompactionTurn::Index => 0,
        CompactionTurn::File { dropped } | CompactionTurn::Finished { dropped, .. } => dropped,
    }
}

fn same_event(event: &Event, change: &Change) {
    let kind = if change.kv.is_some() { EventKind::Put } else { EventKind::Delete };
    assert_eq!((event.kind, event.revision, &event.key), (kind, change.revision, &change.key));
    // A key that is put again in the transaction that created it still counts as created.
    let created = change.kv.as_ref().is_some_and(|kv| kv.create_revision == kv.mod_revision);
    assert_eq!(event.created, created);
    assert_eq!(event.kv, change.event_kv().encode_to_vec());
}
