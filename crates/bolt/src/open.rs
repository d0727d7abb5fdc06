//! Opening a file: lock it, choose the meta page, find the free pages.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use env::{Clock, Create, Disk, File, Lock, Locking, Map, Open, parent};

use crate::checksums::{self, Checksums};
use crate::db::{Db, DbParts, Options};
use crate::error::{CorruptPage, OpenError};
use crate::freelist::Freelist;
use crate::meta::{META_BYTES, Meta, PAGE_SIZE_MAX, PAGE_SIZE_MIN};
use crate::page::{FREELIST, HEADER, Header, LEAF, PageId};
use crate::state::CommittedState;
use crate::walk;

/// Interval between attempts to lock the file, as in bbolt.
const LOCK_RETRY: Duration = Duration::from_millis(50);

/// Pages of an empty database: two meta pages, a freelist, an empty root.
const PAGES_NEW: u64 = 4;

pub(crate) fn open(
    disk: Arc<dyn Disk>,
    clock: &dyn Clock,
    path: &Path,
    options: Options,
) -> Result<Db, OpenError> {
    if !options.page_size.is_power_of_two()
        || !(PAGE_SIZE_MIN..=PAGE_SIZE_MAX).contains(&options.page_size)
    {
        return Err(OpenError::PageSize(options.page_size));
    }
    let file = open_locked(&*disk, clock, path, &options)?;
    let io = |action| move |error| OpenError::Io { path: path.to_path_buf(), action, error };
    let (meta, slot, fell_back) = newest_meta(&*file, path)?;
    if let Some(reason) = fell_back {
        tracing::warn!(path = %path.display(), txid = meta.txid, reason, "one meta page is unusable; using the other");
    }
    let file_len = file.len().map_err(io("stat"))?;
    let name: Arc<Path> = path.into();
    if meta.high_water.checked_mul(meta.page_size as u64).is_none_or(|used| used > file_len) {
        let reason = format!("file truncated: it ends before its {} used pages", meta.high_water);
        return Err(OpenError::Corrupt(CorruptPage::new(&name, slot, reason)));
    }
    let map = map(&*file, file_len).map_err(io("map"))?;
    if options.mlock {
        let refuse = |error| OpenError::Mlock { path: path.to_path_buf(), file_len, error };
        map.lock(0).map_err(refuse)?;
    }
    let mut state = CommittedState { meta, map, file, path: name, free_pages: 0 };
    let mut freelist = Freelist::default();
    if !options.read_only {
        remove_leftovers(&*disk, path).map_err(io("remove unfinished files"))?;
        let used = walk::used_pages(&state).map_err(OpenError::Corrupt)?;
        freelist = Freelist::from_used(&used, meta.high_water, meta.txid);
        state.free_pages = freelist.unused();
        write_both_metas(&state, slot).map_err(io("sync meta page"))?;
        // The file may have been created or replaced by a process that was killed before it synced
        // the name.
        disk.sync_dir(parent(path)).map_err(io("sync directory"))?;
    }
    let checksums = options.checksums.then(|| Checksums::load(&disk, &state));
    let unsynced = !options.sync;
    let parts = DbParts { state, freelist, file_len, checksums, fell_back, unsynced };
    Ok(Db::assemble(disk, options, parts))
}

/// Writes the chosen meta page to both slots and syncs them.
///
/// First to its own slot: the process that wrote it may have been killed before the sync, or the
/// sync may have failed. Then the page is read from the OS cache and lost in a power cut, while
/// pages that only the previous state needs count as free from now on. Then to the other slot, with
/// a txid that is one lower, so that the database cannot fall back to the previous state either.
fn write_both_metas(state: &CommittedState, slot: PageId) -> io::Result<()> {
    let older = Meta { txid: state.meta.txid.saturating_sub(1), ..state.meta };
    for (meta, slot) in [(state.meta, slot), (older, 1 - slot)] {
        state.file.write_at(&meta.encode_at(slot), slot * state.meta.page_size as u64)?;
        state.file.sync_data()?;
    }
    Ok(())
}

