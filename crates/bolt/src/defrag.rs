//! Defragmentation while the database is in use.
//!
//! A file never shrinks by itself: pages that are free stay in it. Defragmenting writes all there is into a new file, page behind page,
//! and lets that take the old one's place. etcd stops everything for it. Here nobody waits for the long part:
//!
//! ```text
//!   1. copy      a snapshot is copied into <name>.tmp.defrag; transactions and readers go on
//!   2. catch up  what was committed meanwhile is found by a `diff` of two snapshots and copied too; again, until it is little
//!   3. swap      the writer is held up: the last few changes, a sync, a rename, a sync of the folder
//! ```
//!
//! Only the third step makes a transaction wait, and it is bounded: with more than [`SWAP_CHANGES_MAX`] changes, or
//! [`SWAP_BYTES_MAX`] bytes of them, to catch up with, it is put off. Readers never wait; snapshots of the old file stay readable, and its space is given back
//! when the last of them is gone. A crash before the rename leaves the old file, after it the new one; both are whole.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use env::{Clock, Create, File, Lock, Locking, Open, parent};
use failpoint::failpoint;

use crate::checksums::Checksums;
use crate::db::{Db, Options, Parts, Writer};
use crate::diff::{Changes, diff};
use crate::error::{CommitError, Damaged, Error};
use crate::freelist::Freelist;
use crate::meta::Meta;
use crate::open::{self, beside};
use crate::snapshot::Snapshot;
use crate::state::State;
use crate::write::{BucketMut, WriteTx};

/// Most changes that are copied while the writer waits: as many as the largest transaction that etcd makes.
pub const SWAP_CHANGES_MAX: u64 = 10_000;
/// Most bytes of keys and values, likewise; a few of the largest requests.
pub const SWAP_BYTES_MAX: usize = 8 << 20;
/// Bytes of keys and values copied in one transaction of the new file.
const BATCH_BYTES: usize = 8 << 20;
/// Most times to catch up. Each round is as long as it takes to copy what was written in the one before, so there are few.
const ROUNDS_MAX: u64 = 100;
/// Replaced files whose lock is kept. Whoever still waits for one that was replaced so long ago gets a file without a name.
const RETIRED_MAX: usize = 64;

/// Why a defragmentation was given up. The database is as it was, except after `Unsure`.
#[derive(Debug, thiserror::Error)]
pub enum DefragError {
    /// The database takes no writes.
    #[error(transparent)]
    Refused(#[from] CommitError),
    /// What should be copied is damaged.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// The new file could not be written.
    #[error("{}: {action}: {error}", path.display())]
    Io {
        /// The new file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the disk said.
        error: io::Error,
    },
    /// More is written than can be copied.
    #[error("gave up after {0} rounds: more is written than can be copied")]
    Outrun(u64),
    /// It has failed before, or is done.
    #[error("the defragmentation has ended")]
    Ended,
    /// It is not sure which of the two files survives a power cut, so the database takes no more writes until opened again.
    #[error("{}: the new file is in place, but its name may not be durable: {error}", path.display())]
    Unsure {
        /// The database.
        path: PathBuf,
        /// What the disk said.
        error: io::Error,
    },
}

/// What a defragmentation did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefragReport {
    /// Size before, as [`Snapshot::size`] tells it.
    pub size_before: u64,
    /// Size after.
    pub size_after: u64,
    /// Pairs copied at first.
    pub copied: u64,
    /// Times it had to catch up.
    pub rounds: u64,
    /// Changes caught up with, the last included.
    pub caught_up: u64,
    /// Changes that were copied while the writer waited.
    pub swap_changes: u64,
    /// How long the writer was held up.
    pub swap_time: Duration,
}

