//! The next segment, made before it is needed.
//!
//! A sync of bytes that were written over zeros already on the disk changes nothing but those bytes. If they go into
//! space that is merely set aside, or that makes the file longer, the file system must also write down that they are
//! there now, in its journal, before the sync returns. So the next segment is filled with zeros ahead of time, in small
//! steps, while the log goes on in the second half of its own. The first one is not: a member that starts should serve, and one that is hardly
//! used may never need another.
//!
//! ```text
//!             turn, turn, ..           the log cuts        renamed, and the folder synced
//!  Wanted ────────────────► Ready ───────────────► Taken ───────────────────────────────► Wanted
//!     │      turn fails                               (nothing ready: made on the spot, without zeros)
//!     └────────────────────► Failed ──────────────────────── the log has cut ───────────► Wanted
//! ```
//!
//! Measured with `benches/wal.rs` on ext4: microseconds for a write and a sync, in a file that was prepared in one of three
//! ways. Of each, what half of the calls stay below and what 99 of 100 do; the median of four runs of 500 calls, on two cores
//! with other work to do.
//!
//! | bytes | space set aside | zeros written | recycled |
//! | ---: | ---: | ---: | ---: |
//! | 320 | 130, 333 | 153, 283 | 149, 419 |
//! | 4,700 | 230, 645 | 134, 262 | 136, 273 |
//! | 75,000 | 287, 699 | 193, 648 | 180, 345 |
//!
//! Zeros lose where saves are tiny, by 10 to 25 microseconds in the middle: such a save gets to a new block of the file
//! only one time in thirteen, so there is little to be spared, and something costs more. They are kept all the same. A
//! member that is idle enough for saves of one entry does not miss the time; one under load saves many entries at once,
//! and there zeros win by about a third or more; and the slowest saves, which are what a client notices, are faster at every
//! size. Recycled files, old segments filled with zeros once more, gain little over new ones, so there are none.
//!
//! A [`Preparer`] does a bounded step each [`turn`](Preparer::turn) and knows no threads, so a simulation can call it
//! when it likes; [`Wal::prepare_in_background`](crate::Wal::prepare_in_background) has a thread call it.
//!
//! The file is `0.tmp` until the log takes it, or `1.tmp` if made on the spot; etcd uses the same names, and removes or
//! uses what it finds under them.

use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use env::{Create, Disk, File, Open};

use crate::error::{Failure, OpenError};
use crate::segment;

/// How many zeros a turn writes and syncs: little, so that the log's own syncs never wait long behind it.
const STEP_BYTES: usize = 1 << 20;

/// The file that is made ahead.
const AHEAD: &str = "0.tmp";

/// The file that is made on the spot. It never meets the other one.
const ON_THE_SPOT: &str = "1.tmp";

/// A file with room for a segment and nothing but zeros in it, locked, under a name that will change.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) file: Arc<dyn File>,
    pub(crate) path: PathBuf,
}

impl Prepared {
    /// An empty file with its space set aside.
    pub(crate) fn new(disk: &dyn Disk, path: PathBuf, bytes: u64) -> Result<Prepared, OpenError> {
        let how = Open::create(Create::Truncate);
        let file = disk.open(&path, how).map_err(|e| Failure::new("create", &path, e))?;
        segment::lock(&*file, &path)?;
        file.allocate(bytes).map_err(|e| Failure::new("allocate", &path, e))?;
        Ok(Prepared { file, path })
    }

    /// A file made while the log waits for it: its space is set aside, and no more.
    pub(crate) fn on_the_spot(
        disk: &dyn Disk,
        dir: &Path,
        bytes: u64,
    ) -> Result<Prepared, OpenError> {
        Prepared::new(disk, dir.join(ON_THE_SPOT), bytes)
    }

    /// Writes zeros and makes them durable, from an offset up to where it gives back.
    fn fill(&self, offset: u64, bytes: u64) -> Result<u64, Failure> {
        let end = bytes.min(offset + STEP_BYTES as u64);
        write_zeros(&*self.file, offset, end)
            .and_then(|()| self.file.sync_data())
            .map_err(|e| Failure::new("fill", &self.path, e))?;
        Ok(end)
    }

    /// Removes the file, unless somebody else's has the name by now.
    fn discard(self, disk: &dyn Disk) {
        let removed = match self.file.is_at(&self.path) {
            Ok(true) => disk.remove_file(&self.path),
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = removed {
            tracing::warn!(file = %self.path.display(), %error, "could not remove a prepared segment");
        }
    }
}

/// Where the log and its preparer meet.
#[derive(Debug)]
pub(crate) struct Slot {
    state: Mutex<State>,
    /// Whether the log will need it before long. Changed under the lock of the state, so that nobody misses it.
    soon: AtomicBool,
    changed: Condvar,
}

#[derive(Debug)]
enum State {
    /// The log has none ahead.
    Wanted,
    Ready(Prepared),
    /// In the log's hands, and still under its old name.
    Taken,
    /// Making one failed; to be tried again after the next cut.
    Failed,
    /// The log is closed.
    Closed,
}

impl State {
    /// What the preparer should do.
    fn asks(&self) -> Turn {
        match self {
            State::Wanted => Turn::Busy,
            State::Ready(_) | State::Taken | State::Failed => Turn::Idle,
            State::Closed => Turn::Done,
        }
    }
}

impl Slot {
    pub(crate) fn new() -> Arc<Slot> {
        Arc::new(Slot {
            state: Mutex::new(State::Wanted),
            soon: AtomicBool::new(false),
            changed: Condvar::new(),
        })
    }

