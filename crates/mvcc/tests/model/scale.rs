//! Many keys with long common prefixes, keys with thousands of revisions, mass deletes, and
//! compactions.
//!
//! A small key space never fills a leaf of the index, and never leaves the code path for few keys.
//! Here the model is a list of revisions for each key.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use env::SeededRandom;
use mvcc::{CompactionTurn, Config, Error};
use proto::etcdserverpb::{DeleteRangeRequest, PutRequest, RangeRequest, RangeResponse};
use proto::mvccpb::KeyValue;
use testkit::waiting::step_until;

use crate::answers::header;
use crate::subject::{Stop, Subject, message};

const KEYS: u64 = 6000;
const ROUNDS: u64 = 150;
/// Keys per transaction.
const BATCH: u64 = 120;
/// Adjacent keys that get many revisions.
const HOT: u64 = 15;
/// Puts of a hot key in a row.
const HOT_PUTS: u64 = 80;
/// Limits around which ranges take another code path.
const LIMITS: [i64; 8] = [0, 1, 100, 998, 999, 1000, 1001, 2000];

/// A prefix so long that a node of the index holds few keys, and the tree has several levels.
fn key(number: u64) -> Bytes {
    let namespace = number / 700;
    let prefix = "/registry/example.com/widgets/a-namespace-with-a-name-of-some-length";
    Bytes::from(format!("{prefix}-{namespace:03}/{}/{number:06}", "n".repeat(60)))
}

/// The changes of each key, in order.
#[derive(Default)]
struct Histories {
    keys: BTreeMap<Bytes, Vec<(i64, Option<KeyValue>)>>,
    current: i64,
    compacted: i64,
}

impl Histories {
    fn at(&self, key: &[u8], revision: i64) -> Option<&KeyValue> {
        newest(self.keys.get(key)?, revision)
    }

    fn put(&mut self, key: &Bytes, value: Bytes) {
        let revision = self.current + 1;
        let before = self.at(key, revision);
        let kv = KeyValue {
            key: key.clone(),
            create_revision: before.map_or(revision, |kv| kv.create_revision),
            mod_revision: revision,
            version: before.map_or(1, |kv| kv.version + 1),
            value,
            lease: 0,
        };
        self.keys.entry(key.clone()).or_default().push((revision, Some(kv)));
    }

    fn delete_range(&mut self, from: &Bytes, to: &Bytes) -> i64 {
        let mut deleted = 0;
        for history in self.keys.range_mut(from.clone()..to.clone()).map(|(_, history)| history) {
            if history.last().is_some_and(|(_, kv)| kv.is_some()) {
                history.push((self.current + 1, None));
                deleted += 1;
            }
        }
        self.current += i64::from(deleted > 0);
        deleted
    }

    fn range(&self, request: &RangeRequest) -> Result<RangeResponse, Error> {
        let RangeRequest { key, range_end, revision, .. } = request;
        if *revision < self.compacted {
            return Err(Error::Compacted);
        }
        let histories = self.keys.range(key.clone()..range_end.clone()).map(|(_, history)| history);
        let live: Vec<_> = histories.filter_map(|history| newest(history, *revision)).collect();
        let count = i64::try_from(live.len()).unwrap();
        let limit = usize::try_from(request.limit).unwrap();
        let take = match limit {
            _ if request.count_only => 0,
            0 => live.len(),
            limit => limit.min(live.len()),
        };
        let strip = |kv: &&KeyValue| match request.keys_only {
            true => KeyValue { value: Bytes::new(), ..(*kv).clone() },
            false => (*kv).clone(),
        };
        let kvs = live[..take].iter().map(strip).collect();
        let more = !request.count_only && limit > 0 && live.len() > limit;
        Ok(RangeResponse { header: header(self.current), kvs, more, count })
    }

    /// Returns the number of revisions in the database after compaction.
    fn stored(&self) -> usize {
        let kept = |history: &Vec<(i64, Option<KeyValue>)>| {
            let (old, new): (Vec<_>, Vec<_>) =
                history.iter().partition(|(revision, _)| *revision <= self.compacted);
            let stays = old
                .last()
                .is_some_and(|(revision, kv)| kv.is_some() || *revision == self.compacted);
            new.len() + usize::from(stays)
        };
        self.keys.values().map(kept).sum()
    }

    fn live(&self) -> usize {
        let live = |history: &&Vec<(i64, Option<KeyValue>)>| history.last().unwrap().1.is_some();
        self.keys.values().filter(live).count()
    }
}

