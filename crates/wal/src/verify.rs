//! Looks through a log without opening it for writing.

use std::path::Path;

use env::Disk;
use proto::raftpb::HardState;
use proto::walpb::Snapshot;

use crate::contents;
use crate::error::ReadError;
use crate::frame::Kind;
use crate::reader::Records;
use crate::replay;

/// What a log holds, at a glance.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Survey {
    /// The snapshots from which it can be replayed, oldest first: those in it that are committed.
    pub snapshots: Vec<Snapshot>,
    /// The index of its last entry, or of the last of these snapshots if that is beyond.
    pub last_index: u64,
}

/// The snapshots from which a log can be replayed, oldest first: those in it that are committed. An end that is torn is
/// where reading ends.
pub fn valid_snapshots(disk: &dyn Disk, dir: &Path) -> Result<Vec<Snapshot>, ReadError> {
    survey(disk, dir).map(|survey| survey.snapshots)
}

/// Looks through a log. An end that is torn is where reading ends.
pub fn survey(disk: &dyn Disk, dir: &Path) -> Result<Survey, ReadError> {
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
            Kind::Snapshot => snapshots.push(contents::snapshot(&record)?),
            Kind::State => commit = contents::state(&record)?.commit(),
            Kind::Entry => last_index = contents::entry(&record)?.index(),
            Kind::Metadata | Kind::Crc => {}
        }
    }
    snapshots.retain(|snapshot| snapshot.index() <= commit);
    let newest = snapshots.last().map_or(0, Snapshot::index);
    Ok(Survey { snapshots, last_index: last_index.max(newest) })
}

/// Reads through a log from a snapshot on, as [`read_all`](crate::read_all) would, and gives back the state.
pub fn verify(disk: &dyn Disk, dir: &Path, start: &Snapshot) -> Result<HardState, ReadError> {
    replay::read(disk, dir, start, |_| {}).map(|summary| summary.state)
}
