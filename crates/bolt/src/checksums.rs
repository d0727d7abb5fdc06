//! Checksums of all pages, kept in a sidecar file next to the database.
//!
//! bbolt's format has no page checksums, so bbolt cannot detect a flipped bit in a value. Bowline
//! keeps them in `<name>.sums`, which etcd ignores:
//!
//! ```text
//!  0        8           12         16     24               32      40        44
//!  +--------+-----------+----------+------+----------------+-------+---------+----------------//
//!  | magic  | page size | zero     | txid | checksum of the| pages | CRC of  | CRC-32C of page
//!  |        | u32       | u32      |      | meta page, u64 | u64   | all else| 0, 1, ... as u32
//!  +--------+-----------+----------+------+----------------+-------+---------+----------------//
//! ```
//!
//! A checksum of 0 means that it is unknown. The checksums are held in memory, four bytes per page,
//! and updated by every commit. They are saved when the database is closed, not with each commit,
//! so they cost no sync. Saved checksums are valid only for the state that they name: if the file
//! was written without them, after a crash or by etcd, they are discarded and the next scrub
//! computes new ones.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::{Create, Disk, Open, parent};
use parking_lot::Mutex;

use crate::freelist::Run;
use crate::meta::{META_BYTES, fnv1a};
use crate::open::temporary_path;
use crate::page::{PageId, u32_at, u64_at};
use crate::state::CommittedState;

const MAGIC: &[u8; 8] = b"BOWLSUM1";
const HEADER: usize = 44;
/// Offset of the CRC that covers the checksum file.
const CRC_AT: usize = 40;

/// Marks a page without a known checksum.
const UNKNOWN: u32 = 0;

/// The page checksums of a database.
#[derive(Debug, Default)]
pub(crate) struct Checksums {
    sums: Mutex<Sums>,
}

#[derive(Debug, Default)]
struct Sums {
    pages: Vec<u32>,
    /// Generation of the file; incremented when defragmentation replaces it.
    file: u64,
}

/// Checksums of a list of pages, tagged with the file generation they belong to.
#[derive(Debug)]
pub(crate) struct KnownSums {
    file: u64,
    sums: Vec<u32>,
}

/// Result of comparing a page with its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SumVerdict {
    Matches,
    /// The page had no known checksum.
    Unknown,
    Mismatch,
}

impl KnownSums {
    /// Compares the page at position `index` of the list. Records the checksum of a page that had
    /// none.
    pub(crate) fn verify(&mut self, index: usize, page: &[u8]) -> SumVerdict {
        let found = sum(page);
        match std::mem::replace(&mut self.sums[index], found) {
            UNKNOWN => SumVerdict::Unknown,
            known if known == found => SumVerdict::Matches,
            known => {
                self.sums[index] = known;
                SumVerdict::Mismatch
            }
        }
    }
}

impl Checksums {
    /// Loads the checksums saved for exactly this state. Starts empty if there are none.
    pub(crate) fn load(disk: &Arc<dyn Disk>, state: &CommittedState) -> Checksums {
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
                    tracing::info!(path = %path.display(), reason, "discarded the saved page checksums; the next scrub computes new ones");
                    Vec::new()
                }
            },
        };
        Checksums { sums: Mutex::new(Sums { pages: sums, file: 0 }) }
    }

    /// Records the checksums of pages that were just written.
    pub(crate) fn note(&self, runs: &[Run], bytes: &[u8], page_size: usize) {
        let mut sums = self.sums.lock();
        let sums = &mut sums.pages;
        let ids = runs.iter().flat_map(|(start, len)| *start..start + len);
        for (id, page) in ids.zip(bytes.chunks_exact(page_size)) {
            *slot(sums, id) = sum(page);
        }
    }

    /// Returns the known checksums of the given pages. The caller holds the writer lock, so they
    /// belong to the newest file.
    pub(crate) fn known(&self, ids: &[PageId]) -> KnownSums {
        let sums = self.sums.lock();
        let sum = |id: &PageId| {
            usize::try_from(*id).ok().and_then(|index| sums.pages.get(index).copied())
        };
        KnownSums {
            file: sums.file,
            sums: ids.iter().map(|id| sum(id).unwrap_or(UNKNOWN)).collect(),
        }
    }

    /// Adds checksums of pages that had none, unless the file was replaced in the meantime.
    pub(crate) fn learn(&self, ids: &[PageId], seen: &KnownSums) {
        let mut sums = self.sums.lock();
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

    /// Saves the checksums for a state, which must be the newest and stay so during the call.
    pub(crate) fn save(&self, disk: &dyn Disk, state: &CommittedState) -> io::Result<()> {
        let path = sums_path(&state.path);
        let temporary = temporary_path(&path, "new");
        let file = disk.open(&temporary, Open::create(Create::Truncate))?;
        file.write_at(&encode(&self.sums.lock().pages, state), 0)?;
        file.sync_data()?;
        disk.rename(&temporary, &path)?;
        disk.sync_dir(parent(&path))
    }

    /// Takes over the checksums of the file that replaces this one.
    pub(crate) fn take_over(&self, from: &Checksums) {
        let mut sums = self.sums.lock();
        sums.pages = std::mem::take(&mut from.sums.lock().pages);
        sums.file += 1;
    }
}

/// Path of the checksum file of a database.
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

/// Hash that identifies a state beyond its txid, which two files can share: FNV-1a of its meta
/// page.
fn state_sum(state: &CommittedState) -> u64 {
    let page: [u8; META_BYTES] = state.meta.encode_at(0);
    fnv1a(&page)
}

fn encode(sums: &[u32], state: &CommittedState) -> Vec<u8> {
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

fn decode(bytes: &[u8], state: &CommittedState) -> Result<Vec<u32>, String> {
    if bytes.len() < HEADER || &bytes[..8] != MAGIC {
        return Err("not a checksum file".into());
    }
    if own_crc(bytes) != u32_at(bytes, CRC_AT) {
        return Err("checksum file is corrupt".into());
    }
    if u64_at(bytes, 16) != state.meta.txid
        || u64_at(bytes, 24) != state_sum(state)
        || u32_at(bytes, 8) as usize != state.meta.page_size
    {
        let (then, now) = (u64_at(bytes, 16), state.meta.txid);
        return Err(format!("checksums are of transaction {then}, the database is at {now}"));
    }
    let sums: Vec<u32> = bytes[HEADER..].chunks_exact(4).map(|sum| u32_at(sum, 0)).collect();
    if sums.len() as u64 != u64_at(bytes, 32) {
        return Err("checksum file has the wrong length".into());
    }
    Ok(sums)
}

fn own_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..CRC_AT]), &bytes[HEADER..])
}
