//! A random workload on a log, and the check of what must survive.
//!
//! A [`Scenario`] applies random operations to a log on a disk that may fail at any call, and keeps
//! an account: every record given to the log, in order, with its segment, and how many of them are
//! durable for sure. Whatever the disk does, the log must afterwards hold a prefix of these records
//! that includes all durable ones, byte for byte and in order.
//!
//! The scenario also keeps the terms of its entries in memory, as a member does. Whenever the log
//! is reopened without loss, it must read the same terms.

use env::{SeededRandom, SimDisk};
use proto::raftpb::{Entry, HardState};
use proto::walpb::Snapshot;
use wal::{
    LogContents, PrepareTurn, Preparer, ReadError, Record, RecordKind, Records, Repair, Wal,
};

use crate::common::*;

/// A decoded record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ExpectedRecord {
    Entry(Entry),
    State(HardState),
    Snapshot(Snapshot),
}

/// The expected content of a log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    /// The records given to the log, each with the number of its segment.
    lines: Vec<(u64, ExpectedRecord)>,
    /// The number of durable records.
    durable: usize,
    /// Segments before this one may be gone.
    purged_to: u64,
    /// The log was created.
    created: bool,
}

/// A log after a restart.
pub(crate) struct Recovered {
    pub(crate) wal: Wal,
    /// The number of records found.
    pub(crate) found: usize,
    next_index: u64,
}

/// A user of a log that performs random operations.
pub(crate) struct Scenario {
    random: SeededRandom,
    bytes: u64,
    wal: Option<Wal>,
    preparer: Option<Preparer>,
    pub(crate) account: Account,
    term: u64,
    commit: u64,
    /// The commit index of the last state saved.
    saved_commit: u64,
    /// The terms of the entries after the last snapshot from a leader.
    terms: Vec<u64>,
    /// The index before the first of these entries.
    base: u64,
    /// The term at that index.
    base_term: u64,
    /// The last snapshot that a saved state covers.
    snapshot: Snapshot,
    /// A later snapshot that no state covers yet.
    waiting: Option<Snapshot>,
}

impl Scenario {
    pub(crate) fn new(seed: u64, bytes: u64) -> Scenario {
        Scenario {
            random: SeededRandom::new(seed),
            bytes,
            wal: None,
            preparer: None,
            account: Account::default(),
            term: 1,
            commit: 0,
            saved_commit: 0,
            terms: Vec::new(),
            base: 0,
            base_term: 0,
            snapshot: snapshot(0, 0),
            waiting: None,
        }
    }

    /// Creates the log and performs a number of steps. Returns false if the disk failed.
    pub(crate) fn run(&mut self, disk: &SimDisk, steps: usize) -> bool {
        let created = Wal::create(shared(disk), dir(), METADATA, segments_of(self.bytes));
        let Ok(wal) = created else { return false };
        self.account.created = true;
        self.preparer = Some(wal.preparer());
        self.wal = Some(wal);
        (0..steps).all(|_| self.step(disk).is_some())
    }

    /// Kills the process; files stay as they are.
    pub(crate) fn kill(&mut self) {
        self.wal = None;
        self.preparer = None;
    }

    /// Asserts that the log refuses further saves after the disk has failed.
    pub(crate) fn assert_poisoned(&mut self, disk: &SimDisk) {
        let Some(wal) = &mut self.wal else { return };
        let changes = disk.calls().changes();
        let error = wal.save(&state(99, 0), &[], true).unwrap_err();
        assert!(matches!(error, wal::SaveError::Poisoned(_)), "{error}");
        assert!(wal.sync().is_err() && wal.save_snapshot(&snapshot(0, 0)).is_err());
        assert_eq!(disk.calls().changes(), changes, "no more disk changes");
    }

    fn step(&mut self, disk: &SimDisk) -> Option<()> {
        match self.random.below(20) {
            0..=9 => self.save(),
            10..=11 => self.save_snapshot(),
            12 => self.install_snapshot(disk),
            13 => self.purge(disk),
            14 => self.reopen(disk),
            15 => self.sync(),
            _ => self.prepare(),
        }
    }

    fn last(&self) -> u64 {
        self.base + self.terms.len() as u64
    }

    fn term_at(&self, index: u64) -> u64 {
        match index.checked_sub(self.base + 1) {
            Some(at) => self.terms[usize::try_from(at).unwrap()],
            None => self.base_term,
        }
    }