/// A defragmentation under way. Dropping it before it has finished gives it up.
#[derive(Debug)]
pub struct Defrag<'db> {
    db: &'db Db,
    copy: Copy,
    /// Up to where has been copied.
    at: Option<Snapshot>,
    report: DefragReport,
    /// The new file has the name.
    swapped: bool,
    failed: bool,
    _alone: MutexGuard<'db, ()>,
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
        self.give_back_space();
        Ok(report)
    }

    /// Gives back the space of files that were replaced and that nobody reads any more. [`Db::defragment`] does so at its end; for
    /// files that were still read then, call it again. Cutting a large file takes a while, during which nobody waits.
    pub fn give_back_space(&self) {
        let Ok(mut writer) = self.lock_writer() else { return };
        let unread = writer.take_unread();
        drop(writer);
        for file in unread {
            // If this fails the space is given back when we stop.
            let _ = file.set_len(0);
        }
    }

    /// Another file is about to get the name. Nothing is put in its place from here on: a defragmentation that is under way is given up. Whoever reads
    /// this one, or writes it, may go on.
    pub fn give_up_name(&self) {
        // One that takes no writes puts nothing in anybody's place.
        if let Ok(mut writer) = self.lock_writer() {
            writer.is_replaced = true;
        }
    }

    /// Begins to do so, turn by turn. One at a time: a second one waits.
    pub fn begin_defragment(&self) -> Result<Defrag<'_>, DefragError> {
        let alone = self.defrag.lock().unwrap_or_else(PoisonError::into_inner);
        if self.lock_writer()?.is_replaced {
            return Err(DefragError::Ended);
        }
        let copy = Copy::create(self, &beside(&self.path, "defrag"))?;
        let report =
            DefragReport { size_before: self.snapshot().size(), ..DefragReport::default() };
        Ok(Defrag {
            db: self,
            copy,
            at: None,
            report,
            swapped: false,
            failed: false,
            _alone: alone,
        })
    }
}

impl Defrag<'_> {
    /// The first turn copies everything; each further one catches up, and swaps the files if that leaves little to do. Then it tells
    /// what was done. After an error there is no other turn.
    pub fn turn(&mut self, clock: &dyn Clock) -> Result<Option<DefragReport>, DefragError> {
        let first = self.at.is_none();
        self.catch_up()?;
        if first { Ok(None) } else { self.try_swap(clock) }
    }

    /// Copies what was committed since the last time, or everything, and makes it durable: what the writer waits for is only
    /// what comes after.
    pub fn catch_up(&mut self) -> Result<(), DefragError> {
        self.once_failed()?;
        let now = self.db.snapshot();
        let changes = self.copy.catch_up(self.at.as_ref(), &now).and_then(|changes| {
            self.copy.sync()?;
            Ok(changes)
        });
        let changes = self.noting_failure(changes)?;
        if self.at.replace(now).is_none() {
            self.report.copied = changes;
            return Ok(());
        }
        self.report.rounds += 1;
        self.report.caught_up += changes;
        let outrun = self.report.rounds > ROUNDS_MAX;
        self.noting_failure(if outrun { Err(DefragError::Outrun(ROUNDS_MAX)) } else { Ok(()) })
    }

    /// The last step, unless too much has been committed since it was last caught up, or nothing was copied yet.
    pub fn try_swap(&mut self, clock: &dyn Clock) -> Result<Option<DefragReport>, DefragError> {
        self.once_failed()?;
        let Some(at) = self.at.clone() else { return Ok(None) };
        let swapped = self.swap_from(&at, clock);
        self.noting_failure(swapped)
    }

    fn swap_from(
        &mut self,
        at: &Snapshot,
        clock: &dyn Clock,
    ) -> Result<Option<DefragReport>, DefragError> {
        let mut writer = self.db.lock_writer()?;
        if writer.is_replaced {
            return Err(DefragError::Ended);
        }
        let started = clock.monotonic();
        let now = self.db.snapshot();
        match diff(Some(&at.root()), &now.root(), &mut Vec::new(), &mut Count::default()) {
            Ok(()) => {}
            Err(TooMuch::Changes) => return Ok(None),
            Err(TooMuch::Damaged(damaged)) => return Err(damaged.into()),
        }
        let changes = self.copy.catch_up(Some(at), &now)?;
        let new = self.copy.finish(now.txid() + 1, &self.db.path)?;
        self.report.size_after = new.meta.high_water * new.meta.page_size as u64;
        self.db.swap(&mut writer, &self.copy, new, &mut self.swapped)?;
        self.report.swap_time = clock.monotonic() - started;
        self.report.swap_changes = changes;
        self.report.caught_up += changes;
        Ok(Some(self.report))
    }

    /// What could not be synced is not synced by trying again, so one failure ends it.
    fn noting_failure<T>(&mut self, outcome: Result<T, DefragError>) -> Result<T, DefragError> {
        self.failed |= outcome.is_err();
        outcome
    }

    fn once_failed(&self) -> Result<(), DefragError> {
        if self.failed || self.swapped { Err(DefragError::Ended) } else { Ok(()) }
    }
}

