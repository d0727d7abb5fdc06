//! An immutable view of a committed state.

use std::io::{self, Write};
use std::sync::Arc;

use crate::bucket::{Bucket, CommittedBucket};
use crate::error::CorruptPage;
use crate::meta::Meta;
use crate::state::CommittedState;
use crate::tree::{Subtree, Tree};

/// Copy buffer size, in bytes.
const COPY_BYTES: usize = 1 << 20;

/// An immutable view of the database at a commit. Cheap to clone and to keep, but its pages cannot
/// be reused while it lives.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) state: Arc<CommittedState>,
}

impl Snapshot {
    pub(crate) fn new(state: Arc<CommittedState>) -> Snapshot {
        Snapshot { state }
    }

    /// The root bucket, which contains the top-level buckets.
    pub fn root(&self) -> Bucket<'_> {
        let state = &*self.state;
        let tree = Tree { state, bytes: None, root: Subtree::Page(state.meta.root) };
        Bucket { tree, sequence: state.meta.sequence, open: None }
    }

    pub(crate) fn committed_root(&self) -> CommittedBucket<'_> {
        CommittedBucket::root_of(&self.state)
    }

    /// Returns a top-level bucket.
    pub fn bucket(&self, name: &[u8]) -> Result<Option<Bucket<'_>>, CorruptPage> {
        self.root().bucket(name)
    }

    /// The transaction that committed this state.
    pub fn txid(&self) -> u64 {
        self.state.meta.txid
    }

    /// Page size, in bytes.
    pub fn page_size(&self) -> usize {
        self.state.meta.page_size
    }

    /// Bytes of all pages below the high water mark: the size that etcd reports. The file may be
    /// longer.
    pub fn size(&self) -> u64 {
        self.state.meta.high_water * self.page_size() as u64
    }

    /// Bytes of the pages in use. In a read-only database, equal to [`Snapshot::size`].
    pub fn size_in_use(&self) -> u64 {
        self.size() - self.state.free_pages * self.page_size() as u64
    }

    /// Writes the state as a complete database file while other transactions continue: both meta
    /// pages, then every page as it is. Returns the number of bytes, always [`Snapshot::size`].
    pub fn write_to(&self, to: &mut dyn Write) -> io::Result<u64> {
        let (meta, size) = (self.state.meta, self.size());
        // The second meta page has a txid that is one lower, so that either one opens the file.
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
            // Reads instead of using the map: free pages may be overwritten concurrently.
            self.state.file.read_exact_at(&mut buffer[..len], offset)?;
            to.write_all(&buffer[..len])?;
            offset += len as u64;
        }
        Ok(size)
    }
}
