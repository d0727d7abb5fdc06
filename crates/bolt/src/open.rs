//! Opening a file: lock it, find its state, see what is free.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use env::{Clock, Create, Disk, File, Lock, Locking, Map, Open, parent};

use crate::checksums::{self, Checksums};
use crate::db::{Db, Options, Parts};
use crate::error::{Damaged, OpenError};
use crate::freelist::Freelist;
use crate::meta::{META_BYTES, Meta, PAGE_SIZE_MAX, PAGE_SIZE_MIN};
use crate::page::{FREELIST, HEADER, Header, LEAF, PageId};
use crate::state::State;
use crate::walk;

/// How long to wait before trying a lock again, as bbolt does.
const LOCK_RETRY: Duration = Duration::from_millis(50);

/// Pages of a file in which nothing is: two metas, a list of free pages, an empty root.
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
        tracing::warn!(path = %path.display(), txid = meta.txid, reason, "one meta page is unusable; took the other");
    }
    let file_len = file.len().map_err(io("stat"))?;
    let name: Arc<Path> = path.into();
    if meta.high_water.checked_mul(meta.page_size as u64).is_none_or(|used| used > file_len) {
        let reason = format!("the file ends before its {} used pages do", meta.high_water);
        return Err(OpenError::Damaged(Damaged::new(&name, slot, reason)));
    }
    let map = map(&*file, file_len).map_err(io("map"))?;
    let mut state = State { meta, map, file, path: name, free_pages: 0 };
    let mut freelist = Freelist::default();
    if !options.read_only {
        remove_leftovers(&*disk, path).map_err(io("remove unfinished files"))?;
        let used = walk::used_pages(&state).map_err(OpenError::Damaged)?;
        freelist = Freelist::from_used(&used, meta.high_water, meta.txid);
        state.free_pages = freelist.unused();
        make_durable(&state, slot).map_err(io("sync meta page"))?;
        // A file that was made or rewritten by a process that was then killed may have its name in memory only.
        disk.sync_dir(parent(path)).map_err(io("sync folder"))?;
    }
    let checksums = options.checksums.then(|| Checksums::load(&disk, &state));
    let unsynced = !options.sync;
    let parts = Parts { state, freelist, file_len, checksums, fell_back, unsynced };
    Ok(Db::assemble(disk, options, parts))
}

/// Writes the state that was found into both meta pages.
///
/// Once more into its own: whoever wrote it may have been killed before it was synced, or the sync may have failed. Then it is read
/// back from memory, and gone after a power cut; but pages that only the state before needs count as free from now on. Then into the
/// other, as one transaction younger, because that state must not be fallen back to either.
fn make_durable(state: &State, slot: PageId) -> io::Result<()> {
    let older = Meta { txid: state.meta.txid.saturating_sub(1), ..state.meta };
    for (meta, slot) in [(state.meta, slot), (older, 1 - slot)] {
        state.file.write_at(&meta.encode_at(slot), slot * state.meta.page_size as u64)?;
        state.file.sync_data()?;
    }
    Ok(())
}

/// Removes unfinished files that a crash left behind.
fn remove_leftovers(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    let sums = beside(&checksums::sums_path(path), "new");
    for leftover in [beside(path, "defrag"), beside(path, "init"), sums] {
        if disk.kind(&leftover)?.is_some() {
            disk.remove_file(&leftover)?;
        }
    }
    Ok(())
}

/// Maps a file for reading.
pub(crate) fn map(file: &dyn File, len: u64) -> io::Result<Map> {
    // SAFETY: the caller holds the file's lock, which keeps other processes that know the format away. In this one, pages are
    // read through the map only by a `State`, and only those that can be reached from its meta page. A page is written only by
    // a commit, which takes it from the freelist; that has no page that the newest state reaches (`walk::used_pages` saw to it
    // when the file was opened, and that no page is reached twice), and none that an older state reaches while
    // somebody holds it (`Writer::release_pages`). Meta pages, and whole files to copy, are read by `read_at`. A file is never
    // cut while it is mapped.
    #[expect(unsafe_code, reason = "reading a map needs a promise about writers")]
    unsafe {
        file.map(len, None)
    }
}

/// Opens and locks the file that has the name; it may be replaced by another while we wait for the lock. Makes it if there is none.
fn open_locked(
    disk: &dyn Disk,
    clock: &dyn Clock,
    path: &Path,
    options: &Options,
) -> Result<Arc<dyn File>, OpenError> {
    let io = |action| move |error| OpenError::Io { path: path.to_path_buf(), action, error };
    let waiting = Waiting { clock, path, since: clock.monotonic(), most: options.lock_timeout };
    let (how, lock) = match options.read_only {
        true => (Open::read(), Lock::Shared),
        false => (Open::write(), Lock::Exclusive),
    };
    loop {
        if options.read_only || disk.kind(path).map_err(io("stat"))?.is_some() {
            let file = disk.open(path, how).map_err(io("open"))?;
            waiting.lock(&*file, lock)?;
            if !file.is_at(path).map_err(io("stat"))? {
                continue;
            }
            match (file.len().map_err(io("stat"))?, options.read_only) {
                (0, true) => return Err(OpenError::Empty { path: path.to_path_buf() }),
                // It is replaced while we hold it.
                (0, false) => {}
                _ => return Ok(file),
            }
            if let Some(made) = make(disk, path, options, &waiting)? {
                return Ok(made);
            }
        } else if let Some(made) = make(disk, path, options, &waiting)? {
            return Ok(made);
        }
    }
}

/// Makes an empty database, unless somebody else has by now. It gets its name only when it is whole: a power cut must not leave a
/// file that cannot be opened.
fn make(
    disk: &dyn Disk,
    path: &Path,
    options: &Options,
    waiting: &Waiting<'_>,
) -> Result<Option<Arc<dyn File>>, OpenError> {
    let io = |action| move |error| OpenError::Io { path: path.to_path_buf(), action, error };
    let unnamed = beside(path, "init");
    let file = disk.open(&unnamed, Open::create(Create::IfMissing)).map_err(io("create"))?;
    waiting.lock(&*file, Lock::Exclusive)?;
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
    disk.sync_dir(parent(path)).map_err(io("sync folder"))?;
    Ok(Some(file))
}

/// How long one waits for a lock.
struct Waiting<'a> {
    clock: &'a dyn Clock,
    path: &'a Path,
    since: Duration,
    most: Option<Duration>,
}

impl Waiting<'_> {
    fn lock(&self, file: &dyn File, lock: Lock) -> Result<(), OpenError> {
        let path = || self.path.to_path_buf();
        let io = |error| OpenError::Io { path: path(), action: "lock", error };
        while !file.try_lock(Locking::Flock, lock).map_err(io)? {
            let waited = self.clock.monotonic() - self.since;
            if self.most.is_some_and(|most| waited + LOCK_RETRY > most) {
                return Err(OpenError::Locked { path: path(), waited });
            }
            self.clock.sleep(LOCK_RETRY);
        }
        Ok(())
    }
}

/// The name of a file that is on its way to become another. Those beginning with `db.tmp.` are etcd's to sweep up as well.
pub(crate) fn beside(path: &Path, purpose: &str) -> PathBuf {
    let mut name = path.file_name().map(OsString::from).unwrap_or_default();
    name.push(".tmp.");
    name.push(purpose);
    path.with_file_name(name)
}

/// Makes an empty database of a file.
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

/// The meta page that tells the state of the file, and which one that is; and what is wrong with the other, if anything is.
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

/// The second meta page, where the first cannot tell the page size: wherever one says that it is there.
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
    Ok(Err("not found at any page size"))
}
