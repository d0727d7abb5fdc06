//! A state of the database that stays as it is.

use std::io::{self, Write};
use std::sync::Arc;

use crate::bucket::Bucket;
use crate::error::Damaged;
use crate::meta::Meta;
use crate::state::State;
use crate::tree::{Subtree, Tree};

/// Bytes copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// A state of the database, as some commit left it. Cheap to clone and to keep, except that what it needs of the file cannot
/// be reused meanwhile.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) state: Arc<State>,
}

/// The root bucket of a state.
pub(crate) fn root(state: &State) -> Bucket<'_> {
    let tree = Tree { state, bytes: None, root: Subtree::Page(state.meta.root) };
    Bucket { tree, sequence: state.meta.sequence, open: None }
}

impl Snapshot {
    pub(crate) fn new(state: Arc<State>) -> Snapshot {
        Snapshot { state }
    }

    /// The root bucket, which holds the top-level buckets.
    pub fn root(&self) -> Bucket<'_> {
        root(&self.state)
    }

    /// A top-level bucket.
    pub fn bucket(&self, name: &[u8]) -> Result<Option<Bucket<'_>>, Damaged> {
        self.root().bucket(name)
    }

    /// The transaction that left this state.
    pub fn txid(&self) -> u64 {
        self.state.meta.txid
    }

    /// Bytes of a page.
    pub fn page_size(&self) -> usize {
        self.state.meta.page_size
    }

    /// Bytes of all pages ever used: the size that etcd reports. The file may be longer.
    pub fn size(&self) -> u64 {
        self.state.meta.high_water * self.page_size() as u64
    }

    /// Of these, bytes of pages that hold something. In a file opened to be read, all of them.
    pub fn size_in_use(&self) -> u64 {
        self.size() - self.state.free_pages * self.page_size() as u64
    }

    /// Writes the state as a file of its own, while other transactions go on: both meta pages, then every page as it is. Returns
    /// how many bytes that were, always [`Snapshot::size`].
    pub fn write_to(&self, to: &mut dyn Write) -> io::Result<u64> {
        let (meta, size) = (self.state.meta, self.size());
        // The second meta is the same one transaction younger, so that either opens the file.
        let older = Meta { txid: meta.txid.saturating_sub(1), ..meta };
        for (slot, meta) in [(0, meta), (1, older)] {
            let mut page = vec![0; self.page_size()];
            let bytes = meta.encode_at(slot);
            page[..bytes.len()].copy_from_slice(&bytes);
            to.write_all(&page)?;
        }
        let mut offset = 2 * self.page_size() as u64;
        let mut buffer = vec![0; COPY_BYTES];
        while offset < size {
            let len = usize::try_from(size - offset).unwrap_or(usize::MAX).min(COPY_BYTES);
            // By reading, not through the map: pages that are free may be written meanwhile.
            self.state.file.read_exact_at(&mut buffer[..len], offset)?;
            to.write_all(&buffer[..len])?;
            offset += len as u64;
        }
        Ok(size)
    }
}