    /// Saves entries, mostly appended, sometimes overwriting; often a state; with a sync, if there
    /// are entries.
    fn save(&mut self) -> Option<()> {
        if self.random.chance(1, 5) {
            self.term += 1;
        }
        let overwrite = self.random.chance(1, 6);
        let uncommitted = self.last() - self.commit.max(self.base);
        let back = if overwrite { self.random.below(uncommitted + 1) } else { 0 };
        let first = self.last() - back + 1;
        let count = self.random.below(4);
        let size = [0, 20, 300, 700][usize::try_from(self.random.below(4)).unwrap()];
        let entries: Vec<Entry> = (first..first + count)
            .map(|index| {
                entry(self.term, index, size + usize::try_from(self.random.below(60)).unwrap())
            })
            .collect();
        if count > 0 {
            self.terms.truncate(usize::try_from(first - 1 - self.base).unwrap());
            self.terms.extend(entries.iter().map(Entry::term));
        }
        self.commit += self.random.below(self.last() - self.commit + 1);
        let state = if self.random.chance(3, 4) {
            state(self.term, self.commit)
        } else {
            HardState::default()
        };
        let must_sync = !entries.is_empty() || self.random.chance(1, 4);
        let lines = entries
            .iter()
            .cloned()
            .map(ExpectedRecord::Entry)
            .chain([ExpectedRecord::State(state)]);
        self.note(
            lines.filter(|line| *line != ExpectedRecord::State(HardState::default())).collect(),
        );
        self.wal.as_mut()?.save(&state, &entries, must_sync).ok()?;
        self.note_durable();
        if state.commit.is_some() {
            self.note_commit();
        }
        Some(())
    }

    /// Saves a snapshot of a committed entry. Often saves the state that covers it first, so that
    /// it is valid.
    fn save_snapshot(&mut self) -> Option<()> {
        let at = self.commit;
        if at <= self.base {
            return Some(());
        }
        if self.random.chance(2, 3) {
            self.save_state(false)?;
        }
        self.put_snapshot(snapshot(at, self.term_at(at)))
    }

    /// Installs a leader's snapshot, ahead of the log or in place of uncommitted entries, and then
    /// the state that covers it.
    fn install_snapshot(&mut self, disk: &SimDisk) -> Option<()> {
        let (at, term) = self.leaders_snapshot();
        self.put_snapshot(snapshot(at, term))?;
        (self.base, self.base_term, self.commit) = (at, term, at);
        self.terms.clear();
        if self.random.chance(1, 4) {
            self.purge(disk)?;
        }
        let must_sync = self.random.chance(3, 4);
        self.save_state(must_sync)?;
        // Before later entries hide the effect of the snapshot.
        if self.random.chance(1, 3) { self.reopen(disk) } else { Some(()) }
    }

    /// Chooses index and term of a leader's snapshot. With the same term at that index, the leader
    /// would not send one; any other term from that of the commit index on is possible, and ours
    /// after it may be later.
    fn leaders_snapshot(&mut self) -> (u64, u64) {
        let uncommitted = self.last() - self.commit;
        let inside = self.random.chance(2, 3) && uncommitted > 0;
        self.term += 1;
        let lowest = self.term_at(self.commit).max(1);
        let term = lowest + self.random.below(self.term - lowest + 1);
        if !inside {
            return (self.last() + 1 + self.random.below(5), term);
        }
        let at = self.commit + 1 + self.random.below(uncommitted);
        (at, if term == self.term_at(at) { self.term } else { term })
    }

    fn put_snapshot(&mut self, snapshot: Snapshot) -> Option<()> {
        self.note(vec![ExpectedRecord::Snapshot(snapshot.clone())]);
        self.wal.as_mut()?.save_snapshot(&snapshot).ok()?;
        self.note_durable();
        if snapshot.index() <= self.saved_commit {
            self.snapshot = snapshot;
        } else {
            self.waiting = Some(snapshot);
        }
        Some(())
    }

    fn save_state(&mut self, must_sync: bool) -> Option<()> {
        let state = state(self.term, self.commit);
        self.note(vec![ExpectedRecord::State(state)]);
        self.wal.as_mut()?.save(&state, &[], must_sync).ok()?;
        self.note_durable();
        self.note_commit();
        Some(())
    }

    /// Purges segments, sometimes asking for more than allowed.
    fn purge(&mut self, disk: &SimDisk) -> Option<()> {
        let all = self.random.chance(1, 2);
        let wal = self.wal.as_mut()?;
        wal.release_to(if all { u64::MAX } else { self.snapshot.index() });
        // Only these segments may be removed, whatever happens.
        self.account.purged_to = wal.written().seq;
        // A failed purge does not affect the log.
        _ = wal::purge(disk, dir(), 1, u64::MAX);
        Some(())
    }