/// Removes temporary files that a crash left.
fn remove_leftovers(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    let sums = temporary_path(&checksums::sums_path(path), "new");
    for leftover in [temporary_path(path, "defrag"), temporary_path(path, "init"), sums] {
        if disk.kind(&leftover)?.is_some() {
            disk.remove_file(&leftover)?;
        }
    }
    Ok(())
}

/// Maps a file for reading.
pub(crate) fn map(file: &dyn File, len: u64) -> io::Result<Map> {
    // SAFETY: the caller holds the file's lock, which keeps out other processes that know the
    // format. In this process, only a `CommittedState` reads pages through the map, and only pages
    // reachable from its meta page. Only a commit writes pages, and it takes them from the
    // freelist. The freelist has no page that the newest state reaches (`walk::used_pages` ensured
    // that at open, and that no page is reached twice), and no page that an older, still referenced
    // state reaches (`WriterState::release_pages`). Meta pages, and whole files for copying, are
    // read with `read_at`. A file is never truncated while it is mapped.
    #[expect(unsafe_code, reason = "reading a map needs a promise about writers")]
    unsafe {
        file.map(len, None)
    }
}

/// Opens and locks the file at `path`, or creates it. Retries if the file is replaced while waiting
/// for the lock.
fn open_locked(
    disk: &dyn Disk,
    clock: &dyn Clock,
    path: &Path,
    options: &Options,
) -> Result<Arc<dyn File>, OpenError> {
    let io = |action| move |error| OpenError::Io { path: path.to_path_buf(), action, error };
    let wait = LockWait { clock, path, since: clock.monotonic(), timeout: options.lock_timeout };
    let (how, lock) = match options.read_only {
        true => (Open::read(), Lock::Shared),
        false => (Open::write(), Lock::Exclusive),
    };
    loop {
        if options.read_only || disk.kind(path).map_err(io("stat"))?.is_some() {
            let file = disk.open(path, how).map_err(io("open"))?;
            wait.lock(&*file, lock)?;
            if !file.is_at(path).map_err(io("stat"))? {
                continue;
            }
            match (file.len().map_err(io("stat"))?, options.read_only) {
                (0, true) => return Err(OpenError::Empty { path: path.to_path_buf() }),
                // An empty file: replaced below while we hold its lock.
                (0, false) => {}
                _ => return Ok(file),
            }
            if let Some(created) = create(disk, path, options, &wait)? {
                return Ok(created);
            }
        } else if let Some(created) = create(disk, path, options, &wait)? {
            return Ok(created);
        }
    }
}

/// Creates an empty database, unless another process has done so by now. The file gets its name
/// only when complete, so that a power cut never leaves an unusable file.
fn create(
    disk: &dyn Disk,
    path: &Path,
    options: &Options,
    wait: &LockWait<'_>,
) -> Result<Option<Arc<dyn File>>, OpenError> {
    let io = |action| move |error| OpenError::Io { path: path.to_path_buf(), action, error };
    let unnamed = temporary_path(path, "init");
    let file = disk.open(&unnamed, Open::create(Create::IfMissing)).map_err(io("create"))?;
    wait.lock(&*file, Lock::Exclusive)?;
    let others = match disk.kind(path).map_err(io("stat"))? {
        Some(_) => {
            disk.open(path, Open::read()).and_then(|file| file.len()).map_err(io("stat"))? > 0
        }
        None => false,
    };
    if others || !file.is_at(&unnamed).map_err(io("stat"))? {
        return Ok(None);
    }
    initialize(&*file, options.page_size).map_err(io("initialize"))?;
    disk.rename(&unnamed, path).map_err(io("rename"))?;
    disk.sync_dir(parent(path)).map_err(io("sync directory"))?;
    Ok(Some(file))
}

/// The deadline for acquiring a file lock.
struct LockWait<'a> {
    clock: &'a dyn Clock,
    path: &'a Path,
    since: Duration,
    timeout: Option<Duration>,
}

