//! Commit: writes a transaction to the file in an order that survives a power cut.
//!
//! New pages are written to locations that neither meta page leads to, and synced; then the older
//! meta page is overwritten, and synced. Until that last write the file holds the old state, after
//! it the new one, and a torn meta page fails its checksum.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::bucket::BucketHeader;
use crate::db::WriterState;
use crate::error::{CommitError, CorruptPage, Error};
use crate::freelist::Run;
use crate::meta::{Meta, NO_FREELIST};
use crate::state::CommittedState;
use crate::write::bucket::set;
use crate::write::rebalance::rebalance;
use crate::write::spill::{PageOutput, inline};
use crate::write::{OpenBucket, TxWork, WriteTx};
use failpoint::failpoint;

/// Capacity of the write buffer that is kept for the next commit, in bytes.
const BUFFER_KEPT: usize = 32 << 20;

/// A failed disk operation: its name and error.
type DiskFailure = (&'static str, io::Error);

/// Durations of the phases of a commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitPhases {
    /// Merging pages that have become small.
    pub rebalance: Duration,
    /// Cutting changed nodes into pages.
    pub spill: Duration,
    /// Writing and syncing pages and meta page.
    pub write: Duration,
}

/// Measures the phases of a commit.
struct Stopwatch<'a> {
    now: &'a dyn Fn() -> Duration,
    phases: CommitPhases,
}

impl Stopwatch<'_> {
    /// Runs `work` and adds its duration to a phase.
    fn time<T>(
        &mut self,
        phase: fn(&mut CommitPhases) -> &mut Duration,
        work: impl FnOnce() -> T,
    ) -> T {
        let started = (self.now)();
        let done = work();
        *phase(&mut self.phases) += (self.now)().saturating_sub(started);
        done
    }
}

impl WriteTx<'_> {
    /// Makes the changes durable and visible to readers. Returns the txid.
    ///
    /// After an error the content of the disk is unknown, and the database refuses transactions
    /// until it is reopened. Writes nothing if nothing changed.
    pub fn commit(self) -> Result<u64, CommitError> {
        self.commit_timed(&|| Duration::ZERO).map(|(txid, _)| txid)
    }

    /// Commits as [`WriteTx::commit`] does, and measures the phases by a monotonic clock.
    pub fn commit_timed(
        mut self,
        now: &dyn Fn() -> Duration,
    ) -> Result<(u64, CommitPhases), CommitError> {
        let mut stopwatch = Stopwatch { now, phases: CommitPhases::default() };
        let outcome = self.try_commit(&mut stopwatch);
        if let Err(error) = &outcome {
            self.writer.poison(error);
        }
        outcome.map(|txid| (txid, stopwatch.phases))
    }

    fn try_commit(&mut self, stopwatch: &mut Stopwatch<'_>) -> Result<u64, CommitError> {
        let writer = &mut *self.writer;
        let old = Arc::clone(&self.work.state);
        writer.release_pages(old.meta.txid);
        let buffer = std::mem::take(&mut writer.buffer);
        let mut output =
            PageOutput::new(old.meta.page_size, old.meta.high_water, &mut writer.freelist, buffer);
        let Some(root) = write_root(&mut self.work, &mut self.root, &mut output, stopwatch)? else {
            writer.buffer = output.bytes;
            return Ok(old.meta.txid);
        };
        self.work.freed.extend(saved_freelist(&old)?);
        let freelist = match self.db.options().sync_freelist {
            true => output.save_freelist(&self.work.freed),
            false => NO_FREELIST,
        };
        let meta = Meta {
            root,
            sequence: self.root.sequence,
            freelist,
            high_water: output.high_water,
            txid: old.meta.txid + 1,
            ..old.meta
        };
        let (bytes, runs) = (output.bytes, output.runs);
        let grow_bytes = self.db.options().grow_bytes;
        let written = stopwatch
            .time(|phases| &mut phases.write, || writer.write(&meta, &bytes, &runs, grow_bytes));
        written.map_err(|(action, source)| self.db.commit_error(action, source))?;
        if let Some(checksums) = &self.db.checksums {
            checksums.note(&runs, &bytes, meta.page_size);
        }
        writer.buffer = bytes;
        writer.buffer.shrink_to(BUFFER_KEPT);
        writer.freelist.note_written(meta.txid, &runs);
        writer.freelist.free(meta.txid, std::mem::take(&mut self.work.freed));
        writer.arena = std::mem::take(&mut self.work.arena).into_empty();
        self.db.publish(writer, meta).map_err(|source| self.db.commit_error("map", source))?;
        Ok(meta.txid)
    }
}