    /// Closes the log, or drops it as a killed process would, and opens it again.
    fn reopen(&mut self, disk: &SimDisk) -> Option<()> {
        let wal = self.wal.take()?;
        self.preparer = None;
        if self.random.chance(1, 2) {
            wal.close().ok()?;
        } else {
            drop(wal);
        }
        let opened =
            Wal::open(shared(disk), dir(), &self.snapshot, segments_of(self.bytes)).ok()?;
        let (wal, contents) = match opened.read_all() {
            Ok(opened) => opened,
            Err(ReadError::Disk(_) | ReadError::Open(_)) => return None,
            Err(error) => panic!("nothing was lost, but opening failed: {error}"),
        };
        let all = self.account.lines.len();
        assert_same(&contents, &self.account.contents(all, &self.snapshot));
        self.assert_remembered(&contents);
        self.preparer = Some(wal.preparer());
        self.wal = Some(wal);
        // The caller relies on what it has read.
        self.account.durable = all;
        Some(())
    }

    /// Asserts that the entries equal those of this member before.
    fn assert_remembered(&self, contents: &LogContents) {
        let read: Vec<u64> = contents.entries.iter().map(Entry::term).collect();
        let skipped = usize::try_from(self.snapshot.index() - self.base).unwrap();
        assert_eq!(read, self.terms[skipped..], "terms after {:?}", self.snapshot);
    }

    fn sync(&mut self) -> Option<()> {
        self.wal.as_mut()?.sync().ok()?;
        self.note_durable();
        Some(())
    }

    fn prepare(&mut self) -> Option<()> {
        let turns = self.random.below(4);
        let preparer = self.preparer.as_mut()?;
        (0..turns).all(|_| preparer.turn() == PrepareTurn::Busy);
        Some(())
    }

    fn note(&mut self, lines: Vec<ExpectedRecord>) {
        let seq = self.wal.as_ref().map_or(0, |wal| wal.written().seq);
        self.account.lines.extend(lines.into_iter().map(|line| (seq, line)));
    }

    fn note_commit(&mut self) {
        self.saved_commit = self.commit;
        if let Some(snapshot) = self.waiting.take_if(|waiting| waiting.index() <= self.commit) {
            self.snapshot = snapshot;
        }
    }

    fn note_durable(&mut self) {
        let wal = self.wal.as_ref().unwrap();
        if wal.durable() == wal.written() {
            self.account.durable = self.account.lines.len();
        }
    }
}

impl Account {
    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Opens the log as a member does at start, and checks its content.
    pub(crate) fn recover(&self, disk: &SimDisk, bytes: u64) -> Recovered {
        if !self.created && !wal::exists(disk, dir()).unwrap() {
            return Recovered { wal: create(disk, bytes), found: 0, next_index: 1 };
        }
        let newest = || wal::valid_snapshots(disk, dir()).unwrap().pop().unwrap();
        let open = |start: &Snapshot| {
            Wal::open(shared(disk), dir(), start, segments_of(bytes)).unwrap().read_all()
        };
        let (wal, contents) = match open(&newest()) {
            Err(error) if error.is_torn() => {
                let repaired = wal::repair(disk, dir()).unwrap();
                assert!(matches!(repaired, Repair::Cut { .. }), "{repaired:?}");
                open(&newest()).expect("one repair suffices")
            }
            opened => {
                opened.unwrap_or_else(|error| panic!("a power cut caused corruption: {error}"))
            }
        };
        let found = self.check_lines(disk);
        assert_same(&contents, &self.contents(found, &newest()));
        assert_eq!(contents.metadata, METADATA);
        let last = contents.entries.last().map_or(newest().index(), Entry::index);
        Recovered { wal, found, next_index: last + 1 }
    }

    /// Compares the records in the files with the expected ones. Returns the number found.
    pub(crate) fn check_lines(&self, disk: &SimDisk) -> usize {
        let (first, lines) = self.read_lines(disk);
        assert!(
            first <= self.purged_to,
            "the first segment is {first}, but only segments before {} were purged",
            self.purged_to
        );
        let gone = self.lines.iter().take_while(|(seq, _)| *seq < first).count();
        let found = gone + lines.len();
        assert!(found >= self.durable, "found only {found} of {} durable records", self.durable);
        assert!(found <= self.lines.len(), "found more records than were written");
        for (line, (_, expected)) in lines.iter().zip(&self.lines[gone..]) {
            assert_eq!(line, expected);
        }
        found
    }

