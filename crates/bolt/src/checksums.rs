//! A checksum of every page, kept in a file beside the database.
//!
//! The format has no checksums for pages, so bbolt cannot tell a flipped bit in a value from the value. We keep them apart, in
//! `<name>.sums`, which etcd does not look at:
//!
//! ```text
//!  0        8           12         16     24               32      40        44
//!  +--------+-----------+----------+------+----------------+-------+---------+----------------------//
//!  | magic  | page size | zero     | txid | checksum of the| pages | CRC of  | CRC-32C of page 0, 1, ...
//!  |        | u32       | u32      |      | meta page, u64 | u64   | all else| u32 each, 0: not known
//!  +--------+-----------+----------+------+----------------+-------+---------+----------------------//
//! ```
//!
//! The sums live in memory, a word for each page, and follow every commit. They are saved when the database is closed; not with
//! each commit, so they cost no sync. Saved sums hold for exactly the state they name: if the file has moved on without
//! them, by a crash or because etcd wrote to it, they are dropped, and the next scrub learns them anew.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use env::{Create, Disk, Open, parent};

use crate::freelist::Run;
use crate::meta::{META_BYTES, fnv1a};
use crate::open::beside;
use crate::page::{PageId, u32_at, u64_at};
use crate::state::State;

const MAGIC: &[u8; 8] = b"BOWLSUM1";
const HEADER: usize = 44;
/// Where the checksum of the sums file itself is.
const CRC_AT: usize = 40;

/// No checksum: the page has not been seen.
const UNKNOWN: u32 = 0;

/// The checksums of a database's pages.
#[derive(Debug, Default)]
pub(crate) struct Checksums {
    sums: Mutex<Sums>,
}

#[derive(Debug, Default)]
struct Sums {
    pages: Vec<u32>,
    /// Which file they are of: another one once defragmentation has replaced it.
    file: u64,
}

/// What is known of some pages, of one file.
#[derive(Debug)]
pub(crate) struct Known {
    file: u64,
    sums: Vec<u32>,
}

/// What a look at a page showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Same,
    /// It was not known; now it can be.
    New,
    Differs,
}

impl Known {
    /// Compares the page at some place in the list.
    pub(crate) fn verify(&mut self, index: usize, page: &[u8]) -> Verdict {
        let found = sum(page);
        match std::mem::replace(&mut self.sums[index], found) {
            UNKNOWN => Verdict::New,
            known if known == found => Verdict::Same,
            known => {
                self.sums[index] = known;
                Verdict::Differs
            }
        }
    }
}

impl Checksums {
    /// Those that were saved for just this state; or none, to be learned.
    pub(crate) fn load(disk: &Arc<dyn Disk>, state: &State) -> Checksums {
        let path = sums_path(&state.path);
        let sums = match disk.kind(&path) {
            Ok(None) => Vec::new(),
            _ => match disk
                .read(&path, HEADER as u64 + 4 * state.meta.high_water)
                .map_err(|error| error.to_string())
                .and_then(|saved| decode(&saved, state))
            {
                Ok(sums) => sums,
                Err(reason) => {
                    tracing::info!(path = %path.display(), reason, "page checksums are learned anew");
                    Vec::new()
                }
            },
        };
        Checksums { sums: Mutex::new(Sums { pages: sums, file: 0 }) }
    }

    /// Notes pages as they were just written.
    pub(crate) fn note(&self, runs: &[Run], bytes: &[u8], page_size: usize) {
        let mut sums = self.lock();
        let sums = &mut sums.pages;
        let ids = runs.iter().flat_map(|(start, len)| *start..start + len);
        for (id, page) in ids.zip(bytes.chunks_exact(page_size)) {
            *slot(sums, id) = sum(page);
        }
    }

    /// What is known of some pages. The caller holds the writer, so it is the newest file's.
    pub(crate) fn known(&self, ids: &[PageId]) -> Known {
        let sums = self.lock();
        let sum = |id: &PageId| {
            usize::try_from(*id).ok().and_then(|index| sums.pages.get(index).copied())
        };
        Known { file: sums.file, sums: ids.iter().map(|id| sum(id).unwrap_or(UNKNOWN)).collect() }
    }

