//! What a log says, read from a snapshot on.
//!
//! ```text
//!  records    snapshot{10}  e11 e12 e13  state{commit 11}  e12' e13' e14'  state{commit 14}
//!  from 10                  e11 e12 e13                                                       e12 e13 overwritten
//!  means                    e11 e12' e13' e14'             state{commit 14}
//! ```
//!
//! An entry with an index that was there replaces it and all after it: a leader that was deposed before its entries
//! were committed leaves such. Entries up to the snapshot are not handed over, but they too end what was after them, and
//! so does the snapshot itself: no entry after it can be of an earlier term.
//!
//! ```text
//!  records    e7 e8 e9  e7' e8'  state{commit 8}  snapshot{8}
//!  from 8     nothing: e9 was overwritten when e7' was written
//! ```
//!
//! etcd takes e9 there for an entry of the log. It then believes that its log ends in a term in which it does not, and
//! may vote for a member that lacks e8'.
//!
//! Two logs that agree on the term at an index agree on all before it, and two that differ there need not agree on
//! anything after it. So where the entry at the snapshot's index was of another term, the snapshot is a leader's, and took
//! the place of that entry and of all behind it, whatever their terms. Where it was of the same term, the snapshot is
//! our own, and they stay.
//!
//! ```text
//!  records    e8@4 e9@6  snapshot{8@5}    from 8   nothing
//!  records    e8@5 e9@6  snapshot{8@5}    from 8   e9@6
//! ```

use std::path::Path;

use bytes::Bytes;
use env::Disk;
use proto::raftpb::{Entry, HardState};
use proto::walpb::Snapshot;

use crate::contents;
use crate::error::ReadError;
use crate::frame::Kind;
use crate::reader::{Record, Records};
use crate::segment;
use crate::starts::Starts;

/// How far the term of an entry may be ahead of the last state. A state that is taken for an entry, since a bit flipped
/// in the kind of its record, has the id of a member where an entry has its term, and those are larger by chance.
const TERM_LEAP_MAX: u64 = 1 << 32;

/// What a log says besides its entries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// What was handed to [`Wal::create`](crate::Wal::create).
    pub metadata: Bytes,
    /// The last state saved; the default if none was.
    pub state: HardState,
}

/// What a log says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contents {
    /// What was handed to [`Wal::create`](crate::Wal::create).
    pub metadata: Bytes,
    /// The last state saved; the default if none was.
    pub state: HardState,
    /// The entries after the snapshot, without gaps. Those past the commit index may yet be overwritten.
    pub entries: Vec<Entry>,
}

/// What a reader is told, in the order of the records.
#[derive(Clone, Debug, PartialEq)]
pub enum Replayed {
    /// An entry. It follows the last one, or takes the place of an earlier one, and of all after that.
    Entry(Entry),
    /// None of the entries so far are in the log any more.
    Overwritten,
}

/// Reads a log from a snapshot on, without locks, so that it may be in use. An end that is torn is where reading ends.
pub fn read_all(disk: &dyn Disk, dir: &Path, start: &Snapshot) -> Result<Contents, ReadError> {
    let mut entries = Entries::new(start);
    let summary = read(disk, dir, start, |replayed| entries.apply(replayed))?;
    Ok(entries.contents(summary))
}

/// As [`read_all`], with each entry handed over as it is read.
pub fn read(
    disk: &dyn Disk,
    dir: &Path,
    start: &Snapshot,
    visit: impl FnMut(Replayed),
) -> Result<Summary, ReadError> {
    let names = segment::list(disk, dir)?;
    let names = segment::select(&names, start.index())?;
    let mut records = Records::new(segment::open_to_read(disk, dir, names)?)?;
    let mut replay = Replay::new(start);
    match replay.run(&mut records, visit) {
        Err(error) if error.is_torn() => {}
        done => done?,
    }
    replay.finish().map(|ending| ending.summary)
}

/// Collects entries, the later over the earlier.
#[derive(Debug)]
pub(crate) struct Entries {
    start: u64,
    entries: Vec<Entry>,
}

impl Entries {
    pub(crate) fn new(start: &Snapshot) -> Entries {
        Entries { start: start.index(), entries: Vec::new() }
    }

    pub(crate) fn apply(&mut self, replayed: Replayed) {
        match replayed {
            Replayed::Entry(entry) => self.push(entry),
            Replayed::Overwritten => self.entries.clear(),
        }
    }

    fn push(&mut self, entry: Entry) {
        let kept = usize::try_from(entry.index() - self.start - 1).expect("as many are in memory");
        self.entries.truncate(kept);
        self.entries.push(entry);
    }

    pub(crate) fn contents(self, summary: Summary) -> Contents {
        let Summary { metadata, state } = summary;
        Contents { metadata, state, entries: self.entries }
    }
}

/// Follows the records of a log.
#[derive(Debug)]
pub(crate) struct Replay {
    start_index: u64,
    start_term: u64,
    /// Whether the record of the snapshot to start from was met.
    found: bool,
    /// The term at the start's index, in the log as it reads so far.
    term_at_start: Option<u64>,
    metadata: Option<Bytes>,
    state: HardState,
    /// The last index of the log as it reads so far.
    last: u64,
    /// The last of some entries in a row that are not in it any more.
    stale: Option<u64>,
    /// Where terms begin in it: index, term. Terms never fall along a log.
    terms: Vec<(u64, u64)>,
    /// What the log that goes on from here takes for its last index: that of the last entry record or of a snapshot
    /// beyond.
    saved_index: u64,
    /// From where the log that goes on can be replayed.
    starts: Starts,
}

