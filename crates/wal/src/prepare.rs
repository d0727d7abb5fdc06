//! Preparation of the next segment before it is needed.
//!
//! A sync of bytes that overwrite zeros on the disk writes only those bytes. If they go into space
//! that is merely allocated, or extend the file, the file system must also journal the new metadata
//! before the sync returns. So the next segment is filled with zeros ahead of time, in small steps,
//! while the log is in the second half of the current one. The first segment is not: a starting
//! member should serve quickly, and an idle one may never need another.
//!
//! ```text
//!             turn, turn, ..           the log cuts        renamed, and the directory synced
//!  Wanted ────────────────► Ready ───────────────► Taken ───────────────────────────────► Wanted
//!     │      turn fails                            (nothing ready: created on demand)
//!     └────────────────────► Failed ──────────────────────── the log has cut ───────────► Wanted
//! ```
//!
//! Measured with `benches/wal.rs` on ext4: p50 and p99 in microseconds of a write with a sync, in a
//! file prepared in one of three ways; the median of four runs of 500 calls, on two cores with
//! other load.
//!
//! | bytes | allocated | zeros written | recycled |
//! | ---: | ---: | ---: | ---: |
//! | 320 | 130, 333 | 153, 283 | 149, 419 |
//! | 4,700 | 230, 645 | 134, 262 | 136, 273 |
//! | 75,000 | 287, 699 | 193, 648 | 180, 345 |
//!
//! Zeros are slower for tiny saves, by 10 to 25 microseconds at the median: such a save reaches a
//! new block of the file only once in thirteen times, so there is little to gain. They are used
//! nevertheless: a member that is idle enough for saves of one entry does not need the time; one
//! under load saves many entries at once, and there zeros are faster by a third or more; and p99,
//! which clients notice, is lower at every size. Recycled files, old segments filled with zeros
//! again, gain little over new ones, so they are not used.
//!
//! A [`Preparer`] does one bounded step per [`turn`](Preparer::turn) and has no thread, so a
//! simulation can schedule it; [`Wal::prepare_in_background`](crate::Wal::prepare_in_background)
//! runs it on a thread.
//!
//! The file is named `0.tmp` until the log takes it, or `1.tmp` if created on demand; etcd uses the
//! same names, and removes or reuses such files.

use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use env::{Create, Disk, File, Open};
use parking_lot::{Condvar, Mutex};

use crate::error::{DiskError, OpenError};
use crate::segment;

/// Bytes that a turn writes and syncs: few, so that the log's own syncs never wait long for it.
const STEP_BYTES: usize = 1 << 20;

/// Name of the segment prepared ahead of time.
const AHEAD: &str = "0.tmp";

/// Name of a segment created on demand. It never collides with the other.
const ON_DEMAND: &str = "1.tmp";

/// A locked file with the size of a segment, filled with zeros, under a temporary name.
#[derive(Debug)]
pub(crate) struct PreparedSegment {
    pub(crate) file: Arc<dyn File>,
    pub(crate) path: PathBuf,
}

impl PreparedSegment {
    /// Creates an empty file and allocates its space.
    pub(crate) fn new(
        disk: &dyn Disk,
        path: PathBuf,
        bytes: u64,
    ) -> Result<PreparedSegment, OpenError> {
        let how = Open::create(Create::Truncate);
        let file = disk.open(&path, how).map_err(|e| DiskError::new("create", &path, e))?;
        segment::lock(&*file, &path)?;
        file.allocate(bytes).map_err(|e| DiskError::new("allocate", &path, e))?;
        Ok(PreparedSegment { file, path })
    }

    /// Creates a file while the log waits for it: allocates its space, and writes no zeros.
    pub(crate) fn on_demand(
        disk: &dyn Disk,
        dir: &Path,
        bytes: u64,
    ) -> Result<PreparedSegment, OpenError> {
        PreparedSegment::new(disk, dir.join(ON_DEMAND), bytes)
    }

