//! What goes wrong, and when.
//!
//! Every call that reaches the disk has a number, and every call that changes something has a second one. A fault is planned
//! for a number, or for all from a number on:
//!
//! ```text
//! call            open(new)   read_at   write_at   sync_data   len   write_at
//! all()               0          1          2          3        4        5
//! changes()           0                     1          2                 3
//!
//!   fail_change(2, Eio) at the start fails the sync; fail_from_change(2, Eio) fails the last write too
//! ```

use std::io;

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The machine loses power during the call. The call fails, and so does every later one; what the machine finds when it
    /// comes back is told by [`SimDisk::power_cut`](crate::SimDisk::power_cut).
    Crash,
    /// The disk cannot.
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

/// A fault that is planned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) fault: Fault,
    pub(super) counting: Counting,
    /// The number of the call that fails.
    pub(super) at: u64,
    /// Whether every later one fails too.
    pub(super) from_then_on: bool,
}

/// Which calls a plan counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counting {
    All,
    Changes,
}

impl Plan {
    /// Whether it is the turn of a call, given what was called before.
    pub(super) fn hits(&self, call: Call, before: &Calls) -> bool {
        let number = match self.counting {
            Counting::All => before.all(),
            Counting::Changes if call.is_change() => before.changes(),
            Counting::Changes => return false,
        };
        number == self.at || self.from_then_on && number > self.at
    }
}

/// What the disk is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
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
    Look,
}

impl Call {
    fn is_change(self) -> bool {
        match self {
            Call::Read | Call::Map | Call::Lock | Call::Look => false,
            Call::Open { changes } => changes,
            Call::Write { .. }
            | Call::Sync
            | Call::SyncDir
            | Call::CreateDir
            | Call::Rename
            | Call::Remove
            | Call::Resize => true,
        }
    }
}

/// How often a disk was asked for what. Calls that failed count too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// `read_at`.
    pub reads: u64,
    /// `write_at`.
    pub writes: u64,
    /// The bytes handed to `write_at`.
    pub bytes_written: u64,
    /// `sync_data`.
    pub syncs: u64,
    /// `sync_dir`.
    pub dir_syncs: u64,
    /// `open`.
    pub opens: u64,
    /// Those of the `opens` that made a file or emptied one.
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
    pub looks: u64,
}

impl Calls {
    pub(super) fn count(&mut self, call: Call) {
        match call {
            Call::Read => self.reads += 1,
            Call::Write { bytes } => {
                self.writes += 1;
                self.bytes_written += bytes;
            }
            Call::Sync => self.syncs += 1,
            Call::SyncDir => self.dir_syncs += 1,
            Call::Open { changes } => {
                self.opens += 1;
                self.creates += u64::from(changes);
            }
            Call::CreateDir => self.dirs_made += 1,
            Call::Rename => self.renames += 1,
            Call::Remove => self.removes += 1,
            Call::Resize => self.resizes += 1,
            Call::Map => self.maps += 1,
            Call::Lock => self.locks += 1,
            Call::Look => self.looks += 1,
        }
    }

    /// All calls: the number that the next one has for [`SimDisk::fail_call`](crate::SimDisk::fail_call).
    pub fn all(&self) -> u64 {
        self.reads + self.opens - self.creates
            + self.maps
            + self.locks
            + self.looks
            + self.changes()
    }

    /// The calls that change something: the number that the next one has for
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