/// What a log says when it has been read to its end.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) summary: Summary,
    /// What the log that goes on takes for its last index.
    pub(crate) last_index: u64,
    /// From where it can be replayed, once what was read is durable.
    pub(crate) starts: Starts,
}

impl Replay {
    pub(crate) fn new(start: &Snapshot) -> Replay {
        Replay {
            start_index: start.index(),
            start_term: start.term(),
            found: false,
            term_at_start: None,
            metadata: None,
            state: HardState::default(),
            last: start.index(),
            stale: None,
            terms: Vec::new(),
            saved_index: 0,
            starts: Starts::new(start.index()),
        }
    }

    /// Reads to the end.
    pub(crate) fn run(
        &mut self,
        records: &mut Records,
        mut visit: impl FnMut(Replayed),
    ) -> Result<(), ReadError> {
        while let Some(record) = records.next()? {
            if let Some(replayed) = self.record(&record)? {
                visit(replayed);
            }
        }
        Ok(())
    }

    /// The result.
    pub(crate) fn finish(mut self) -> Result<Ending, ReadError> {
        if !self.found {
            return Err(ReadError::SnapshotNotFound {
                index: self.start_index,
                term: self.start_term,
            });
        }
        self.starts.confirm(self.state.commit());
        let metadata = self.metadata.unwrap_or_default();
        let summary = Summary { metadata, state: self.state };
        Ok(Ending { summary, last_index: self.saved_index, starts: self.starts })
    }

    /// Takes in a record; gives back what it does to the entries.
    fn record(&mut self, record: &Record) -> Result<Option<Replayed>, ReadError> {
        match record.kind {
            Kind::Entry => return self.entry(record),
            Kind::State => self.state = contents::state(record)?,
            Kind::Metadata => self.metadata(record)?,
            Kind::Snapshot => return self.snapshot(record),
            Kind::Crc => {}
        }
        Ok(None)
    }

    fn entry(&mut self, record: &Record) -> Result<Option<Replayed>, ReadError> {
        let entry = contents::entry(record)?;
        if entry.term().saturating_sub(self.state.term()) > TERM_LEAP_MAX {
            return Err(record.damaged("an entry of a term that cannot have come yet"));
        }
        self.saved_index = entry.index();
        if entry.index() <= self.start_index {
            self.term_at_start = (entry.index() == self.start_index).then(|| entry.term());
            return Ok(self.overwrite());
        }
        if self.is_stale(&entry) {
            self.stale = Some(entry.index());
            return Ok(None);
        }
        self.check_gap(record, &entry)?;
        self.check_term(record, &entry)?;
        self.stale = None;
        self.last = entry.index();
        Ok(Some(Replayed::Entry(entry)))
    }

    /// Whether an entry went when the snapshot came. Terms never fall along a log, so one of an earlier term did, and
    /// whatever came after it.
    fn is_stale(&self, entry: &Entry) -> bool {
        let follows = self.stale.is_some_and(|stale| entry.index() - 1 <= stale);
        entry.term() < self.start_term || follows && entry.index() - 1 > self.last
    }

    /// The log was overwritten from the snapshot on, or from before.
    fn overwrite(&mut self) -> Option<Replayed> {
        let had_entries = self.last > self.start_index;
        self.last = self.start_index;
        self.stale = None;
        self.terms.clear();
        had_entries.then_some(Replayed::Overwritten)
    }

    fn check_gap(&self, record: &Record, entry: &Entry) -> Result<(), ReadError> {
        if entry.index() - 1 <= self.last {
            return Ok(());
        }
        Err(ReadError::SliceOutOfRange {
            place: record.place.clone(),
            start_index: self.start_index,
            start_term: self.start_term,
            index: entry.index(),
            term: entry.term(),
            count: self.last - self.start_index,
        })
    }

    fn check_term(&mut self, record: &Record, entry: &Entry) -> Result<(), ReadError> {
        while self.terms.pop_if(|(index, _)| *index >= entry.index()).is_some() {}
        match self.terms.last() {
            Some(&(_, term)) if entry.term() < term => {
                Err(record.damaged("an entry of a lower term than the one before"))
            }
            Some(&(_, term)) if entry.term() == term => Ok(()),
            _ => {
                self.terms.push((entry.index(), entry.term()));
                Ok(())
            }
        }
    }

    fn metadata(&mut self, record: &Record) -> Result<(), ReadError> {
        match &self.metadata {
            Some(metadata) if *metadata != record.data => {
                Err(ReadError::MetadataConflict { place: record.place.clone() })
            }
            _ => {
                self.metadata = Some(record.data.clone());
                Ok(())
            }
        }
    }

    fn snapshot(&mut self, record: &Record) -> Result<Option<Replayed>, ReadError> {
        let snapshot = contents::snapshot(record)?;
        self.saved_index = self.saved_index.max(snapshot.index());
        self.starts.add(snapshot.index());
        if snapshot.index() != self.start_index {
            return Ok(None);
        }
        if snapshot.term() != self.start_term {
            return Err(ReadError::SnapshotMismatch {
                place: record.place.clone(),
                index: self.start_index,
                wanted: self.start_term,
                found: snapshot.term(),
            });
        }
        self.found = true;
        // From here on the snapshot is what is at its index.
        let replaced = self.term_at_start.replace(self.start_term);
        let was_another = replaced.is_some_and(|term| term != self.start_term);
        Ok(if was_another { self.overwrite() } else { None })
    }
}