fn newest(history: &[(i64, Option<KeyValue>)], revision: i64) -> Option<&KeyValue> {
    history.iter().rfind(|(at, _)| *at <= revision)?.1.as_ref()
}

struct Run {
    subject: Subject,
    histories: Histories,
    random: SeededRandom,
}

impl Run {
    fn new(seed: u64) -> Run {
        let subject = Subject::new(Config { compaction_batch_limit: 300 }, &BTreeSet::new());
        let histories = Histories { current: 1, compacted: -1, ..Histories::default() };
        Run { subject, histories, random: SeededRandom::new(seed) }
    }

    /// Executes a transaction that puts some keys, most of them adjacent.
    fn put_batch(&mut self) {
        let first = self.random.below(KEYS);
        let numbers = (0..BATCH).map(|at| (first + at * (1 + at / 100)) % KEYS);
        let keys: BTreeSet<Bytes> = numbers.map(key).collect();
        self.put_all(&keys);
    }

    fn put_hot(&mut self) {
        let first = self.random.below(KEYS);
        let hot = (first..first + HOT).map(key).collect();
        for _ in 0..HOT_PUTS {
            self.put_all(&hot);
        }
    }

    fn put_all(&mut self, keys: &BTreeSet<Bytes>) {
        let value = Bytes::from(self.histories.current.to_string());
        let puts: Vec<_> = keys
            .iter()
            .map(|key| PutRequest {
                key: key.clone(),
                value: value.clone(),
                ..PutRequest::default()
            })
            .collect();
        let put_all = |txn: &mut mvcc::WriteTxn<'_, '_>| {
            puts.iter().try_for_each(|put| txn.put(put).map(|_| ()))
        };
        let ((), changes) = self.subject.write(put_all).unwrap();
        keys.iter().for_each(|key| self.histories.put(key, value.clone()));
        self.histories.current += 1;
        assert_eq!(
            (changes.revision(), changes.events().len()),
            (self.histories.current, keys.len())
        );
    }

    fn delete_many(&mut self) {
        let all = self.random.chance(1, 8);
        let first = if all { 0 } else { self.random.below(KEYS) };
        let count = if all { KEYS } else { self.random.below(900) };
        let (from, to) = (key(first), key(first + count));
        let (key, range_end) = (from.clone(), to.clone());
        let request = DeleteRangeRequest { key, range_end, prev_kv: false };
        let (answer, _) = self.subject.write(|txn| txn.delete_range(&request)).unwrap();
        assert_eq!(answer.deleted, self.histories.delete_range(&from, &to));
        assert_eq!(answer.revision, self.histories.current);
    }

    /// Schedules a compaction and executes some of its turns. Others follow later.
    fn compact(&mut self) {
        let back = i64::try_from(self.random.below(300)).unwrap();
        let at = (self.histories.current - back).max(1);
        if at > self.histories.compacted {
            self.subject.compact(at).unwrap();
            self.histories.compacted = at;
        } else {
            assert_eq!(self.subject.compact(at).unwrap_err(), Error::Compacted);
        }
        self.take_turns();
    }

    fn take_turns(&mut self) {
        for _ in 0..self.random.below(8) {
            self.subject.store.turn_compaction().unwrap();
        }
    }

    fn finish_compaction(&self) {
        let is_idle = || self.subject.store.turn_compaction().unwrap() == CompactionTurn::Idle;
        step_until("the compaction is finished", is_idle);
        assert_eq!(self.subject.file().len(), self.histories.stored());
    }

    fn look(&mut self) {
        let count = [3, 400, 2500, KEYS][usize::try_from(self.random.below(4)).unwrap()];
        let first = self.random.below(KEYS);
        let readable = self.histories.current - self.histories.compacted.max(1);
        let back = match self.random.below(3) {
            0 => 0,
            _ => i64::try_from(self.random.below(u64::try_from(readable).unwrap() + 2)).unwrap(),
        };
        let request = RangeRequest {
            key: key(first),
            range_end: key(first + count),
            revision: (self.histories.current - back).max(1),
            limit: LIMITS[usize::try_from(self.random.below(8)).unwrap()],
            keys_only: self.random.chance(1, 2),
            count_only: self.random.chance(1, 4),
            ..RangeRequest::default()
        };
        let answer = self.subject.store.range(&request).map(|answer| message(&answer));
        assert_eq!(answer, self.histories.range(&request), "{request:?}");
        if answer.is_ok() {
            let reader = self.subject.store.reader();
            let again = reader.range(&request).map(|answer| message(&answer));
            assert_eq!(again, answer, "{request:?}");
        }
    }

