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
