//! Replays a log from a snapshot on.
//!
//! ```text
//!  records    snapshot{10}  e11 e12 e13  state{commit 11}  e12' e13' e14'  state{commit 14}
//!  from 10                  e11 e12 e13                    overwrite e12, e13
//!  result                   e11 e12' e13' e14'             state{commit 14}
//! ```
//!
//! An entry at an existing index replaces that entry and all after it; they came from a leader that
//! was deposed before they were committed. Entries up to the snapshot are not returned, but they
//! too truncate everything after them, and so does the snapshot itself: no entry after it can be of
//! an earlier term.
//!
//! ```text
//!  records    e7 e8 e9  e7' e8'  state{commit 8}  snapshot{8}
//!  from 8     nothing: e7' overwrote e9
//! ```
//!
//! Compat: etcd returns e9 here. Its log then ends in a different term, and it may vote for a
//! member that lacks e8'.
//!
//! Two logs with the same term at an index agree on everything before it, and two that differ there
//! need not agree on anything after it. So if the entry at the snapshot's index has another term,
//! the snapshot came from a leader and replaced that entry and all after it, whatever their terms.
//! If it has the same term, the snapshot is the member's own, and the entries stay.
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

use crate::decode;
use crate::error::ReadError;
use crate::frame::RecordKind;
use crate::reader::{Record, Records};
use crate::segment;
use crate::starts::ReplayStarts;

/// Maximum distance between the term of an entry and that of the last state. A state that decodes
/// as an entry, because a bit flipped in its kind, has a member id in place of the term, and member
/// ids are almost always larger.
const TERM_LEAP_MAX: u64 = 1 << 32;

/// Result of a replay without the entries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplaySummary {
    /// The metadata given to [`Wal::create`](crate::Wal::create).
    pub metadata: Bytes,
    /// The last state saved, or the default.
    pub state: HardState,
}

/// Result of a replay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogContents {
    /// The metadata given to [`Wal::create`](crate::Wal::create).
    pub metadata: Bytes,
    /// The last state saved, or the default.
    pub state: HardState,
    /// The entries after the snapshot, without gaps. Entries beyond the commit index may yet be
    /// overwritten.
    pub entries: Vec<Entry>,
}

/// A change of the replayed entries, in the order of the records.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplayEvent {
    /// An entry that follows the last one, or replaces an earlier one and all after it.
    Entry(Entry),
    /// All entries so far were overwritten.
    Overwritten,
}

/// Reads a log from a snapshot on, without locks, so that it may be in use. Ignores a torn tail.
pub fn read_all(disk: &dyn Disk, dir: &Path, start: &Snapshot) -> Result<LogContents, ReadError> {
    let mut entries = Entries::new(start);
    let summary = read(disk, dir, start, |replayed| entries.apply(replayed))?;
    Ok(entries.contents(summary))
}

