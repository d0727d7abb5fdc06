//! One committed state of a file: a meta page, and the map through which its pages are read.
//!
//! Readers share the [`State`] of the last commit behind an `Arc`; nobody registers anywhere. The writer keeps a weak pointer to each
//! state it has replaced, and so knows which are still being read: their pages are not reused.

use std::path::Path;
use std::sync::Arc;

use env::{File, Map};

use crate::error::Damaged;
use crate::meta::Meta;
use crate::page::{HEADER, Header, Page, PageId};

/// Most levels of a tree. Every branch has two children or more, so a whole file has far fewer; a damaged one may have a circle.
pub(crate) const DEPTH_MAX: usize = 64;

/// What lies at the start of a page: its header, and the elements of a leaf with values of a few hundred bytes.
const PREFETCH_LINES: [usize; 4] = [0, 64, 128, 192];
/// Keys of a leaf, likewise.
const PREFETCH_KEYS: usize = 16;

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) meta: Meta,
    pub(crate) map: Map,
    /// The file mapped, which is not always the one that has the name now: see `defrag`.
    pub(crate) file: Arc<dyn File>,
    pub(crate) path: Arc<Path>,
    /// Pages that hold nothing of this state.
    pub(crate) free_pages: u64,
}

impl State {
    /// A branch or leaf page.
    #[inline]
    pub(crate) fn page(&self, id: PageId) -> Result<Page<'_>, Damaged> {
        match self.raw(id).and_then(|(header, bytes)| Page::new(header, bytes)) {
            Ok(page) => Ok(page),
            Err(reason) => Err(self.damaged(id, reason)),
        }
    }

    /// Lets the start of a page, where its header and first elements are, come from memory while something else is done.
    #[inline]
    pub(crate) fn prefetch(&self, id: PageId) {
        if let Ok(id) = usize::try_from(id) {
            let start = id.wrapping_mul(self.meta.page_size);
            for line in PREFETCH_LINES {
                self.map.prefetch(start.wrapping_add(line));
            }
        }
    }

    /// Lets the keys of a page come from memory at the same time, where a search would wait for one after the other.
    #[inline]
    pub(crate) fn prefetch_keys(&self, page: &Page<'_>) {
        let Ok(id) = usize::try_from(page.id) else { return };
        let start = id.wrapping_mul(self.meta.page_size);
        for offset in page.key_offsets().take(PREFETCH_KEYS) {
            self.map.prefetch(start.wrapping_add(offset));
        }
    }

    /// The bytes of a page with its overflow, whatever it is.
    #[inline]
    pub(crate) fn raw(&self, id: PageId) -> Result<(Header, &[u8]), &'static str> {
        const BEYOND: &str = "beyond the used pages";
        if id < 2 || id >= self.meta.high_water {
            return Err(BEYOND);
        }
        // Cannot overflow: the map has all used pages, which was checked when it was made.
        let offset = usize::try_from(id).map_err(|_| BEYOND)? * self.meta.page_size;
        let header = self.map.get(offset, HEADER).and_then(<[u8]>::first_chunk).ok_or(BEYOND)?;
        let header = Header::decode(header);
        if header.id != id {
            return Err("the page says that it is another one");
        }
        if u64::from(header.overflow) >= self.meta.high_water - id {
            return Err("overflows the used pages");
        }
        let len = (header.overflow as usize + 1) * self.meta.page_size;
        Ok((header, self.map.get(offset, len).ok_or(BEYOND)?))
    }

    #[cold]
    pub(crate) fn damaged(&self, page: PageId, reason: impl Into<String>) -> Damaged {
        Damaged::new(&self.path, page, reason)
    }
}
