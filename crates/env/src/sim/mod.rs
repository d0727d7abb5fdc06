//! An in-memory disk with the weakest guarantees of a real one.
//!
//! | file | contents |
//! | --- | --- |
//! | `contents` | the bytes of a file, and the versions that a power cut may restore |
//! | `directory` | names, and the name changes that a power cut may undo |
//! | `tree` | path lookup |
//! | `disk`, `handle`, `locks` | the calls, with the errors of Linux |
//! | `faults` | injected faults |
//! | `cut` | the state after a power cut |
//!
//! A single lock covers the disk, so calls are serialized, and each change has a number, its
//! *stamp*. Unsynced data keeps the stamps of its changes, which lets a power cut show the disk as
//! of some change, without some change, or with each sector drawn independently.

mod contents;
mod cut;
mod directory;
mod disk;
mod faults;
mod handle;
mod locks;
mod tree;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex, MutexGuard};

use self::directory::{DirNode, Entry, FileNode};
use self::faults::{CountedCalls, DiskCall, PlannedFault};
use crate::SeededRandom;

pub use self::faults::{Calls, Fault};

/// Size of a sector, in bytes: the unit that a disk writes atomically.
const SECTOR: usize = 512;

/// An in-memory disk that loses unsynced data in a power cut, fails on demand and counts every
/// call.
///
/// Clones are handles to the same disk. The root directory exists, and relative paths start there.
///
/// A crash test counts the changes that a run makes, repeats the run for each of them with a power
/// cut at it, and checks the results of several power cuts from that point:
///
/// ```
/// # use std::path::Path;
/// # use env::{Create, Disk, Fault, Open, SimDisk};
/// fn save(disk: &SimDisk) -> std::io::Result<()> {
///     let file = disk.open(Path::new("new"), Open::create(Create::Truncate))?;
///     file.write_at(b"saved", 0)?;
///     file.sync_data()?;
///     disk.rename(Path::new("new"), Path::new("state"))?;
///     disk.sync_dir(Path::new("/"))
/// }
///
/// let disk = SimDisk::new(1);
/// save(&disk)?;
/// for change in 0..disk.calls().changes() {
///     let disk = SimDisk::new(1);
///     disk.fail_change(change, Fault::Crash);
///     assert!(save(&disk).is_err());
///     for seed in 0..20 {
///         let found = disk.power_cut(seed).contents("state");
///         assert!(found.is_none() || found.as_deref() == Some(b"saved"));
///     }
/// }
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<SimState>>,
    healed: Arc<Condvar>,
}

/// A disk that hangs as long as this value lives, so that a failing test does not leave threads
/// blocked in it.
#[derive(Debug)]
#[must_use = "the disk hangs until this is dropped"]
pub struct HungDisk(SimDisk);

impl Drop for HungDisk {
    fn drop(&mut self) {
        self.0.lock().hangs = false;
        self.0.healed.notify_all();
    }
}

struct SimState {
    root: DirNode,
    random: SeededRandom,
    /// Stamp of the last change.
    stamp: u64,
    /// Number of handles created.
    handles: u64,
    calls: Calls,
    plans: Vec<PlannedFault>,
    /// The power is off.
    off: bool,
    /// Syncs block until the disk is healed.
    hangs: bool,
    capacity_bytes: Option<u64>,
}

impl SimDisk {
    /// Creates an empty disk. Its randomness is determined by the seed.
    pub fn new(seed: u64) -> SimDisk {
        SimDisk::with(DirNode::default(), SeededRandom::new(seed), None)
    }

    fn with(root: DirNode, random: SeededRandom, capacity_bytes: Option<u64>) -> SimDisk {
        let state = SimState {
            root,
            random,
            stamp: 0,
            handles: 0,
            calls: Calls::default(),
            plans: Vec::new(),
            off: false,
            hangs: false,
            capacity_bytes,
        };
        SimDisk { state: Arc::new(Mutex::new(state)), healed: Arc::default() }
    }

    /// Returns the disk as found after a power cut at this point. The original continues
    /// unaffected, so that several seeds can be tried.
    ///
    /// Each sector of a file shows its durable content or any later version. A change of the length
    /// survives or not; a file that a write was extending may have reached any sector. Gaps that
    /// were never written read as zeros. Of the changes to the names in a directory, a prefix
    /// survives. Locks, planned faults and counters are reset; the capacity stays.
    #[must_use]
    pub fn power_cut(&self, seed: u64) -> SimDisk {
        let state = self.lock();
        let mut random = SeededRandom::new(seed);
        let root = cut::cut(&state.root, &mut random, state.stamp);
        SimDisk::with(root, random, state.capacity_bytes)
    }

    /// Makes the n-th call from now fail, of whatever type; 0 is the next one.
    ///
    /// A failed write may have written any subset of its sectors. A failed sync drops its data, as
    /// on Linux: reads still show it, a later sync succeeds without writing it, and only rewriting
    /// it helps. Other failed calls have no effect. Only with [`Fault::Crash`] does the power cut
    /// decide how much of a call took effect.
    pub fn fail_call(&self, n: u64, fault: Fault) {
        self.plan(n, fault, CountedCalls::All, false);
    }

    /// Makes the n-th change from now fail, as counted by [`Calls::changes`].
    pub fn fail_change(&self, n: u64, fault: Fault) {
        self.plan(n, fault, CountedCalls::Changes, false);
    }