/// Like [`read_all`], but passes each entry to `visit` as it is read.
pub fn read(
    disk: &dyn Disk,
    dir: &Path,
    start: &Snapshot,
    visit: impl FnMut(ReplayEvent),
) -> Result<ReplaySummary, ReadError> {
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

/// Collects entries; later ones overwrite earlier ones.
#[derive(Debug)]
pub(crate) struct Entries {
    start: u64,
    entries: Vec<Entry>,
}

impl Entries {
    pub(crate) fn new(start: &Snapshot) -> Entries {
        Entries { start: start.index(), entries: Vec::new() }
    }

    pub(crate) fn apply(&mut self, replayed: ReplayEvent) {
        match replayed {
            ReplayEvent::Entry(entry) => self.push(entry),
            ReplayEvent::Overwritten => self.entries.clear(),
        }
    }

    fn push(&mut self, entry: Entry) {
        let kept_len =
            usize::try_from(entry.index() - self.start - 1).expect("the entries are in memory");
        self.entries.truncate(kept_len);
        self.entries.push(entry);
    }

    pub(crate) fn contents(self, summary: ReplaySummary) -> LogContents {
        let ReplaySummary { metadata, state } = summary;
        LogContents { metadata, state, entries: self.entries }
    }
}

/// Replays the records of a log.
#[derive(Debug)]
pub(crate) struct Replay {
    start_index: u64,
    start_term: u64,
    /// The record of the start snapshot was read.
    found: bool,
    /// The term at the start index, in the log read so far.
    term_at_start: Option<u64>,
    metadata: Option<Bytes>,
    state: HardState,
    /// The last index of the log read so far.
    last: u64,
    /// The last of a run of entries that were overwritten by the snapshot.
    stale: Option<u64>,
    /// First index and term of each term in the log. Terms never decrease along a log.
    terms: Vec<(u64, u64)>,
    /// Last index from which the log continues: that of the last entry record, or of a later
    /// snapshot.
    saved_index: u64,
    /// Snapshots from which the continued log can be replayed.
    starts: ReplayStarts,
}

/// Result of a complete replay.
#[derive(Debug)]
pub(crate) struct ReplayEnd {
    pub(crate) summary: ReplaySummary,
    /// Last index from which the log continues.
    pub(crate) last_index: u64,
    /// Snapshots from which the log can be replayed, once the records read are durable.
    pub(crate) starts: ReplayStarts,
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
            starts: ReplayStarts::new(start.index()),
        }
    }

    /// Reads all records.
    pub(crate) fn run(
        &mut self,
        records: &mut Records,
        mut visit: impl FnMut(ReplayEvent),
    ) -> Result<(), ReadError> {
        while let Some(record) = records.next()? {
            if let Some(replayed) = self.record(&record)? {
                visit(replayed);
            }
        }
        Ok(())
    }

    /// Returns the result. Fails if the start snapshot was not found.
    pub(crate) fn finish(mut self) -> Result<ReplayEnd, ReadError> {
        if !self.found {
            return Err(ReadError::SnapshotNotFound {
                index: self.start_index,
                term: self.start_term,
            });
        }
        self.starts.confirm(self.state.commit());
        let metadata = self.metadata.unwrap_or_default();
        let summary = ReplaySummary { metadata, state: self.state };
        Ok(ReplayEnd { summary, last_index: self.saved_index, starts: self.starts })
    }

    /// Processes a record. Returns its effect on the entries.
    fn record(&mut self, record: &Record) -> Result<Option<ReplayEvent>, ReadError> {
        match record.kind {
            RecordKind::Entry => return self.entry(record),
            RecordKind::State => self.state = decode::decode_state(record)?,
            RecordKind::Metadata => self.metadata(record)?,
            RecordKind::Snapshot => return self.snapshot(record),
            RecordKind::Crc => {}
        }
        Ok(None)
    }

    fn entry(&mut self, record: &Record) -> Result<Option<ReplayEvent>, ReadError> {
        let entry = decode::decode_entry(record)?;
        if entry.term().saturating_sub(self.state.term()) > TERM_LEAP_MAX {
            return Err(record.corrupt("implausible entry term"));
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
        Ok(Some(ReplayEvent::Entry(entry)))
    }

    /// Reports whether the snapshot overwrote an entry. Terms never decrease along a log, so it
    /// overwrote each entry of an earlier term, and everything after it.
    fn is_stale(&self, entry: &Entry) -> bool {
        let follows = self.stale.is_some_and(|stale| entry.index() - 1 <= stale);
        entry.term() < self.start_term || follows && entry.index() - 1 > self.last
    }

    /// The log was overwritten from the snapshot on, or from before it.
    fn overwrite(&mut self) -> Option<ReplayEvent> {
        let had_entries = self.last > self.start_index;
        self.last = self.start_index;
        self.stale = None;
        self.terms.clear();
        had_entries.then_some(ReplayEvent::Overwritten)
    }

    fn check_gap(&self, record: &Record, entry: &Entry) -> Result<(), ReadError> {
        if entry.index() - 1 <= self.last {
            return Ok(());
        }
        Err(ReadError::SliceOutOfRange {
            location: record.location.clone(),
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
                Err(record.corrupt("entry term is lower than the previous one"))
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
                Err(ReadError::MetadataConflict { location: record.location.clone() })
            }
            _ => {
                self.metadata = Some(record.data.clone());
                Ok(())
            }
        }
    }

    fn snapshot(&mut self, record: &Record) -> Result<Option<ReplayEvent>, ReadError> {
        let snapshot = decode::decode_snapshot(record)?;
        self.saved_index = self.saved_index.max(snapshot.index());
        self.starts.add(snapshot.index());
        if snapshot.index() != self.start_index {
            return Ok(None);
        }
        if snapshot.term() != self.start_term {
            return Err(ReadError::SnapshotMismatch {
                location: record.location.clone(),
                index: self.start_index,
                expected: self.start_term,
                found: snapshot.term(),
            });
        }
        self.found = true;
        // From here on the snapshot determines the term at its index.
        let replaced = self.term_at_start.replace(self.start_term);
        let was_another = replaced.is_some_and(|term| term != self.start_term);
        Ok(if was_another { self.overwrite() } else { None })
    }
}