/// The pages of the saved freelist, if it is saved.
fn saved_freelist(state: &CommittedState) -> Result<Option<Run>, CorruptPage> {
    match state.meta.freelist {
        NO_FREELIST => Ok(None),
        id => match state.raw(id) {
            Ok((header, _)) => Ok(Some((id, u64::from(header.overflow) + 1))),
            Err(reason) => Err(state.corrupt(id, reason)),
        },
    }
}

/// Writes the changed pages and returns the new root page; `None` if nothing changed.
fn write_root(
    work: &mut TxWork,
    root: &mut OpenBucket,
    output: &mut PageOutput<'_>,
    stopwatch: &mut Stopwatch<'_>,
) -> Result<Option<u64>, CorruptPage> {
    write_inner(work, root, output, stopwatch)?;
    if !root.changed {
        return Ok(None);
    }
    stopwatch.time(|phases| &mut phases.rebalance, || rebalance(work, &mut root.root))?;
    Ok(Some(stopwatch.time(|phases| &mut phases.spill, || write_tree(work, root, output))))
}

/// Writes the nested buckets, and their new elements into the parent.
fn write_inner(
    work: &mut TxWork,
    bucket: &mut OpenBucket,
    output: &mut PageOutput<'_>,
    stopwatch: &mut Stopwatch<'_>,
) -> Result<(), CorruptPage> {
    for (name, mut inner) in std::mem::take(&mut bucket.open) {
        write_inner(work, &mut inner, output, stopwatch)?;
        if !inner.changed {
            continue;
        }
        stopwatch.time(|phases| &mut phases.rebalance, || rebalance(work, &mut inner.root))?;
        let value = match inline(&inner.root, inner.sequence, output.page_size, work.bytes()) {
            Some(value) => {
                free_root(work, &inner);
                value
            }
            None => {
                let spill = || write_tree(work, &mut inner, output);
                let root = stopwatch.time(|phases| &mut phases.spill, spill);
                BucketHeader { root, sequence: inner.sequence }.encode().to_vec()
            }
        };
        set(work, bucket, &name, &value, true).map_err(|error| match error {
            Error::Corrupt(corrupt) => corrupt,
            other => unreachable!("replacing a bucket element failed: {other}"),
        })?;
    }
    Ok(())
}

fn free_root(work: &mut TxWork, bucket: &OpenBucket) {
    if let crate::node::Child::Node(node) = &bucket.root {
        work.freed.extend(node.source);
    }
}

fn write_tree(work: &mut TxWork, bucket: &mut OpenBucket, output: &mut PageOutput<'_>) -> u64 {
    let root = std::mem::replace(&mut bucket.root, crate::node::Child::Page(0));
    let mut freed = std::mem::take(&mut work.freed);
    let page = output.tree(root, bucket.fill_percent, work.bytes(), &mut freed);
    work.freed = freed;
    page
}

impl WriterState {
    /// Writes the pages, syncs, writes the meta page, and syncs again.
    fn write(
        &mut self,
        meta: &Meta,
        bytes: &[u8],
        runs: &[Run],
        grow_bytes: u64,
    ) -> Result<(), DiskFailure> {
        let page_size = meta.page_size as u64;
        let needed = meta.high_water * page_size;
        self.grow(needed, grow_bytes).map_err(|error| ("grow", error))?;
        let mut rest = bytes;
        for (start, len) in runs {
            let len = usize::try_from(len * page_size).expect("no longer than the buffer");
            let (run, tail) = rest.split_at(len);
            self.file.write_at(run, start * page_size).map_err(|error| ("write pages", error))?;
            rest = tail;
        }
        self.sync_pages().map_err(|error| ("sync pages", error))?;
        let page = meta.encode();
        failpoint!("beforeWriteMetaError", |text| return Err((
            "write meta",
            io::Error::other(text)
        )));
        self.file
            .write_at(&page, meta.slot() * page_size)
            .map_err(|error| ("write meta", error))?;
        self.sync_meta().map_err(|error| ("sync meta", error))
    }

    fn sync_pages(&self) -> io::Result<()> {
        if self.unsynced {
            return Ok(());
        }
        failpoint!("beforeSyncDataPages");
        self.file.sync_data()
    }

    fn sync_meta(&self) -> io::Result<()> {
        if self.unsynced {
            return Ok(());
        }
        failpoint!("beforeSyncMetaPage");
        self.file.sync_data()
    }

    /// Grows the file beyond the needed size, so that growing is rare.
    fn grow(&mut self, needed: u64, grow_bytes: u64) -> io::Result<()> {
        if needed > self.file_len {
            let len = needed.saturating_add(grow_bytes);
            failpoint!("lackOfDiskSpace", |text| return Err(io::Error::other(text)));
            failpoint!("resizeFileError", |text| return Err(io::Error::other(text)));
            self.file.set_len(len)?;
            self.file_len = len;
        }
        Ok(())
    }
}
