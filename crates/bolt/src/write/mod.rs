//! A write transaction: what has been changed, as a tree over the pages of the state it started from.
//!
//! ```text
//!   WriteTx ── root bucket ──► node ─┬─► page 17            untouched: still on its page
//!                 │                  ├─► node ─► entries    changed: taken apart, bytes in the arena or the map
//!                 │                  └─► page 40
//!                 └─ open ─ "key" ──► node ...               buckets inside, opened to be changed
//! ```
//!
//! Nothing is written, allocated or given up before [`WriteTx::commit`]; dropping the transaction undoes it. A commit goes from
//! the innermost bucket outward: nodes that became small are merged ([`rebalance`]), every changed node is split into pages and these are
//! assigned to free places ([`spill`]), and the root's new place goes into the meta page.

mod bucket;
mod commit;
mod edit;
mod rebalance;
mod spill;

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};

pub use bucket::{BucketMut, KEY_MAX, NESTING_MAX, VALUE_MAX};

use crate::bucket::Bucket;
use crate::db::{Db, Writer};
use crate::error::{Damaged, Error};
use crate::freelist::Run;
use crate::node::{Arena, Bytes, Child, Elements, Node};
use crate::page::PageId;
use crate::state::State;
use crate::tree::Tree;

/// A share of a page that is filled before the next is begun, unless a bucket is told otherwise. As in bbolt, room is left for what
/// comes between.
pub const FILL_PERCENT_DEFAULT: f64 = 0.5;
const FILL_PERCENT_MIN: f64 = 0.1;
const FILL_PERCENT_MAX: f64 = 1.0;

/// A transaction that changes the file. There is one at a time; readers go on meanwhile and do not see it.
#[derive(Debug)]
pub struct WriteTx<'db> {
    db: &'db Db,
    writer: MutexGuard<'db, Writer>,
    work: Work,
    root: OpenBucket,
}

impl<'db> WriteTx<'db> {
    pub(crate) fn new(
        db: &'db Db,
        mut writer: MutexGuard<'db, Writer>,
        state: Arc<State>,
    ) -> WriteTx<'db> {
        let root = OpenBucket::new(Child::Page(state.meta.root), state.meta.sequence);
        let arena = std::mem::take(&mut writer.arena);
        WriteTx { db, writer, work: Work { state, arena, freed: Vec::new() }, root }
    }

    /// The root bucket, to change: it holds the top-level buckets, and should hold nothing else.
    pub fn root(&mut self) -> BucketMut<'_> {
        BucketMut::root(&mut self.work, &mut self.root)
    }

    /// A top-level bucket, to change.
    pub fn bucket(&mut self, name: &[u8]) -> Result<BucketMut<'_>, Error> {
        self.root().into_bucket(name)
    }

    /// A top-level bucket, to change, made if it is missing.
    pub fn create_bucket_if_missing(&mut self, name: &[u8]) -> Result<BucketMut<'_>, Error> {
        self.root().into_bucket_if_missing(name)
    }

    /// The root bucket as this transaction has left it so far.
    pub fn read(&self) -> Bucket<'_> {
        self.root.read(&self.work.state, Some(self.work.bytes()))
    }

    /// The number this transaction has once it is committed.
    pub fn txid(&self) -> u64 {
        self.work.state.meta.txid + 1
    }
}

/// What all buckets of a transaction share.
#[derive(Debug)]
pub(crate) struct Work {
    /// What it started from.
    pub(crate) state: Arc<State>,
    pub(crate) arena: Arena,
    /// Pages of the old state that the new one does not need.
    pub(crate) freed: Vec<Run>,
}

impl Work {
    pub(crate) fn bytes(&self) -> Bytes<'_> {
        Bytes { map: &self.state.map, arena: &self.arena }
    }

    /// A page, taken apart.
    fn load(&self, id: PageId) -> Result<Node, Damaged> {
        let page = self.state.page(id)?;
        let base = id * self.state.meta.page_size as u64;
        let mut node = Node::read(&page, base).map_err(|reason| self.state.damaged(id, reason))?;
        node.source = Some((id, (page.bytes().len() / self.state.meta.page_size) as u64));
        Ok(node)
    }

    /// A subtree's topmost node, taken from its page if it still is on one.
    fn open<'n>(&self, child: &'n mut Child) -> Result<&'n mut Node, Damaged> {
        if let Child::Page(id) = *child {
            *child = Child::Node(Box::new(self.load(id)?));
        }
        match child {
            Child::Node(node) => Ok(node),
            Child::Page(_) => unreachable!("was just replaced by a node"),
        }
    }
}

/// A bucket that the transaction has opened to change it.
#[derive(Debug)]
pub(crate) struct OpenBucket {
    root: Child,
    sequence: u64,
    /// Its element in the bucket around it must be written anew.
    changed: bool,
    fill_percent: f64,
    open: BTreeMap<Box<[u8]>, OpenBucket>,
}

impl OpenBucket {
    fn new(root: Child, sequence: u64) -> OpenBucket {
        let fill_percent = FILL_PERCENT_DEFAULT;
        OpenBucket { root, sequence, changed: false, fill_percent, open: BTreeMap::new() }
    }

    /// A bucket with nothing in it, that is not in the file yet.
    fn empty() -> OpenBucket {
        let root = Child::Node(Box::new(Node::new(Elements::Leaf(Vec::new()))));
        OpenBucket { changed: true, ..OpenBucket::new(root, 0) }
    }

    pub(crate) fn read<'a>(&'a self, state: &'a State, bytes: Option<Bytes<'a>>) -> Bucket<'a> {
        let tree = Tree { state, bytes, root: self.root.subtree() };
        Bucket { tree, sequence: self.sequence, open: Some(&self.open) }
    }
}