    /// The number of the first segment, and all records without the initial ones of segments.
    fn read_lines(&self, disk: &SimDisk) -> (u64, Vec<ExpectedRecord>) {
        let segments = names(disk);
        let mut segments = segments.iter().filter(|name| name.ends_with(".wal"));
        let first = seq(segments.next().unwrap());
        let mut records = Records::open(disk, dir()).unwrap();
        let mut lines = Vec::new();
        let mut in_segment = 0;
        while let Some(record) = records.next().unwrap() {
            in_segment = if record.kind == RecordKind::Crc { 0 } else { in_segment + 1 };
            if in_segment == 2 && self.is_start(&record) {
                continue;
            }
            match record.kind {
                RecordKind::Crc | RecordKind::Metadata => {}
                RecordKind::Entry => {
                    lines.push(ExpectedRecord::Entry(wal::decode_entry(&record).unwrap()));
                }
                RecordKind::State => {
                    lines.push(ExpectedRecord::State(wal::decode_state(&record).unwrap()));
                }
                RecordKind::Snapshot => {
                    lines.push(ExpectedRecord::Snapshot(wal::decode_snapshot(&record).unwrap()));
                }
            }
        }
        (first, lines)
    }

    /// Reports whether the third record of a segment is an initial one: a segment repeats the state
    /// if there is an earlier one, and the very first segment has a snapshot there.
    fn is_start(&self, record: &Record) -> bool {
        let seq = seq(&record.location.file);
        match record.kind {
            RecordKind::State => self
                .lines
                .iter()
                .any(|(at, line)| *at < seq && matches!(line, ExpectedRecord::State(_))),
            RecordKind::Snapshot => seq == 0,
            RecordKind::Entry | RecordKind::Crc | RecordKind::Metadata => false,
        }
    }

    /// Replays the first `count` records from a snapshot on, in the simplest way.
    fn contents(&self, count: usize, start: &Snapshot) -> LogContents {
        let mut contents = LogContents { metadata: METADATA.into(), ..LogContents::default() };
        for (_, line) in &self.lines[..count] {
            match line {
                ExpectedRecord::Entry(entry) => {
                    contents.entries.retain(|other| other.index() < entry.index());
                    contents.entries.push(entry.clone());
                }
                ExpectedRecord::State(state) => contents.state = *state,
                ExpectedRecord::Snapshot(snapshot) if snapshot == start => {
                    // A leader's snapshot, if our entry there was different; it replaces everything
                    // after it.
                    let other =
                        |one: &Entry| one.index() == start.index() && one.term() != start.term();
                    if contents.entries.iter().any(other) {
                        contents.entries.clear();
                    }
                }
                ExpectedRecord::Snapshot(_) => {}
            }
        }
        contents.entries.retain(|one| one.index() > start.index());
        // A leader's snapshot overwrote entries of an earlier term than its own, and all after
        // them.
        let stale = contents.entries.iter().position(|one| one.term() < start.term());
        contents.entries.truncate(stale.unwrap_or(contents.entries.len()));
        contents
    }

    /// Forgets the records that were not found, and takes the others for durable.
    pub(crate) fn settle(&mut self, found: usize) {
        self.lines.truncate(found);
        self.durable = found;
        self.created = true;
    }

    /// Appends a durable entry to a recovered log.
    pub(crate) fn append(&mut self, log: &mut Recovered) {
        let seq = log.wal.written().seq;
        let (entry, state) =
            (entry(1000, log.next_index, 333), state(1000, log.wal.state().commit()));
        log.wal.save(&state, std::slice::from_ref(&entry), true).unwrap();
        log.next_index += 1;
        self.lines
            .extend([(seq, ExpectedRecord::Entry(entry)), (seq, ExpectedRecord::State(state))]);
        self.durable = self.lines.len();
    }
}

/// The sequence number in the name of a segment.
fn seq(name: &str) -> u64 {
    u64::from_str_radix(&name[..16], 16).unwrap()
}

/// Asserts that two logs have equal content, with a short description of the difference.
pub(crate) fn assert_same(found: &LogContents, expected: &LogContents) {
    let brief = |contents: &LogContents| {
        let entry = |entry: &Entry| (entry.term(), entry.index(), entry.data().len());
        (contents.state, contents.entries.iter().map(entry).collect::<Vec<_>>())
    };
    assert_eq!(brief(found), brief(expected));
    assert!(found == expected, "the data differs");
}

#[test]
fn a_log_reads_back_as_written() {
    for seed in 0..200 {
        let disk = disk(seed);
        let mut scenario = Scenario::new(seed, 4096);
        assert!(scenario.run(&disk, 60), "no fault is injected");
        scenario.kill();
        assert_eq!(scenario.account.check_lines(&disk), scenario.account.len());
    }
}