    /// Takes in what was not known, unless the file has been replaced since.
    pub(crate) fn learn(&self, ids: &[PageId], seen: &Known) {
        let mut sums = self.lock();
        if sums.file != seen.file {
            return;
        }
        for (id, seen) in ids.iter().zip(&seen.sums) {
            let known = slot(&mut sums.pages, *id);
            if *known == UNKNOWN {
                *known = *seen;
            }
        }
    }

    /// Saves them for a state, which must be the newest, and stay it meanwhile.
    pub(crate) fn save(&self, disk: &dyn Disk, state: &State) -> io::Result<()> {
        let path = sums_path(&state.path);
        let temporary = beside(&path, "new");
        let file = disk.open(&temporary, Open::create(Create::Truncate))?;
        file.write_at(&encode(&self.lock().pages, state), 0)?;
        file.sync_data()?;
        disk.rename(&temporary, &path)?;
        disk.sync_dir(parent(&path))
    }

    /// Takes over the sums of the file that replaces this one.
    pub(crate) fn take_over(&self, from: &Checksums) {
        let mut sums = self.lock();
        sums.pages = std::mem::take(&mut from.lock().pages);
        sums.file += 1;
    }

    fn lock(&self) -> MutexGuard<'_, Sums> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the sums of a database are.
pub(crate) fn sums_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".sums");
    name.into()
}

fn sum(page: &[u8]) -> u32 {
    match crc32c::crc32c(page) {
        UNKNOWN => 1,
        sum => sum,
    }
}

fn slot(sums: &mut Vec<u32>, id: PageId) -> &mut u32 {
    let index = usize::try_from(id).expect("a page of a mapped file");
    if index >= sums.len() {
        sums.resize(index + 1, UNKNOWN);
    }
    &mut sums[index]
}

/// What names a state: its transaction and, because two files can have the same, the bytes of its meta page.
fn state_sum(state: &State) -> u64 {
    let page: [u8; META_BYTES] = state.meta.encode_at(0);
    fnv1a(&page)
}

fn encode(sums: &[u32], state: &State) -> Vec<u8> {
    let mut bytes = vec![0; HEADER];
    bytes[..8].copy_from_slice(MAGIC);
    let page_size = u32::try_from(state.meta.page_size).expect("at most 16 MiB");
    bytes[8..12].copy_from_slice(&page_size.to_le_bytes());
    bytes[16..24].copy_from_slice(&state.meta.txid.to_le_bytes());
    bytes[24..32].copy_from_slice(&state_sum(state).to_le_bytes());
    bytes[32..40].copy_from_slice(&(sums.len() as u64).to_le_bytes());
    bytes.extend(sums.iter().flat_map(|sum| sum.to_le_bytes()));
    let crc = own_crc(&bytes);
    bytes[CRC_AT..HEADER].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8], state: &State) -> Result<Vec<u32>, String> {
    if bytes.len() < HEADER || &bytes[..8] != MAGIC {
        return Err("not a file of checksums".into());
    }
    if own_crc(bytes) != u32_at(bytes, CRC_AT) {
        return Err("the file of checksums is damaged".into());
    }
    if u64_at(bytes, 16) != state.meta.txid
        || u64_at(bytes, 24) != state_sum(state)
        || u32_at(bytes, 8) as usize != state.meta.page_size
    {
        let (then, now) = (u64_at(bytes, 16), state.meta.txid);
        return Err(format!(
            "the database was written to without them: transaction {now}, not {then}"
        ));
    }
    let sums: Vec<u32> = bytes[HEADER..].chunks_exact(4).map(|sum| u32_at(sum, 0)).collect();
    if sums.len() as u64 != u64_at(bytes, 32) {
        return Err("the file of checksums has another length than it says".into());
    }
    Ok(sums)
}

fn own_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..CRC_AT]), &bytes[HEADER..])
}
