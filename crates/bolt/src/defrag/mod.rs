//! Online defragmentation: rewrites the file without its free pages while it is in use.
//!
//! A file never shrinks on its own: free pages stay in it. Defragmentation copies all live data,
//! densely packed, into a new file, which then replaces the old one. etcd blocks all requests
//! meanwhile; here the long part runs concurrently with them:
//!
//! ```text
//!   1. copy      copy a snapshot into <name>.tmp.defrag; transactions and readers continue
//!   2. catch up  diff two snapshots and copy the changes; repeat until few remain
//!   3. swap      block the writer: copy the last changes, sync, rename, sync the directory
//! ```
//!
//! Only the third step makes a transaction wait, and its work is bounded: with more than
//! [`SWAP_CHANGES_MAX`] changes, or [`SWAP_BYTES_MAX`] bytes of them, left to copy, it is
//! postponed. Readers never wait. Snapshots of the old file stay readable, and its space is
//! reclaimed after the last of them is dropped. A crash before the rename leaves the old file,
//! after it the new one; both are complete.

mod copy;
mod limit;
mod swap;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use env::Clock;
use parking_lot::MutexGuard;

use crate::db::Db;
use crate::diff::diff;
use crate::error::{CommitError, CorruptPage};
use crate::open::temporary_path;
use crate::snapshot::Snapshot;

use copy::CopyTarget;
use limit::{ChangeCounter, CountError};
pub use limit::{SWAP_BYTES_MAX, SWAP_CHANGES_MAX};
pub(crate) use swap::ReplacedFile;

/// Maximum number of catch-up rounds. Each round copies what was written during the one before, so
/// few are needed.
const ROUNDS_MAX: u64 = 100;

/// Reason why a defragmentation failed. The database is unchanged, except after `RenameNotDurable`.
#[derive(Debug, thiserror::Error)]
pub enum DefragError {
    /// The database accepts no writes.
    #[error(transparent)]
    Refused(#[from] CommitError),
    /// The database is corrupt.
    #[error(transparent)]
    Corrupt(#[from] CorruptPage),
    /// The new file could not be written.
    #[error("{}: {action}: {error}", path.display())]
    Io {
        /// The new file.
        path: PathBuf,
        /// The operation that failed.
        action: &'static str,
        /// The error of the operating system.
        error: io::Error,
    },
    /// Changes are committed faster than they can be copied.
    #[error(
        "gave up after {0} catch-up rounds: changes are committed faster than they can be copied; retry under less load"
    )]
    TooManyRounds(u64),
    /// The defragmentation has failed or finished before, or the file was replaced.
    #[error("the defragmentation has ended")]
    Ended,
    /// The rename may be undone by a power cut, so the database refuses writes until it is
    /// reopened.
    #[error("{}: the new file is in place, but its name may not be durable: {error}; reopen the database", path.display())]
    RenameNotDurable {
        /// The database.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
}

/// Result of a defragmentation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefragReport {
    /// Size before, as in [`Snapshot::size`].
    pub size_before: u64,
    /// Size after.
    pub size_after: u64,
    /// Pairs copied by the first turn.
    pub copied: u64,
    /// Number of catch-up rounds.
    pub rounds: u64,
    /// Changes copied by the catch-up rounds and the swap.
    pub caught_up: u64,
    /// Changes copied while the writer was blocked.
    pub swap_changes: u64,
    /// Time for which the writer was blocked.
    pub swap_time: Duration,
}

/// A defragmentation in progress. Dropping it before it has finished cancels it.
#[derive(Debug)]
pub struct Defrag<'db> {
    db: &'db Db,
    copy: CopyTarget,
    /// The last state that was copied completely.
    copied_to: Option<Snapshot>,
    report: DefragReport,
    /// The new file has replaced the old one.
    swapped: bool,
    failed: bool,
    _exclusive: MutexGuard<'db, ()>,
}

impl Db {
    /// Rewrites the file without its free pages, while it is in use.
    pub fn defragment(&self, clock: &dyn Clock) -> Result<DefragReport, DefragError> {
        let mut defrag = self.begin_defragment()?;
        let report = loop {
            if let Some(report) = defrag.turn(clock)? {
                break report;
            }
        };
        drop(defrag);
        self.reclaim_space();
        Ok(report)
    }

    /// Truncates replaced files that have no readers left. [`Db::defragment`] does this at its end;
    /// call it again for files that still had readers then. Truncating a large file takes a while
    /// and blocks neither readers nor the writer.
    pub fn reclaim_space(&self) {
        let Ok(mut writer) = self.lock_writer() else { return };
        let unread = writer.take_unread();
        drop(writer);
        for file in unread {
            // If this fails, the space is freed when the process ends.
            let _ = file.set_len(0);
        }
    }