    /// Makes every call from the n-th on fail, until [`SimDisk::heal`].
    pub fn fail_from_call(&self, n: u64, fault: Fault) {
        self.plan(n, fault, CountedCalls::All, true);
    }

    /// Makes every change from the n-th on fail, until [`SimDisk::heal`].
    pub fn fail_from_change(&self, n: u64, fault: Fault) {
        self.plan(n, fault, CountedCalls::Changes, true);
    }

    /// Blocks every `sync_data` until the returned value is dropped or the disk is healed: a disk
    /// that hangs without an error.
    pub fn hang(&self) -> HungDisk {
        self.lock().hangs = true;
        HungDisk(self.clone())
    }

    /// Removes all planned faults and unblocks syncs. A machine that is off stays off.
    pub fn heal(&self) {
        let mut state = self.lock();
        state.plans.clear();
        state.hangs = false;
        self.healed.notify_all();
    }

    /// Limits the space of all named files, or removes the limit. A write or allocation beyond it
    /// fails; a write keeps the part that fits. Files occupy the sectors that were written or
    /// allocated, not skipped ones.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.lock().capacity_bytes = bytes;
    }

    /// Flips a bit of a file, in its content and in every version that a power cut may show.
    /// Existing maps are unaffected.
    ///
    /// # Panics
    /// If the file or the bit does not exist.
    pub fn flip_bit(&self, path: impl AsRef<Path>, bit: u64) {
        let path = path.as_ref();
        let file = self.file(path).unwrap_or_else(|| panic!("no file {}", path.display()));
        let contents = &mut file.lock().contents;
        let byte = usize::try_from(bit / 8).unwrap_or(usize::MAX);
        assert!(byte < contents.len(), "{} has no bit {bit}", path.display());
        contents.flip_bit(byte, 1 << (bit % 8));
    }

    /// Returns the current content of a file. Does not count as a call, and works while the power
    /// is off.
    pub fn contents(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let file = self.file(path.as_ref())?;
        let bytes = Arc::clone(&file.lock().contents.bytes);
        Some(Arc::unwrap_or_clone(bytes))
    }

    /// Returns the call counters.
    pub fn calls(&self) -> Calls {
        self.lock().calls
    }

    fn plan(&self, n: u64, fault: Fault, counting: CountedCalls, from_then_on: bool) {
        let mut state = self.lock();
        let now = match counting {
            CountedCalls::All => state.calls.all(),
            CountedCalls::Changes => state.calls.changes(),
        };
        state.plans.push(PlannedFault { fault, counting, at: now.saturating_add(n), from_then_on });
    }

    fn file(&self, path: &Path) -> Option<FileNode> {
        match tree::entry(&self.lock().root, path) {
            Ok(Some(Entry::File(file))) => Some(file),
            _ => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, SimState> {
        self.state.lock()
    }

    /// Like [`SimDisk::lock`], but waits while the disk hangs.
    fn lock_unless_hung(&self) -> MutexGuard<'_, SimState> {
        let mut state = self.lock();
        self.healed.wait_while(&mut state, |state| state.hangs);
        state
    }
}

impl SimState {
    /// Counts a call. Fails if the power is off; otherwise returns the fault to inject.
    fn admit(&mut self, call: DiskCall) -> io::Result<Option<Fault>> {
        let hit = self.plans.iter().position(|plan| plan.hits(call, &self.calls));
        self.calls.count(call);
        if self.off {
            return Err(Fault::Crash.error());
        }
        let Some(hit) = hit else { return Ok(None) };
        let plan = self.plans[hit];
        if !plan.from_then_on {
            self.plans.remove(hit);
        }
        self.off = plan.fault == Fault::Crash;
        Ok(Some(plan.fault))
    }

    /// Counts a call that has no effect if it fails.
    fn enter(&mut self, call: DiskCall) -> io::Result<()> {
        match self.admit(call)? {
            Some(fault) => Err(fault.error()),
            None => Ok(()),
        }
    }

    /// Counts and performs a change. At a crash the change is performed but unsynced: the power cut
    /// decides how much of it survives.
    fn change<T>(
        &mut self,
        call: DiskCall,
        act: impl FnOnce(&mut SimState) -> io::Result<T>,
    ) -> io::Result<T> {
        match self.admit(call)? {
            None => act(self),
            Some(Fault::Crash) => act(self).and(Err(Fault::Crash.error())),
            Some(fault) => Err(fault.error()),
        }
    }

    /// Returns the stamp of the next change.
    fn next_stamp(&mut self) -> u64 {
        self.stamp += 1;
        self.stamp
    }

    /// Number of free sectors, or `None` without a limit.
    fn free_sectors(&self) -> Option<usize> {
        let capacity = self.capacity_bytes? / SECTOR as u64;
        Some(
            usize::try_from(capacity)
                .unwrap_or(usize::MAX)
                .saturating_sub(sectors_used(&self.root)),
        )
    }
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimDisk").finish_non_exhaustive()
    }
}

/// Number of sectors used below a directory.
fn sectors_used(directory: &DirNode) -> usize {
    let used = |entry: &Entry| match entry {
        Entry::File(file) => file.lock().contents.sectors_used(),
        Entry::Dir(directory) => sectors_used(directory),
    };
    directory.lock().names().values().map(used).sum()
}