    /// The log has filled half of its segment: it is time for the next. Sooner, a log that is hardly used would have its syncs held up for nothing.
    pub(crate) fn need_soon(&self) {
        if !self.soon.load(Ordering::Relaxed) {
            let _state = self.lock();
            self.soon.store(true, Ordering::Relaxed);
            self.changed.notify_all();
        }
    }

    /// What is ready, if it is.
    pub(crate) fn take(&self) -> Option<Prepared> {
        let mut state = self.lock();
        match mem::replace(&mut *state, State::Taken) {
            State::Ready(prepared) => Some(prepared),
            other => {
                *state = other;
                None
            }
        }
    }

    /// The log has its next segment, under its proper name: now is the time to make another.
    pub(crate) fn cut_done(&self) {
        let mut state = self.lock();
        self.soon.store(false, Ordering::Relaxed);
        if matches!(*state, State::Taken | State::Failed) {
            *state = State::Wanted;
            self.changed.notify_all();
        }
    }

    /// The log needs no more. What is ready is removed.
    pub(crate) fn close(&self, disk: &dyn Disk) {
        let before = mem::replace(&mut *self.lock(), State::Closed);
        self.changed.notify_all();
        if let State::Ready(prepared) = before {
            prepared.discard(disk);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a preparer did in its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// A step; there is more to do.
    Busy,
    /// Nothing, for now.
    Idle,
    /// Nothing, for ever: the log is closed.
    Done,
}

/// Makes the next segment of a log, step by step.
#[derive(Debug)]
pub struct Preparer {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    bytes: u64,
    slot: Arc<Slot>,
    /// A file on its way, and how much of it is filled.
    making: Option<(Prepared, u64)>,
}

impl Preparer {
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: PathBuf, bytes: u64, slot: Arc<Slot>) -> Preparer {
        Preparer { disk, dir, bytes, slot, making: None }
    }

    /// Does a step, if there is one to do.
    pub fn turn(&mut self) -> Turn {
        let asked = self.slot.lock().asks();
        match asked {
            Turn::Busy => {}
            Turn::Idle => return Turn::Idle,
            Turn::Done => {
                self.abandon();
                return Turn::Done;
            }
        }
        if let Err(error) = self.step() {
            tracing::warn!(%error, "could not prepare a segment");
            self.abandon();
            self.offer(State::Failed);
            return Turn::Idle;
        }
        Turn::Busy
    }

    fn step(&mut self) -> Result<(), OpenError> {
        let Some((prepared, filled)) = &mut self.making else {
            let prepared = Prepared::new(&*self.disk, self.dir.join(AHEAD), self.bytes)?;
            self.making = Some((prepared, 0));
            return Ok(());
        };
        *filled = prepared.fill(*filled, self.bytes)?;
        if *filled == self.bytes
            && let Some((prepared, _)) = self.making.take()
        {
            self.offer(State::Ready(prepared));
        }
        Ok(())
    }

    /// Puts the outcome where the log finds it, unless it was closed meanwhile.
    fn offer(&mut self, outcome: State) {
        let mut state = self.slot.lock();
        match (&*state, outcome) {
            (State::Closed, State::Ready(prepared)) => prepared.discard(&*self.disk),
            (State::Closed, _) => {}
            (_, outcome) => *state = outcome,
        }
    }

    fn abandon(&mut self) {
        if let Some((prepared, _)) = self.making.take() {
            prepared.discard(&*self.disk);
        }
    }

    /// Takes turns until the log is closed, each time the next segment is needed soon.
    pub(crate) fn run(mut self) {
        loop {
            if self.making.is_none() {
                self.wait_for_need();
            }
            match self.turn() {
                Turn::Busy => {}
                Turn::Idle => self.wait(),
                Turn::Done => return,
            }
        }
    }

    fn wait_for_need(&self) {
        let state = self.slot.lock();
        let unneeded = |state: &mut State| {
            state.asks() == Turn::Busy && !self.slot.soon.load(Ordering::Relaxed)
        };
        drop(self.slot.changed.wait_while(state, unneeded).unwrap_or_else(PoisonError::into_inner));
    }

    fn wait(&self) {
        let state = self.slot.lock();
        let idle = |state: &mut State| state.asks() == Turn::Idle;
        drop(self.slot.changed.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner));
    }
}

/// Writes zeros from one offset to another.
pub(crate) fn write_zeros(file: &dyn File, mut offset: u64, end: u64) -> io::Result<()> {
    static ZEROS: [u8; STEP_BYTES] = [0; STEP_BYTES];
    while offset < end {
        let step = usize::try_from(end - offset).unwrap_or(usize::MAX).min(STEP_BYTES);
        file.write_at(&ZEROS[..step], offset)?;
        offset += step as u64;
    }
    Ok(())
}

/// Removes what an earlier process prepared and did not use.
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

    use super::*;

    /// The log has the file, and it is still called `0.tmp`: to make another now would empty it.
    #[test]
    fn none_is_made_before_the_last_one_has_its_name() {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1));
        let slot = Slot::new();
        let mut preparer = Preparer::new(Arc::clone(&disk), "/".into(), 4096, Arc::clone(&slot));
        assert!(slot.take().is_none());
        while preparer.turn() == Turn::Busy {}
        let prepared = slot.take().expect("it was made");
        assert_eq!(preparer.turn(), Turn::Idle);
        disk.rename(&prepared.path, Path::new("/segment")).expect("it is there");
        slot.cut_done();
        assert_eq!(preparer.turn(), Turn::Busy);
    }
}