    /// Announces that another file is about to replace the one at this path. From now on, no
    /// defragmentation of this database replaces it: a running one is canceled. Readers and the
    /// writer of this file may continue.
    pub fn mark_replaced(&self) {
        // A database that refuses writes cannot be defragmented.
        if let Ok(mut writer) = self.lock_writer() {
            writer.is_replaced = true;
        }
    }

    /// Begins a defragmentation that proceeds turn by turn. Blocks while another one is running.
    pub fn begin_defragment(&self) -> Result<Defrag<'_>, DefragError> {
        let exclusive = self.defrag.lock();
        if self.lock_writer()?.is_replaced {
            return Err(DefragError::Ended);
        }
        let copy = CopyTarget::create(self, &temporary_path(&self.path, "defrag"))?;
        let report =
            DefragReport { size_before: self.snapshot().size(), ..DefragReport::default() };
        Ok(Defrag {
            db: self,
            copy,
            copied_to: None,
            report,
            swapped: false,
            failed: false,
            _exclusive: exclusive,
        })
    }
}

impl Defrag<'_> {
    /// Runs one step. The first turn copies everything. Each later one catches up, and swaps the
    /// files if little is left to copy; then it returns the report. No turn may follow an error.
    pub fn turn(&mut self, clock: &dyn Clock) -> Result<Option<DefragReport>, DefragError> {
        let first = self.copied_to.is_none();
        self.catch_up()?;
        if first { Ok(None) } else { self.try_swap(clock) }
    }

    /// Copies the changes since the last call, or everything, and syncs them, so that the writer
    /// waits only for what is committed afterwards.
    pub fn catch_up(&mut self) -> Result<(), DefragError> {
        self.ensure_active()?;
        let now = self.db.snapshot();
        let changes = self.copy.catch_up(self.copied_to.as_ref(), &now).and_then(|changes| {
            self.copy.sync()?;
            Ok(changes)
        });
        let changes = self.record_failure(changes)?;
        if self.copied_to.replace(now).is_none() {
            self.report.copied = changes;
            return Ok(());
        }
        self.report.rounds += 1;
        self.report.caught_up += changes;
        let outrun = self.report.rounds > ROUNDS_MAX;
        self.record_failure(if outrun {
            Err(DefragError::TooManyRounds(ROUNDS_MAX))
        } else {
            Ok(())
        })
    }

    /// Swaps the files. Returns `None` if nothing was copied yet, or if too much was committed
    /// since the last catch-up.
    pub fn try_swap(&mut self, clock: &dyn Clock) -> Result<Option<DefragReport>, DefragError> {
        self.ensure_active()?;
        let Some(copied_to) = self.copied_to.clone() else { return Ok(None) };
        let swapped = self.swap_from(&copied_to, clock);
        self.record_failure(swapped)
    }

    fn swap_from(
        &mut self,
        copied_to: &Snapshot,
        clock: &dyn Clock,
    ) -> Result<Option<DefragReport>, DefragError> {
        let mut writer = self.db.lock_writer()?;
        if writer.is_replaced {
            return Err(DefragError::Ended);
        }
        let started = clock.monotonic();
        let now = self.db.snapshot();
        match diff(
            Some(&copied_to.committed_root()),
            &now.committed_root(),
            &mut Vec::new(),
            &mut ChangeCounter::default(),
        ) {
            Ok(()) => {}
            Err(CountError::LimitExceeded) => return Ok(None),
            Err(CountError::Corrupt(corrupt)) => return Err(corrupt.into()),
        }
        let changes = self.copy.catch_up(Some(copied_to), &now)?;
        let new = self.copy.finish(now.txid() + 1, &self.db.path)?;
        self.report.size_after = new.meta.high_water * new.meta.page_size as u64;
        self.db.swap(&mut writer, &self.copy, new, &mut self.swapped)?;
        self.report.swap_time = clock.monotonic() - started;
        self.report.swap_changes = changes;
        self.report.caught_up += changes;
        Ok(Some(self.report))
    }

    /// Records a failure, which ends the defragmentation: retrying a failed sync does not make the
    /// data durable.
    fn record_failure<T>(&mut self, outcome: Result<T, DefragError>) -> Result<T, DefragError> {
        self.failed |= outcome.is_err();
        outcome
    }

    fn ensure_active(&self) -> Result<(), DefragError> {
        if self.failed || self.swapped { Err(DefragError::Ended) } else { Ok(()) }
    }
}

impl Drop for Defrag<'_> {
    fn drop(&mut self) {
        let path = &self.copy.db.path;
        // The path may by now belong to the copy of a database that replaced this one.
        if !self.swapped && self.copy.db.state().file.is_at(path).unwrap_or(true) {
            // If this fails, the next open removes the file.
            let _ = self.db.disk.remove_file(path);
        }
    }
}