    /// Writes and syncs zeros from `offset` on. Returns the offset to continue at.
    fn fill(&self, offset: u64, bytes: u64) -> Result<u64, DiskError> {
        let end = bytes.min(offset + STEP_BYTES as u64);
        write_zeros(&*self.file, offset, end)
            .and_then(|()| self.file.sync_data())
            .map_err(|e| DiskError::new("fill", &self.path, e))?;
        Ok(end)
    }

    /// Removes the file, unless its name belongs to another file by now.
    fn discard(self, disk: &dyn Disk) {
        let removed = match self.file.is_at(&self.path) {
            Ok(true) => disk.remove_file(&self.path),
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = removed {
            tracing::warn!(file = %self.path.display(), %error, "failed to remove a prepared segment");
        }
    }
}

/// Hands prepared segments from the preparer to the log.
#[derive(Debug)]
pub(crate) struct PreparedSlot {
    state: Mutex<SlotState>,
    /// The log will need a segment soon. Changed under the lock of the state, so that no wake-up is
    /// lost.
    soon: AtomicBool,
    changed: Condvar,
}

#[derive(Debug)]
enum SlotState {
    /// No segment is prepared.
    Wanted,
    Ready(PreparedSegment),
    /// Taken by the log, and still under its temporary name.
    Taken,
    /// Preparing failed; it is retried after the next cut.
    Failed,
    /// The log is closed.
    Closed,
}

impl SlotState {
    /// Work for the preparer in this state.
    fn required_turn(&self) -> PrepareTurn {
        match self {
            SlotState::Wanted => PrepareTurn::Busy,
            SlotState::Ready(_) | SlotState::Taken | SlotState::Failed => PrepareTurn::Idle,
            SlotState::Closed => PrepareTurn::Done,
        }
    }
}

impl PreparedSlot {
    pub(crate) fn new() -> Arc<PreparedSlot> {
        Arc::new(PreparedSlot {
            state: Mutex::new(SlotState::Wanted),
            soon: AtomicBool::new(false),
            changed: Condvar::new(),
        })
    }

    /// Tells the preparer that the current segment is half full. Preparing earlier would slow down
    /// the syncs of a rarely used log for nothing.
    pub(crate) fn need_soon(&self) {
        if !self.soon.load(Ordering::Relaxed) {
            let _state = self.state.lock();
            self.soon.store(true, Ordering::Relaxed);
            self.changed.notify_all();
        }
    }

    /// Takes the prepared segment, if there is one.
    pub(crate) fn take(&self) -> Option<PreparedSegment> {
        let mut state = self.state.lock();
        match mem::replace(&mut *state, SlotState::Taken) {
            SlotState::Ready(prepared) => Some(prepared),
            other => {
                *state = other;
                None
            }
        }
    }

    /// Tells the preparer that the segment it prepared has its final name, so that it may create
    /// another.
    pub(crate) fn cut_done(&self) {
        let mut state = self.state.lock();
        self.soon.store(false, Ordering::Relaxed);
        if matches!(*state, SlotState::Taken | SlotState::Failed) {
            *state = SlotState::Wanted;
            self.changed.notify_all();
        }
    }

    /// Closes the slot and removes a prepared segment.
    pub(crate) fn close(&self, disk: &dyn Disk) {
        let before = mem::replace(&mut *self.state.lock(), SlotState::Closed);
        self.changed.notify_all();
        if let SlotState::Ready(prepared) = before {
            prepared.discard(disk);
        }
    }
}

/// Result of a preparer's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrepareTurn {
    /// The preparer did a step, and more remains.
    Busy,
    /// Nothing to do for now.
    Idle,
    /// Nothing to do any more: the log is closed.
    Done,
}

/// Prepares the next segment of a log, step by step.
#[derive(Debug)]
pub struct Preparer {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    bytes: u64,
    slot: Arc<PreparedSlot>,
    /// The file in preparation, and the number of bytes filled.
    making: Option<(PreparedSegment, u64)>,
}