impl Drop for Defrag<'_> {
    fn drop(&mut self) {
        let path = &self.copy.db.path;
        // The name may be that of another's by now, which has taken the place of this database.
        if !self.swapped && self.copy.db.state().file.is_at(path).unwrap_or(true) {
            // Of no use to anybody. Should this fail: the next start removes it.
            let _ = self.db.disk.remove_file(path);
        }
    }
}

impl Db {
    fn swap(
        &self,
        writer: &mut Writer,
        copy: &Copy,
        new: State,
        swapped: &mut bool,
    ) -> Result<(), DefragError> {
        failpoint!("defragBeforeRename");
        if let Err(error) = self.disk.rename(&copy.db.path, &self.path) {
            // It may have happened all the same.
            match new.file.is_at(&self.path) {
                Ok(false) => return Err(copy.error("rename", error)),
                Ok(true) => {}
                Err(_) => return Err(self.unsure(writer, error)),
            }
        }
        // From here on the name means the new file, so everybody has to.
        *swapped = true;
        let (freelist, file_len) = copy.give_up_writer();
        let old_file = std::mem::replace(&mut writer.file, Arc::clone(&new.file));
        writer.file_len = file_len;
        writer.freelist = freelist;
        let mut readers: Vec<Weak<State>> =
            writer.replaced.drain(..).map(|(_, state)| state).collect();
        readers.push(Arc::downgrade(&self.state()));
        writer.retire(Retired { file: old_file, readers });
        if let (Some(ours), Some(theirs)) = (&self.checksums, &copy.db.checksums) {
            ours.take_over(theirs);
        }
        self.replace(new);
        let synced = self.disk.sync_dir(parent(&self.path));
        synced.map_err(|error| self.unsure(writer, error))
    }

    /// Whichever file it is, what is committed to it may be gone after a power cut. So nothing is.
    fn unsure(&self, writer: &mut Writer, error: io::Error) -> DefragError {
        let told = io::Error::new(error.kind(), error.to_string());
        writer.poison(&self.commit_error("defragment", told));
        DefragError::Unsure { path: self.path.to_path_buf(), error }
    }
}

/// A file that was replaced, for as long as its lock is kept: whoever waits for it must not get it while we run.
#[derive(Debug)]
pub(crate) struct Retired {
    file: Arc<dyn File>,
    /// Who may still read it. Empty once its space was given back.
    readers: Vec<Weak<State>>,
}

impl Writer {
    fn retire(&mut self, file: Retired) {
        self.retired.push(file);
        if self.retired.len() > RETIRED_MAX {
            self.retired.remove(0);
        }
    }

    /// Replaced files that nobody reads any more, each only once.
    fn take_unread(&mut self) -> Vec<Arc<dyn File>> {
        let unread = |retired: &&mut Retired| {
            !retired.readers.is_empty()
                && retired.readers.iter().all(|state| state.strong_count() == 0)
        };
        let files = self.retired.iter_mut().filter(unread).map(|retired| {
            retired.readers.clear();
            Arc::clone(&retired.file)
        });
        let files = files.collect();
        // Whoever dropped a state has read the last of it before that.
        fence(Ordering::Acquire);
        files
    }
}

/// The new file while it is being filled. Its commits are not synced: a power cut leaves it useless anyway.
#[derive(Debug)]
struct Copy {
    db: Db,
}

