//! The copy: a new database file that is filled with the contents of the old one.

use std::io;
use std::path::Path;
use std::sync::Arc;

use env::{Create, Lock, Locking, Open};
use failpoint::failpoint;

use crate::checksums::Checksums;
use crate::db::{Db, DbParts, Options};
use crate::defrag::DefragError;
use crate::diff::{ChangeSink, diff};
use crate::error::Error;
use crate::freelist::Freelist;
use crate::meta::Meta;
use crate::open;
use crate::snapshot::Snapshot;
use crate::state::CommittedState;
use crate::write::{BucketMut, WriteTx};

/// Bytes of keys and values copied in one transaction of the new file.
const BATCH_BYTES: usize = 8 << 20;

/// The new file while it is being filled. Its commits are not synced: a power cut makes it useless
/// anyway.
#[derive(Debug)]
pub(super) struct CopyTarget {
    pub(super) db: Db,
}

impl CopyTarget {
    pub(super) fn create(from: &Db, path: &Path) -> Result<CopyTarget, DefragError> {
        let failed =
            |action| move |error| DefragError::Io { path: path.to_path_buf(), action, error };
        failpoint!("defragOpenFileError", |text| {
            return Err(failed("create")(io::Error::other(text)));
        });
        let file =
            from.disk.open(path, Open::create(Create::IfMissing)).map_err(failed("create"))?;
        // Lock before the rename, so that no other process can acquire the new file in between, and
        // before truncating, because a database that was replaced may still be filling this file.
        let locked = file.try_lock(Locking::Flock, Lock::Exclusive).map_err(failed("lock"))?;
        if !locked {
            return Err(failed("lock")(io::Error::from(io::ErrorKind::WouldBlock)));
        }
        file.set_len(0).map_err(failed("truncate"))?;
        let old = from.state();
        let page_size = old.meta.page_size;
        open::initialize(&*file, page_size).map_err(failed("initialize"))?;
        let (meta, ..) = open::newest_meta(&*file, path)
            .map_err(|error| failed("read back")(io::Error::other(error.to_string())))?;
        let file_len = file.len().map_err(failed("stat"))?;
        let map = open::map(&*file, file_len).map_err(failed("map"))?;
        let state = CommittedState { meta, map, file, path: path.into(), free_pages: 0 };
        // Not locked in memory before it takes the place of the other.
        let options = Options { page_size, mlock: false, ..from.options().clone() };
        let checksums = from.checksums.as_ref().map(|_| Checksums::default());
        let disk = Arc::clone(&from.disk);
        let parts = DbParts {
            state,
            freelist: Freelist::default(),
            file_len,
            checksums,
            fell_back: None,
            unsynced: true,
        };
        let db = Db::assemble(disk, options, parts);
        Ok(CopyTarget { db })
    }

    /// Copies the changes between two states, or everything if `before` is `None`. Returns their
    /// number.
    pub(super) fn catch_up(
        &self,
        before: Option<&Snapshot>,
        after: &Snapshot,
    ) -> Result<u64, DefragError> {
        let copying = before.is_none();
        if copying {
            failpoint!("defragBeforeCopy");
            failpoint!("defragdbFail", |text| {
                return Err(self.error("copy", io::Error::other(text)));
            });
        }
        let mut batches = BatchedCopy { copy: self, copying, tx: None, bytes: 0, changes: 0 };
        let before = before.map(Snapshot::committed_root);
        diff(before.as_ref(), &after.committed_root(), &mut Vec::new(), &mut batches)?;
        batches.commit()?;
        Ok(batches.changes)
    }

    pub(super) fn sync(&self) -> Result<(), DefragError> {
        self.db.state().file.sync_data().map_err(|error| self.error("sync", error))
    }

    /// Completes the copy and returns its state. The txid continues that of the old file. Writes
    /// the state to both meta pages, because the database must never fall back to an incomplete
    /// copy.
    pub(super) fn finish(
        &self,
        txid: u64,
        path: &Arc<Path>,
    ) -> Result<CommittedState, DefragError> {
        let copied = self.db.state();
        let meta = Meta { txid: txid.max(copied.meta.txid + 2), ..copied.meta };
        for meta in [meta, Meta { txid: meta.txid - 1, ..meta }] {
            let written = copied.file.write_at(&meta.encode(), meta.slot() * meta.page_size as u64);
            written.map_err(|error| self.error("write meta", error))?;
        }
        self.sync()?;
        Ok(CommittedState {
            meta,
            map: copied.map.clone(),
            file: Arc::clone(&copied.file),
            path: Arc::clone(path),
            free_pages: copied.free_pages,
        })
    }

    /// Takes the freelist and the file length, with which the database continues.
    pub(super) fn take_writer_state(&self) -> (Freelist, u64) {
        let mut writer = self.db.lock_writer().expect("a copy that failed is never swapped");
        (std::mem::take(&mut writer.freelist), writer.file_len)
    }

    pub(super) fn error(&self, action: &'static str, error: io::Error) -> DefragError {
        DefragError::Io { path: self.db.path.to_path_buf(), action, error }
    }
}

/// Applies changes in transactions of bounded size.
struct BatchedCopy<'c> {
    copy: &'c CopyTarget,
    copying: bool,
    tx: Option<WriteTx<'c>>,
    bytes: usize,
    changes: u64,
}

impl BatchedCopy<'_> {
    fn bucket(&mut self, path: &[&[u8]], bytes: usize) -> Result<BucketMut<'_>, DefragError> {
        if self.bytes > BATCH_BYTES {
            self.commit_full_batch()?;
        }
        self.bytes += bytes;
        self.changes += 1;
        if self.tx.is_none() {
            self.tx = Some(self.copy.db.write()?);
        }
        let tx = self.tx.as_mut().expect("just begun if there was none");
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

    /// Commits a full batch. The first copy also syncs each batch: otherwise the sync of a database
    /// transaction would wait for all of the copy. Catching up does not, because it must be
    /// faster than the writer.
    fn commit_full_batch(&mut self) -> Result<(), DefragError> {
        self.commit()?;
        if self.copying { self.copy.sync() } else { Ok(()) }
    }
}

/// Converts an error of a copy. Copied data was valid at its source, so only corruption is
/// possible.
fn copied(error: Error) -> DefragError {
    match error {
        Error::Corrupt(corrupt) => DefragError::Corrupt(corrupt),
        other => unreachable!("copying valid data failed: {other}"),
    }
}

impl ChangeSink for BatchedCopy<'_> {
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
