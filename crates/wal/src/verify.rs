//! Inspects a log without opening it for writing.

use std::path::Path;

use env::Disk;
use proto::raftpb::HardState;
use proto::walpb::Snapshot;

use crate::decode;
use crate::error::ReadError;
use crate::frame::RecordKind;
use crate::reader::Records;
use crate::replay::{self, LogContents, read_all};

/// Overview of a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogSurvey {
    /// The valid snapshots, from which it can be replayed, oldest first.
    pub snapshots: Vec<Snapshot>,
    /// Index of the last entry, or of the last valid snapshot if that is higher.
    pub last_index: u64,
}

/// Returns the committed snapshots, from which a log can be replayed, oldest first. Ignores a torn
/// tail.
pub fn valid_snapshots(disk: &dyn Disk, dir: &Path) -> Result<Vec<Snapshot>, ReadError> {
    survey(disk, dir).map(|survey| survey.snapshots)
}

/// Attempts of [`read_live`] to read a log whose segments vanish meanwhile. Compat: as in etcd.
const LIVE_ATTEMPTS_MAX: u32 = 3;

/// Reads a log that is in use, from its newest valid snapshot on.
///
/// A snapshot that is taken meanwhile makes earlier segments unnecessary, and the purge may remove
/// one that this function is about to open. The read then starts again.
pub fn read_live(disk: &dyn Disk, dir: &Path) -> Result<LogContents, ReadError> {
    let read = || {
        let start = valid_snapshots(disk, dir)?.pop().unwrap_or_default();
        read_all(disk, dir, &start)
    };
    for attempt in 1..LIVE_ATTEMPTS_MAX {
        match read() {
            Err(error) if error.is_segment_missing() => {
                tracing::warn!(
                    wal_dir = %dir.display(),
                    attempt,
                    max_attempts = LIVE_ATTEMPTS_MAX,
                    %error,
                    "retrying WAL snapshot scan after transient file removal"
                );
            }
            done => return done,
        }
    }
    read()
}

/// Reads through a log. Ignores a torn tail.
pub fn survey(disk: &dyn Disk, dir: &Path) -> Result<LogSurvey, ReadError> {
    let mut records = Records::open(disk, dir)?;
    let mut snapshots = Vec::new();
    let (mut commit, mut last_index) = (0, 0);
    loop {
        let record = match records.next() {
            Ok(Some(record)) => record,
            Ok(None) => break,
            Err(error) if error.is_torn() => break,
            Err(error) => return Err(error),
        };
        match record.kind {
            RecordKind::Snapshot => snapshots.push(decode::decode_snapshot(&record)?),
            RecordKind::State => commit = decode::decode_state(&record)?.commit(),
            RecordKind::Entry => last_index = decode::decode_entry(&record)?.index(),
            RecordKind::Metadata | RecordKind::Crc => {}
        }
    }
    snapshots.retain(|snapshot| snapshot.index() <= commit);
    let newest = snapshots.last().map_or(0, Snapshot::index);
    Ok(LogSurvey { snapshots, last_index: last_index.max(newest) })
}

/// Reads a log from a snapshot on, as [`read_all`](crate::read_all) does, and returns the last
/// state.
pub fn verify(disk: &dyn Disk, dir: &Path, start: &Snapshot) -> Result<HardState, ReadError> {
    replay::read(disk, dir, start, |_| {}).map(|summary| summary.state)
}