impl Copy {
    fn create(from: &Db, path: &Path) -> Result<Copy, DefragError> {
        let failed =
            |action| move |error| DefragError::Io { path: path.to_path_buf(), action, error };
        failpoint!("defragOpenFileError", |text| {
            return Err(failed("create")(io::Error::other(text)));
        });
        let file =
            from.disk.open(path, Open::create(Create::IfMissing)).map_err(failed("create"))?;
        // Before it gets the name, so that nobody can come between; and before it is emptied, since another may be filling it that has given up its name.
        let locked = file.try_lock(Locking::Flock, Lock::Exclusive).map_err(failed("lock"))?;
        if !locked {
            return Err(failed("lock")(io::Error::from(io::ErrorKind::WouldBlock)));
        }
        file.set_len(0).map_err(failed("empty"))?;
        let old = from.state();
        let page_size = old.meta.page_size;
        open::initialize(&*file, page_size).map_err(failed("initialize"))?;
        let (meta, ..) = open::newest_meta(&*file, path)
            .map_err(|error| failed("read back")(io::Error::other(error.to_string())))?;
        let file_len = file.len().map_err(failed("stat"))?;
        let map = open::map(&*file, file_len).map_err(failed("map"))?;
        let state = State { meta, map, file, path: path.into(), free_pages: 0 };
        let options = Options { page_size, ..from.options().clone() };
        let checksums = from.checksums.as_ref().map(|_| Checksums::default());
        let disk = Arc::clone(&from.disk);
        let parts = Parts {
            state,
            freelist: Freelist::default(),
            file_len,
            checksums,
            fell_back: None,
            unsynced: true,
        };
        let db = Db::assemble(disk, options, parts);
        Ok(Copy { db })
    }

    /// Copies what changed between two states; all there is if there is no first. Tells how much that was.
    fn catch_up(&self, before: Option<&Snapshot>, after: &Snapshot) -> Result<u64, DefragError> {
        let copying = before.is_none();
        if copying {
            failpoint!("defragBeforeCopy");
            failpoint!("defragdbFail", |text| {
                return Err(self.error("copy", io::Error::other(text)));
            });
        }
        let mut batches = Batches { copy: self, copying, tx: None, bytes: 0, changes: 0 };
        let before = before.map(Snapshot::root);
        diff(before.as_ref(), &after.root(), &mut Vec::new(), &mut batches)?;
        batches.commit()?;
        Ok(batches.changes)
    }

    fn sync(&self) -> Result<(), DefragError> {
        self.db.state().file.sync_data().map_err(|error| self.error("sync", error))
    }

    /// The state to go on with, under a number that continues the old file's, durable. Both meta pages tell it: what an
    /// unfinished copy left behind must never be fallen back to.
    fn finish(&self, txid: u64, name: &Arc<Path>) -> Result<State, DefragError> {
        let copied = self.db.state();
        let meta = Meta { txid: txid.max(copied.meta.txid + 2), ..copied.meta };
        for meta in [meta, Meta { txid: meta.txid - 1, ..meta }] {
            let written = copied.file.write_at(&meta.encode(), meta.slot() * meta.page_size as u64);
            written.map_err(|error| self.error("write meta", error))?;
        }
        self.sync()?;
        Ok(State {
            meta,
            map: copied.map.clone(),
            file: Arc::clone(&copied.file),
            path: Arc::clone(name),
            free_pages: copied.free_pages,
        })
    }

    /// What the database goes on with.
    fn give_up_writer(&self) -> (Freelist, u64) {
        let mut writer = self.db.lock_writer().expect("nothing failed, or there would be no swap");
        (std::mem::take(&mut writer.freelist), writer.file_len)
    }

    fn error(&self, action: &'static str, error: io::Error) -> DefragError {
        DefragError::Io { path: self.db.path.to_path_buf(), action, error }
    }
}

/// Applies changes in transactions of a bounded size.
struct Batches<'c> {
    copy: &'c Copy,
    copying: bool,
    tx: Option<WriteTx<'c>>,
    bytes: usize,
    changes: u64,
}

