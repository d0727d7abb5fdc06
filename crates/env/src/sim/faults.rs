//! Injected faults.
//!
//! Every call has a number, and every change has a second one. A fault is planned for a number, or
//! for all from a number on:
//!
//! ```text
//! call            open(new)   read_at   write_at   sync_data   len   write_at
//! all()               0          1          2          3        4        5
//! changes()           0                     1          2                 3
//!
//!   fail_change(2, Eio) at the start fails the sync;
//!   fail_from_change(2, Eio) fails the last write too
//! ```

use std::io;

/// A kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The machine loses power during the call. The call and all later ones fail;
    /// [`SimDisk::power_cut`](crate::SimDisk::power_cut) returns what the machine finds after a
    /// restart.
    Crash,
    /// An I/O error.
    Eio,
    /// The disk is full.
    Enospc,
}

impl Fault {
    pub(super) fn error(self) -> io::Error {
        match self {
            Fault::Crash => io::Error::other("the machine is off"),
            Fault::Eio => io::Error::from_raw_os_error(libc::EIO),
            Fault::Enospc => io::Error::from_raw_os_error(libc::ENOSPC),
        }
    }
}

/// A planned fault.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlannedFault {
    pub(super) fault: Fault,
    pub(super) counting: CountedCalls,
    /// Number of the call that fails.
    pub(super) at: u64,
    /// All later calls fail too.
    pub(super) from_then_on: bool,
}

/// The calls that a plan counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CountedCalls {
    All,
    Changes,
}

impl PlannedFault {
    /// Reports whether the plan applies to a call, given the earlier ones.
    pub(super) fn hits(&self, call: DiskCall, before: &Calls) -> bool {
        let number = match self.counting {
            CountedCalls::All => before.all(),
            CountedCalls::Changes if call.is_change() => before.changes(),
            CountedCalls::Changes => return false,
        };
        number == self.at || self.from_then_on && number > self.at
    }
}

/// A call to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiskCall {
    Read,
    Write { bytes: u64 },
    Sync,
    SyncDir,
    Open { changes: bool },
    CreateDir,
    Rename,
    Remove,
    Resize,
    Map,
    Lock,
    Stat,
}

impl DiskCall {
    fn is_change(self) -> bool {
        match self {
            DiskCall::Read | DiskCall::Map | DiskCall::Lock | DiskCall::Stat => false,
            DiskCall::Open { changes } => changes,
            DiskCall::Write { .. }
            | DiskCall::Sync
            | DiskCall::SyncDir
            | DiskCall::CreateDir
            | DiskCall::Rename
            | DiskCall::Remove
            | DiskCall::Resize => true,
        }
    }
}

/// Call counters of a disk. Failed calls count too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// `read_at`.
    pub reads: u64,
    /// `write_at`.
    pub writes: u64,
    /// Bytes passed to `write_at`.
    pub bytes_written: u64,
    /// `sync_data`.
    pub syncs: u64,
    /// `sync_dir`.
    pub dir_syncs: u64,
    /// `open`.
    pub opens: u64,
    /// Calls of `open` that created or truncated a file.
    pub creates: u64,
    /// `create_dir_all`.
    pub dirs_made: u64,
    /// `rename`.
    pub renames: u64,
    /// `remove_file` and `remove_dir_all`.
    pub removes: u64,
    /// `set_len` and `allocate`.
    pub resizes: u64,
    /// `map`.
    pub maps: u64,
    /// `try_lock`.
    pub locks: u64,
    /// `read_dir`, `kind`, `len` and `is_at`.
    pub stats: u64,
}

impl Calls {
    pub(super) fn count(&mut self, call: DiskCall) {
        match call {
            DiskCall::Read => self.reads += 1,
            DiskCall::Write { bytes } => {
                self.writes += 1;
                self.bytes_written += bytes;
            }
            DiskCall::Sync => self.syncs += 1,
            DiskCall::SyncDir => self.dir_syncs += 1,
            DiskCall::Open { changes } => {
                self.opens += 1;
                self.creates += u64::from(changes);
            }
            DiskCall::CreateDir => self.dirs_made += 1,
            DiskCall::Rename => self.renames += 1,
            DiskCall::Remove => self.removes += 1,
            DiskCall::Resize => self.resizes += 1,
            DiskCall::Map => self.maps += 1,
            DiskCall::Lock => self.locks += 1,
            DiskCall::Stat => self.stats += 1,
        }
    }

    /// All calls: the number of the next one for [`SimDisk::fail_call`](crate::SimDisk::fail_call).
    pub fn all(&self) -> u64 {
        self.reads + self.opens - self.creates
            + self.maps
            + self.locks
            + self.stats
            + self.changes()
    }

    /// The calls that change something: the number of the next one for
    /// [`SimDisk::fail_change`](crate::SimDisk::fail_change).
    pub fn changes(&self) -> u64 {
        self.writes
            + self.syncs
            + self.dir_syncs
            + self.creates
            + self.dirs_made
            + self.renames
            + self.removes
            + self.resizes
    }
}