    fn round(&mut self) {
        match self.random.below(12) {
            0..6 => self.put_batch(),
            6 => self.put_hot(),
            7 | 8 => self.delete_many(),
            9 | 10 => self.compact(),
            _ => self.take_turns(),
        }
        self.look();
        self.look();
        assert_eq!(self.subject.store.keys(), self.histories.live() as u64);
    }

    fn restart(self) -> Run {
        let subject = self.subject.restart(Stop::Close, &BTreeSet::new());
        Run { subject, ..self }
    }
}

#[test]
fn many_keys_with_long_histories_are_counted_and_read_at_every_revision() {
    let mut run = Run::new(1);
    // With gaps, so that later keys fall between them and split nodes that have hot keys.
    for start in (0..KEYS).step_by(1000) {
        run.put_all(&(start..start + 1000).step_by(4).map(key).collect());
    }
    for round in 0..ROUNDS {
        run.round();
        if round == ROUNDS / 2 {
            run = run.restart();
        }
    }
    run.finish_compaction();
    let hash = run.subject.store.hash_kv(0).unwrap();
    run = run.restart();
    run.finish_compaction();
    assert_eq!(run.subject.store.hash_kv(0).unwrap(), hash);
    for _ in 0..100 {
        run.look();
    }
    assert!(run.histories.current > 800, "hot keys got many revisions");
}

/// All keys but one are deleted, and the index is compacted, while a reader holds the previous one.
#[test]
fn a_reader_keeps_keys_that_a_compaction_removes() {
    let mut run = Run::new(2);
    let keys: BTreeSet<Bytes> = (0..KEYS).map(key).collect();
    run.put_all(&keys);
    run.put_hot();
    let before = run.histories.current;
    let reader = run.subject.store.reader();
    let (from, to) = (key(1), key(KEYS));
    let (first, range_end) = (from.clone(), to.clone());
    let delete = DeleteRangeRequest { key: first, range_end, prev_kv: false };
    let (answer, _) = run.subject.write(|txn| txn.delete_range(&delete)).unwrap();
    assert_eq!(answer.deleted, run.histories.delete_range(&from, &to));
    run.put_all(&BTreeSet::from([key(0)]));
    run.subject.compact(run.histories.current).unwrap();
    run.histories.compacted = run.histories.current;
    run.finish_compaction();
    assert_eq!((run.subject.store.keys(), run.subject.file().len()), (1, 1));
    let request = RangeRequest { key: key(0), range_end: to, ..RangeRequest::default() };
    assert_eq!(run.subject.store.range(&request).unwrap().count, 1);
    let kept = reader.range(&request).unwrap();
    assert_eq!((kept.revision, kept.count, kept.kvs.len()), (before, 6000, 6000));
}

/// A key that is put thousands of times and deleted now and then, among a few others.
#[test]
fn a_hot_key_is_read_at_each_of_its_revisions() {
    let mut run = Run::new(3);
    run.put_all(&(0..20).map(key).collect());
    for count in 1..3000 {
        if count % 1300 == 0 {
            run.delete_one(7);
        }
        run.put_all(&BTreeSet::from([key(7)]));
    }
    run.check_hot(7);
    for at in [1000, 1301, 1303, 2900] {
        run.subject.compact(at).unwrap();
        run.histories.compacted = at;
        run.check_hot(7);
        run.finish_compaction();
        run.check_hot(7);
    }
    run.restart().check_hot(7);
}

impl Run {
    fn delete_one(&mut self, number: u64) {
        let (from, to) = (key(number), key(number + 1));
        let request = DeleteRangeRequest { key: from.clone(), ..DeleteRangeRequest::default() };
        let (answer, _) = self.subject.write(|txn| txn.delete_range(&request)).unwrap();
        assert_eq!((answer.deleted, self.histories.delete_range(&from, &to)), (1, 1));
    }

    fn check_hot(&self, number: u64) {
        let (hot, next) = (key(number), key(number + 1));
        for revision in 1..=self.histories.current {
            let (key, range_end) = (hot.clone(), next.clone());
            let request = RangeRequest { key, range_end, revision, ..RangeRequest::default() };
            let expected = self.histories.range(&request);
            let single = RangeRequest { range_end: Bytes::new(), ..request };
            let answer = self.subject.store.range(&single).map(|answer| message(&answer));
            assert_eq!(answer, expected, "at {revision}");
        }
    }
}
