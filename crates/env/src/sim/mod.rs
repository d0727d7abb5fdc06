//! A disk in memory, with the weakest promises a real one gives.
//!
//! | file | what it is |
//! | --- | --- |
//! | `contents` | the bytes of a file, and the versions that a power cut may bring back |
//! | `folder` | names, and the changes of names that a power cut may take back |
//! | `tree` | from paths to files and folders |
//! | `disk`, `handle`, `locks` | the calls, with the errors that Linux gives |
//! | `faults` | which call fails, and how |
//! | `cut` | what is found after a power cut |
//!
//! One lock covers the disk, so calls happen one after the other, and each change has a number: the *stamp*. Whatever is
//! unsynced remembers the stamps of what happened to it, which lets a power cut show the disk as of some change, without
//! some change, or with each sector on its own.

mod contents;
mod cut;
mod disk;
mod faults;
mod folder;
mod handle;
mod locks;
mod tree;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use self::faults::{Call, Counting, Plan};
use self::folder::{Entry, FileNode, FolderNode};
use crate::SeededRandom;

pub use self::faults::{Calls, Fault};

/// The bytes that a disk writes whole or not at all.
const SECTOR: usize = 512;

/// A disk in memory that loses what a power cut may take, fails where it is told to and counts every call.
///
/// Clones are handles to the same disk. The root exists, and relative paths start there.
///
/// A crash test learns how many changes a run makes, then runs it again for each with the power lost at it, and looks at
/// what several cuts from that moment leave:
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
    state: Arc<Mutex<State>>,
    healed: Arc<Condvar>,
}

struct State {
    root: FolderNode,
    random: SeededRandom,
    /// The number of the last change.
    stamp: u64,
    /// How many handles were given out.
    handles: u64,
    calls: Calls,
    plans: Vec<Plan>,
    /// Whether the power is gone.
    off: bool,
    /// Whether syncs wait until the disk is healed.
    hangs: bool,
    capacity_bytes: Option<u64>,
}

impl SimDisk {
    /// An empty disk. What is random about it follows from the seed.
    pub fn new(seed: u64) -> SimDisk {
        SimDisk::with(FolderNode::default(), SeededRandom::new(seed), None)
    }

