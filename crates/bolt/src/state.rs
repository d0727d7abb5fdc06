//! A committed state of a file: its meta page, and the memory map for reading its pages.
//!
//! Readers share the [`CommittedState`] of the last commit behind an `Arc`, without registering.
//! The writer keeps a weak pointer to each replaced state, so it knows which ones still have
//! readers, and does not reuse their pages.

use std::path::Path;
use std::sync::Arc;

use env::{File, Map};

use crate::error::CorruptPage;
use crate::meta::Meta;
use crate::page::{HEADER, Header, Page, PageId};

/// Maximum depth of a tree. Every branch has at least two children, so an intact file stays far
/// below; a corrupt one may have a cycle.
pub(crate) const DEPTH_MAX: usize = 64;

/// Offsets prefetched at the start of a page: its header, and the elements of a leaf with values of
/// a few hundred bytes.
const PREFETCH_LINES: [usize; 4] = [0, 64, 128, 192];
/// Number of keys of a leaf to prefetch.
const PREFETCH_KEYS: usize = 16;

/// A committed state: its meta page and the map of its file.
#[derive(Debug)]
pub(crate) struct CommittedState {
    pub(crate) meta: Meta,
    pub(crate) map: Map,
    /// The mapped file, which may have been replaced at its path: see `defrag`.
    pub(crate) file: Arc<dyn File>,
    pub(crate) path: Arc<Path>,
    /// Number of pages that this state does not use.
    pub(crate) free_pages: u64,
}

impl CommittedState {
    /// Decodes a branch or leaf page.
    #[inline]
    pub(crate) fn page(&self, id: PageId) -> Result<Page<'_>, CorruptPage> {
        match self.raw(id).and_then(|(header, bytes)| Page::new(header, bytes)) {
            Ok(page) => Ok(page),
            Err(reason) => Err(self.corrupt(id, reason)),
        }
    }

    /// Prefetches the start of a page: its header and first elements.
    #[inline]
    pub(crate) fn prefetch(&self, id: PageId) {
        if let Ok(id) = usize::try_from(id) {
            let start = id.wrapping_mul(self.meta.page_size);
            for line in PREFETCH_LINES {
                self.map.prefetch(start.wrapping_add(line));
            }
        }
    }

    /// Prefetches the keys of a page together, so that a search does not wait for one after the
    /// other.
    #[inline]
    pub(crate) fn prefetch_keys(&self, page: &Page<'_>) {
        let Ok(id) = usize::try_from(page.id) else { return };
        let start = id.wrapping_mul(self.meta.page_size);
        for offset in page.key_offsets().take(PREFETCH_KEYS) {
            self.map.prefetch(start.wrapping_add(offset));
        }
    }

    /// Returns the header and the bytes, with overflow pages, of a page of any type.
    #[inline]
    pub(crate) fn raw(&self, id: PageId) -> Result<(Header, &[u8]), &'static str> {
        const BEYOND: &str = "page number beyond the high water mark";
        if id < 2 || id >= self.meta.high_water {
            return Err(BEYOND);
        }
        // Cannot overflow: the map covers all used pages, as checked when it was created.
        let offset = usize::try_from(id).map_err(|_| BEYOND)? * self.meta.page_size;
        let header = self.map.get(offset, HEADER).and_then(<[u8]>::first_chunk).ok_or(BEYOND)?;
        let header = Header::decode(header);
        if header.id != id {
            return Err("page header has the wrong page number");
        }
        if u64::from(header.overflow) >= self.meta.high_water - id {
            return Err("overflow pages beyond the high water mark");
        }
        let len = (header.overflow as usize + 1) * self.meta.page_size;
        Ok((header, self.map.get(offset, len).ok_or(BEYOND)?))
    }

    #[cold]
    pub(crate) fn corrupt(&self, page: PageId, reason: impl Into<String>) -> CorruptPage {
        CorruptPage::new(&self.path, page, reason)
    }

    #[cold]
    pub(crate) fn too_deep(&self, page: PageId) -> CorruptPage {
        self.corrupt(page, format!("more than {DEPTH_MAX} levels deep"))
    }
}