impl Batches<'_> {
    fn bucket(&mut self, path: &[&[u8]], bytes: usize) -> Result<BucketMut<'_>, DefragError> {
        if self.bytes > BATCH_BYTES {
            self.next()?;
        }
        self.bytes += bytes;
        self.changes += 1;
        if self.tx.is_none() {
            self.tx = Some(self.copy.db.write()?);
        }
        let tx = self.tx.as_mut().expect("was just begun");
        let mut bucket = tx.root();
        for name in path {
            bucket = bucket.into_bucket(name).map_err(copied)?;
        }
        bucket.set_fill_percent(1.0);
        Ok(bucket)
    }

    fn commit(&mut self) -> Result<(), DefragError> {
        self.bytes = 0;
        if let Some(tx) = self.tx.take() {
            tx.commit()?;
        }
        Ok(())
    }

    /// A batch is full. While everything is copied, it goes to the disk at once, or a transaction of the database would be queued
    /// behind all of it; while it catches up, speed counts, or it would be outrun.
    fn next(&mut self) -> Result<(), DefragError> {
        self.commit()?;
        if self.copying { self.copy.sync() } else { Ok(()) }
    }
}

/// What is copied was valid where it came from.
fn copied(error: Error) -> DefragError {
    match error {
        Error::Damaged(damaged) => DefragError::Damaged(damaged),
        other => unreachable!("a copy of what is there: {other}"),
    }
}

impl Changes for Batches<'_> {
    type Error = DefragError;

    fn put(&mut self, bucket: &[&[u8]], key: &[u8], value: &[u8]) -> Result<(), DefragError> {
        self.bucket(bucket, key.len() + value.len())?.put(key, value).map_err(copied)
    }

    fn delete(&mut self, bucket: &[&[u8]], key: &[u8]) -> Result<(), DefragError> {
        self.bucket(bucket, key.len())?.delete(key).map(|_| ()).map_err(copied)
    }

    fn create_bucket(&mut self, bucket: &[&[u8]], name: &[u8]) -> Result<(), DefragError> {
        self.bucket(bucket, name.len())?.create_bucket(name).map(|_| ()).map_err(copied)
    }

    fn delete_bucket(&mut self, bucket: &[&[u8]], name: &[u8]) -> Result<(), DefragError> {
        self.bucket(bucket, name.len())?.delete_bucket(name).map_err(copied)
    }

    fn set_sequence(&mut self, bucket: &[&[u8]], sequence: u64) -> Result<(), DefragError> {
        self.bucket(bucket, 0)?.set_sequence(sequence);
        Ok(())
    }
}

/// Counts changes, up to what the writer may be held up for.
#[derive(Default)]
struct Count {
    changes: u64,
    bytes: usize,
}

/// Why the count was given up.
enum TooMuch {
    Changes,
    Damaged(Damaged),
}

impl From<Damaged> for TooMuch {
    fn from(damaged: Damaged) -> TooMuch {
        TooMuch::Damaged(damaged)
    }
}

impl Count {
    fn one(&mut self, bytes: usize) -> Result<(), TooMuch> {
        self.changes += 1;
        self.bytes += bytes;
        let fits = self.changes <= SWAP_CHANGES_MAX && self.bytes <= SWAP_BYTES_MAX;
        if fits { Ok(()) } else { Err(TooMuch::Changes) }
    }
}

impl Changes for Count {
    type Error = TooMuch;

    fn put(&mut self, _: &[&[u8]], key: &[u8], value: &[u8]) -> Result<(), TooMuch> {
        self.one(key.len() + value.len())
    }

    fn delete(&mut self, _: &[&[u8]], key: &[u8]) -> Result<(), TooMuch> {
        self.one(key.len())
    }

    fn create_bucket(&mut self, _: &[&[u8]], name: &[u8]) -> Result<(), TooMuch> {
        self.one(name.len())
    }

    fn delete_bucket(&mut self, _: &[&[u8]], name: &[u8]) -> Result<(), TooMuch> {
        self.one(name.len())
    }

    fn set_sequence(&mut self, _: &[&[u8]], _: u64) -> Result<(), TooMuch> {
        self.one(0)
    }
}