    fn with(root: FolderNode, random: SeededRandom, capacity_bytes: Option<u64>) -> SimDisk {
        let state = State {
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

    /// The disk as a machine could find it that loses power now. This one goes on as if nothing had happened, so that
    /// several seeds can be tried from one moment.
    ///
    /// Each sector of a file shows what was durable or anything written since. A change of the length survives or not; a file
    /// that was growing by a write may have got to any sector. What lies between and was never written reads as zeros. Of the
    /// changes to the names in a folder, the first few survive. Locks, planned faults and counters are gone; the capacity stays.
    #[must_use]
    pub fn power_cut(&self, seed: u64) -> SimDisk {
        let state = self.lock();
        let mut random = SeededRandom::new(seed);
        let root = cut::cut(&state.root, &mut random, state.stamp);
        SimDisk::with(root, random, state.capacity_bytes)
    }

    /// Lets the n-th call from now fail, whatever it asks for; 0 is the next one.
    ///
    /// A write that fails may have done any part of its sectors. A sync that fails gives up what it should have written, as on
    /// Linux: reads go on to show it, a later sync succeeds without it, and only writing it again helps. Other calls that
    /// fail do nothing. Only [`Fault::Crash`] leaves to the cut how much of a call was done.
    pub fn fail_call(&self, n: u64, fault: Fault) {
        self.plan(n, fault, Counting::All, false);
    }

    /// Lets the n-th call from now fail that changes something, as [`Calls::changes`] counts them.
    pub fn fail_change(&self, n: u64, fault: Fault) {
        self.plan(n, fault, Counting::Changes, false);
    }

    /// Lets every call fail from the n-th on, until [`SimDisk::heal`].
    pub fn fail_from_call(&self, n: u64, fault: Fault) {
        self.plan(n, fault, Counting::All, true);
    }

    /// Lets every call that changes something fail from the n-th such one on, until [`SimDisk::heal`].
    pub fn fail_from_change(&self, n: u64, fault: Fault) {
        self.plan(n, fault, Counting::Changes, true);
    }

    /// Lets every `sync_data` wait from now on, until [`SimDisk::heal`]: a disk that neither does what it is asked nor says that it cannot.
    pub fn hang(&self) {
        self.lock().hangs = true;
    }

    /// Forgets all planned faults, and does what it was hanging over. A machine that is off stays off.
    pub fn heal(&self) {
        let mut state = self.lock();
        state.plans.clear();
        state.hangs = false;
        self.healed.notify_all();
    }

    /// Bounds the space of all files that have a name, or lifts the bound. A write or an allocation that needs more fails, the
    /// write after what fitted. Files take up the sectors that were written or allocated, not those skipped.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.lock().capacity_bytes = bytes;
    }

    /// Turns round one bit of a file, in what is read and in whatever a power cut may show. Maps taken before keep theirs.
    ///
    /// # Panics
    /// If there is no such file, or it has no such bit.
    pub fn flip_bit(&self, path: impl AsRef<Path>, bit: u64) {
        let path = path.as_ref();
        let file = self.file(path).unwrap_or_else(|| panic!("no file {}", path.display()));
        let contents = &mut lock(&file).contents;
        let byte = usize::try_from(bit / 8).unwrap_or(usize::MAX);
        assert!(byte < contents.len(), "{} has no bit {bit}", path.display());
        contents.flip_bit(byte, 1 << (bit % 8));
    }

    /// What a file reads as now. Counts as no call, and works on a machine that is off.
    pub fn contents(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let file = self.file(path.as_ref())?;
        let bytes = Arc::clone(&lock(&file).contents.bytes);
        Some(Arc::unwrap_or_clone(bytes))
    }

    /// How often the disk was asked for what.
    pub fn calls(&self) -> Calls {
        self.lock().calls
    }

    fn plan(&self, n: u64, fault: Fault, counting: Counting, from_then_on: bool) {
        let mut state = self.lock();
        let now = match counting {
            Counting::All => state.calls.all(),
            Counting::Changes => state.calls.changes(),
        };
        state.plans.push(Plan { fault, counting, at: now.saturating_add(n), from_then_on });
    }

    fn file(&self, path: &Path) -> Option<FileNode> {
        match tree::entry(&self.lock().root, path) {
            Ok(Some(Entry::File(file))) => Some(file),
            _ => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// As [`SimDisk::lock`], once the disk hangs no more.
    fn lock_unless_it_hangs(&self) -> MutexGuard<'_, State> {
        let answers = self.healed.wait_while(self.lock(), |state| state.hangs);
        answers.unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Counts a call. Fails if the machine is off, and tells whether the call is to fail otherwise.
    fn admit(&mut self, call: Call) -> io::Result<Option<Fault>> {
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

    /// Counts a call that is not done at all if it is to fail.
    fn enter(&mut self, call: Call) -> io::Result<()> {
        match self.admit(call)? {
            Some(fault) => Err(fault.error()),
            None => Ok(()),
        }
    }

    /// A call that changes something. If the power goes, it is done, and lies unsynced: the cut decides what is left of it.
    fn change<T>(
        &mut self,
        call: Call,
        act: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> io::Result<T> {
        match self.admit(call)? {
            None => act(self),
            Some(Fault::Crash) => act(self).and(Err(Fault::Crash.error())),
            Some(fault) => Err(fault.error()),
        }
    }

    /// A number for the next change.
    fn next_stamp(&mut self) -> u64 {
        self.stamp += 1;
        self.stamp
    }

    /// How many sectors are free, unless there is no bound.
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

/// The space that is taken up below a folder.
fn sectors_used(folder: &FolderNode) -> usize {
    let used = |entry: &Entry| match entry {
        Entry::File(file) => lock(file).contents.sectors_used(),
        Entry::Dir(folder) => sectors_used(folder),
    };
    lock(folder).names().values().map(used).sum()
}

/// A panic elsewhere leaves the disk as it is.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
