//! A write transaction: its changes, as a tree over the pages of the state it started from.
//!
//! ```text
//!   WriteTx ── root bucket ──► node ─┬─► page 17            unchanged: still on its page
//!                 │                  ├─► node ─► entries    changed: decoded
//!                 │                  └─► page 40
//!                 └─ open ─ "key" ──► node ...               nested buckets, opened for changes
//! ```
//!
//! Nothing is written, allocated or freed before [`WriteTx::commit`]; dropping the transaction
//! rolls it back. A commit proceeds from the innermost bucket outward: it merges nodes that became
//! small ([`rebalance`]), cuts every changed node into pages and assigns these to free locations
//! ([`spill`]), and stores the new root in the meta page.

mod bucket;
mod commit;
mod edit;
mod rebalance;
mod spill;

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};

pub use bucket::{BucketMut, KEY_MAX, NESTING_MAX, VALUE_MAX};
pub use commit::CommitPhases;

use crate::bucket::Bucket;
use crate::db::{Db, WriterState};
use crate::error::{CorruptPage, Error};
use crate::freelist::Run;
use crate::node::{Arena, Child, Elements, Node, NodeBytes};
use crate::page::PageId;
use crate::state::CommittedState;
use crate::tree::Tree;

/// Default fill fraction of a page before the next one is started. As in bbolt, it leaves room for
/// later insertions.
pub const FILL_PERCENT_DEFAULT: f64 = 0.5;
const FILL_PERCENT_MIN: f64 = 0.1;
const FILL_PERCENT_MAX: f64 = 1.0;

/// A write transaction. There is one at a time; readers continue and do not see its changes.
#[derive(Debug)]
pub struct WriteTx<'db> {
    db: &'db Db,
    writer: MutexGuard<'db, WriterState>,
    work: TxWork,
    root: OpenBucket,
}

impl<'db> WriteTx<'db> {
    pub(crate) fn new(
        db: &'db Db,
        mut writer: MutexGuard<'db, WriterState>,
        state: Arc<CommittedState>,
    ) -> WriteTx<'db> {
        let root = OpenBucket::new(Child::Page(state.meta.root), state.meta.sequence);
        let arena = std::mem::take(&mut writer.arena);
        WriteTx { db, writer, work: TxWork { state, arena, freed: Vec::new() }, root }
    }

    /// The root bucket. It contains the top-level buckets and should contain nothing else.
    pub fn root(&mut self) -> BucketMut<'_> {
        BucketMut::root(&mut self.work, &mut self.root)
    }

    /// Opens a top-level bucket.
    pub fn bucket(&mut self, name: &[u8]) -> Result<BucketMut<'_>, Error> {
        self.root().into_bucket(name)
    }

    /// Opens a top-level bucket, creating it if it is missing.
    pub fn create_bucket_if_missing(&mut self, name: &[u8]) -> Result<BucketMut<'_>, Error> {
        self.root().into_bucket_if_missing(name)
    }

    /// Returns a read-only view of the root bucket with the changes made so far.
    pub fn read(&self) -> Bucket<'_> {
        self.root.read(&self.work.state, Some(self.work.bytes()))
    }

    /// The number that this transaction will have once committed.
    pub fn txid(&self) -> u64 {
        self.work.state.meta.txid + 1
    }
}

/// CommittedState shared by all buckets of a transaction.
#[derive(Debug)]
pub(crate) struct TxWork {
    /// The state that the transaction started from.
    pub(crate) state: Arc<CommittedState>,
    pub(crate) arena: Arena,
    /// Pages of the old state that the new one does not need.
    pub(crate) freed: Vec<Run>,
}

impl TxWork {
    pub(crate) fn bytes(&self) -> NodeBytes<'_> {
        NodeBytes { map: &self.state.map, arena: &self.arena }
    }

    /// Decodes a page into a node.
    fn load(&self, id: PageId) -> Result<Node, CorruptPage> {
        let page = self.state.page(id)?;
        let base = id * self.state.meta.page_size as u64;
        let mut node = Node::read(&page, base).map_err(|reason| self.state.corrupt(id, reason))?;
        node.source = Some((id, (page.bytes().len() / self.state.meta.page_size) as u64));
        Ok(node)
    }

    /// Returns the top node of a subtree, decoding its page if necessary.
    fn open<'n>(&self, child: &'n mut Child) -> Result<&'n mut Node, CorruptPage> {
        if let Child::Page(id) = *child {
            *child = Child::Node(Box::new(self.load(id)?));
        }
        match child {
            Child::Node(node) => Ok(node),
            Child::Page(_) => unreachable!("just replaced by a node"),
        }
    }
}

/// A bucket that the transaction opened for changes.
#[derive(Debug)]
pub(crate) struct OpenBucket {
    root: Child,
    sequence: u64,
    /// The bucket's element in its parent must be rewritten.
    changed: bool,
    fill_percent: f64,
    open: BTreeMap<Box<[u8]>, OpenBucket>,
}

impl OpenBucket {
    fn new(root: Child, sequence: u64) -> OpenBucket {
        let fill_percent = FILL_PERCENT_DEFAULT;
        OpenBucket { root, sequence, changed: false, fill_percent, open: BTreeMap::new() }
    }

    /// A new, empty bucket that is not in the file yet.
    fn empty() -> OpenBucket {
        let root = Child::Node(Box::new(Node::new(Elements::Leaf(Vec::new()))));
        OpenBucket { changed: true, ..OpenBucket::new(root, 0) }
    }

    pub(crate) fn read<'a>(
        &'a self,
        state: &'a CommittedState,
        bytes: Option<NodeBytes<'a>>,
    ) -> Bucket<'a> {
        let tree = Tree { state, bytes, root: self.root.subtree() };
        Bucket { tree, sequence: self.sequence, open: Some(&self.open) }
    }
}