impl Preparer {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        bytes: u64,
        slot: Arc<PreparedSlot>,
    ) -> Preparer {
        Preparer { disk, dir, bytes, slot, making: None }
    }

    /// Does one step, if there is work.
    pub fn turn(&mut self) -> PrepareTurn {
        let required = self.slot.state.lock().required_turn();
        match required {
            PrepareTurn::Busy => {}
            PrepareTurn::Idle => return PrepareTurn::Idle,
            PrepareTurn::Done => {
                self.abandon();
                return PrepareTurn::Done;
            }
        }
        if let Err(error) = self.step() {
            tracing::warn!(%error, "failed to prepare a segment");
            self.abandon();
            self.offer(SlotState::Failed);
            return PrepareTurn::Idle;
        }
        PrepareTurn::Busy
    }

    fn step(&mut self) -> Result<(), OpenError> {
        let Some((prepared, filled)) = &mut self.making else {
            let prepared = PreparedSegment::new(&*self.disk, self.dir.join(AHEAD), self.bytes)?;
            self.making = Some((prepared, 0));
            return Ok(());
        };
        *filled = prepared.fill(*filled, self.bytes)?;
        if *filled == self.bytes
            && let Some((prepared, _)) = self.making.take()
        {
            self.offer(SlotState::Ready(prepared));
        }
        Ok(())
    }

    /// Hands over the outcome, unless the log was closed in the meantime.
    fn offer(&mut self, outcome: SlotState) {
        let mut state = self.slot.state.lock();
        match (&*state, outcome) {
            (SlotState::Closed, SlotState::Ready(prepared)) => prepared.discard(&*self.disk),
            (SlotState::Closed, _) => {}
            (_, outcome) => *state = outcome,
        }
    }

    fn abandon(&mut self) {
        if let Some((prepared, _)) = self.making.take() {
            prepared.discard(&*self.disk);
        }
    }

    /// Runs until the log is closed. Prepares a segment whenever one is needed soon.
    pub(crate) fn run(mut self) {
        loop {
            if self.making.is_none() {
                self.wait_for_need();
            }
            match self.turn() {
                PrepareTurn::Busy => {}
                PrepareTurn::Idle => self.wait(),
                PrepareTurn::Done => return,
            }
        }
    }

    fn wait_for_need(&self) {
        let mut state = self.slot.state.lock();
        let unneeded = |state: &mut SlotState| {
            state.required_turn() == PrepareTurn::Busy && !self.slot.soon.load(Ordering::Relaxed)
        };
        self.slot.changed.wait_while(&mut state, unneeded);
    }

    fn wait(&self) {
        let mut state = self.slot.state.lock();
        let idle = |state: &mut SlotState| state.required_turn() == PrepareTurn::Idle;
        self.slot.changed.wait_while(&mut state, idle);
    }
}

/// Writes zeros from `offset` to `end`.
pub(crate) fn write_zeros(file: &dyn File, mut offset: u64, end: u64) -> io::Result<()> {
    static ZEROS: [u8; STEP_BYTES] = [0; STEP_BYTES];
    while offset < end {
        let step = usize::try_from(end - offset).unwrap_or(usize::MAX).min(STEP_BYTES);
        file.write_at(&ZEROS[..step], offset)?;
        offset += step as u64;
    }
    Ok(())
}

/// Removes segments that an earlier process prepared and did not use.
pub(crate) fn remove_leftovers(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    for name in disk.read_dir(dir)? {
        if name.ends_with(segment::TMP_SUFFIX) {
            disk.remove_file(&dir.join(name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use env::SimDisk;
    use testkit::waiting::step_until;

    use super::*;

    /// While the log holds the file under the name `0.tmp`, preparing another would truncate it.
    #[test]
    fn no_segment_is_prepared_before_the_last_one_is_renamed() {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1));
        let slot = PreparedSlot::new();
        let mut preparer = Preparer::new(Arc::clone(&disk), "/".into(), 4096, Arc::clone(&slot));
        assert!(slot.take().is_none());
        step_until("a segment is prepared", || preparer.turn() != PrepareTurn::Busy);
        let prepared = slot.take().expect("a prepared segment");
        assert_eq!(preparer.turn(), PrepareTurn::Idle);
        disk.rename(&prepared.path, Path::new("/segment")).expect("rename the segment");
        slot.cut_done();
        assert_eq!(preparer.turn(), PrepareTurn::Busy);
    }
}