impl LockWait<'_> {
    fn lock(&self, file: &dyn File, lock: Lock) -> Result<(), OpenError> {
        let path = || self.path.to_path_buf();
        let io = |error| OpenError::Io { path: path(), action: "lock", error };
        while !file.try_lock(Locking::Flock, lock).map_err(io)? {
            let waited = self.clock.monotonic() - self.since;
            if self.timeout.is_some_and(|timeout| waited + LOCK_RETRY > timeout) {
                return Err(OpenError::Locked { path: path(), waited });
            }
            self.clock.sleep(LOCK_RETRY);
        }
        Ok(())
    }
}

/// Path of the temporary file that will replace `path`. etcd also sweeps names that begin with
/// `db.tmp.`.
pub(crate) fn temporary_path(path: &Path, purpose: &str) -> PathBuf {
    let mut name = path.file_name().map(OsString::from).unwrap_or_default();
    name.push(".tmp.");
    name.push(purpose);
    path.with_file_name(name)
}

/// Turns a file into an empty database.
pub(crate) fn initialize(file: &dyn File, page_size: usize) -> io::Result<()> {
    let mut pages = vec![0; page_size * 4];
    for txid in 0..2 {
        let meta =
            Meta { page_size, root: 3, sequence: 0, freelist: 2, high_water: PAGES_NEW, txid };
        let at = page_size * usize::from(txid == 1);
        pages[at..at + META_BYTES].copy_from_slice(&meta.encode());
    }
    for (id, flags) in [(2, FREELIST), (3, LEAF)] {
        let at = page_size * if id == 2 { 2 } else { 3 };
        let header = Header { id, flags, count: 0, overflow: 0 };
        pages[at..at + HEADER].copy_from_slice(&header.encode());
    }
    file.set_len(0)?;
    file.write_at(&pages, 0)?;
    file.sync_data()
}

/// Returns the meta page that determines the state, its slot, and the error of the other meta page,
/// if any.
pub(crate) fn newest_meta(
    file: &dyn File,
    path: &Path,
) -> Result<(Meta, PageId, Option<&'static str>), OpenError> {
    let read = |offset: u64| {
        let mut page = [0; META_BYTES];
        let len = file.read_at(&mut page, offset)?;
        Ok(Meta::decode(&page[..len]))
    };
    let io = |error| OpenError::Io { path: path.to_path_buf(), action: "read meta pages", error };
    let first = read(0).map_err(io)?;
    let second = match first {
        Ok(meta) => read(meta.page_size as u64).map_err(io)?,
        Err(_) => second_meta(&read).map_err(io)?,
    };
    match (first, second) {
        (Ok(first), Ok(second)) if first.page_size != second.page_size => Err(OpenError::NoMeta {
            path: path.to_path_buf(),
            first: "page size differs from page 1",
            second: "page size differs from page 0",
        }),
        (Ok(first), Ok(second)) if second.txid > first.txid => Ok((second, 1, None)),
        (Ok(first), Ok(_)) => Ok((first, 0, None)),
        (Ok(meta), Err(reason)) => Ok((meta, 0, Some(reason))),
        (Err(reason), Ok(meta)) => Ok((meta, 1, Some(reason))),
        (Err(first), Err(second)) => {
            Err(OpenError::NoMeta { path: path.to_path_buf(), first, second })
        }
    }
}

/// Searches for the second meta page at every possible page size, because the first one is
/// unusable.
fn second_meta(
    read: &dyn Fn(u64) -> io::Result<Result<Meta, &'static str>>,
) -> io::Result<Result<Meta, &'static str>> {
    let mut page_size = PAGE_SIZE_MIN;
    while page_size <= PAGE_SIZE_MAX {
        if let Ok(meta) = read(page_size as u64)?
            && meta.page_size == page_size
        {
            return Ok(Ok(meta));
        }
        page_size *= 2;
    }
    Ok(Err("no meta page found at any page size"))
}
