//! Ranges: which keys, in which order, how many.
//!
//! A range is answered in two steps. *Selecting* asks the index alone: it finds revisions, filters them, and sorts them unless they are to be sorted
//! by value. *Loading* looks the values up in the backend and frames them. Keys-only and count-only ranges do not load anything.
//!
//! The order of things is etcd's, because it shows in the answer: the limit bounds what is looked for only where the order is that of
//! the keys and nothing is filtered; otherwise everything is filtered, sorted, and then cut.

use std::ops::ControlFlow;

use backend::schema::{Bucket, revision};
use backend::{Read, ReadError};
use proto::etcdserverpb::RangeRequest;
use proto::etcdserverpb::range_request::{SortOrder, SortTarget};
use types::Revision;

use crate::error::{Error, Fault};
use crate::index::{Found, Index, Keys};
use crate::kv::KeyValueRef;
use crate::response::{Kvs, RangeResult};

/// `RangeResponse.kvs`.
const KVS: u8 = 2;

/// What a range asks for, with what follows from the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query<'a> {
    request: &'a RangeRequest,
    /// At which revision, from what is readable.
    at: i64,
    /// The revision of the store.
    current: i64,
    /// Most keys to look for.
    limit: usize,
    order: SortOrder,
    target: SortTarget,
}

/// Keys that were selected.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    picks: Vec<Pick>,
    /// The keys themselves, if only they are asked for.
    keys: Vec<u8>,
    count: i64,
}

#[derive(Clone, Copy, Debug)]
struct Pick {
    found: Found,
    /// Where the key ends in `Selection::keys`.
    key_end: usize,
}

impl<'a> Query<'a> {
    /// An error if the revision is not there to be read.
    pub(crate) fn new(
        request: &'a RangeRequest,
        current: i64,
        compacted: i64,
    ) -> Result<Query<'a>, Error> {
        if request.revision > current {
            return Err(Error::FutureRevision);
        }
        let at = if request.revision <= 0 { current } else { request.revision };
        if at < compacted {
            return Err(Error::Compacted);
        }
        let (order, target) = (request.sort_order(), request.sort_target());
        let mut query = Query { request, at, current, limit: usize::MAX, order, target };
        if is_default_order(request) && !has_filters(request) {
            query.limit =
                bounded(request.limit).map_or(usize::MAX, |limit| limit.saturating_add(1));
        }
        if target != SortTarget::Key && order == SortOrder::None {
            // Compat: as in etcd, sorted by the target after all, but only what the limit let through.
            query.order = SortOrder::Ascend;
        }
        Ok(query)
    }

    /// Whether it is about one key alone.
    pub(crate) fn is_of_one_key(&self) -> bool {
        self.request.range_end.is_empty()
    }

    /// Keys are answered from the index, without a lease, unless their values have to be seen in order to sort them.
    fn keys_only(&self) -> bool {
        self.request.keys_only && self.target != SortTarget::Value
    }

    pub(crate) fn select(&self, index: &Index) -> Selection {
        let keys = Keys::new(&self.request.key, &self.request.range_end);
        if self.request.count_only {
            let count = signed(index.count(keys, self.at));
            return Selection { count, ..Selection::default() };
        }
        let mut selection = Selection::default();
        let mut seen = 0;
        let ended = index.visit(keys, self.at, |key, found| {
            seen += 1;
            if self.lets_through(found) {
                if self.keys_only() {
                    selection.keys.extend_from_slice(key);
                }
                selection.picks.push(Pick { found, key_end: selection.keys.len() });
            }
            if seen < self.limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        selection.count = match ended {
            ControlFlow::Continue(()) => signed(seen as u64),
            ControlFlow::Break(()) => signed(index.count(keys, self.at)),
        };
        selection
    }

    fn lets_through(&self, found: Found) -> bool {
        let RangeRequest { min_mod_revision, max_mod_revision, .. } = *self.request;
        let RangeRequest { min_create_revision, max_create_revision, .. } = *self.request;
        let within = |revision: i64, min: i64, max: i64| {
            (min == 0 || revision >= min) && (max == 0 || revision <= max)
        };
        within(found.modified.main, min_mod_revision, max_mod_revision)
            && within(found.created, min_create_revision, max_create_revision)
    }

    /// Sorts, cuts and loads what was selected.
    pub(crate) fn load(
        &self,
        selection: Selection,
        values: &impl Read,
    ) -> Result<RangeResult, Fault> {
        let Selection { picks, keys, count } = selection;
        let mut order: Vec<usize> = (0..picks.len()).collect();
        self.sort(&mut order, &picks, values)?;
        let limit = bounded(self.request.limit).unwrap_or(usize::MAX);
        let more = order.len() > limit;
        order.truncate(limit);
        let mut kvs = Kvs::new(KVS);
        for at in order {
            if self.keys_only() {
                let start = if at == 0 { 0 } else { picks[at - 1].key_end };
                push_key(&keys[start..picks[at].key_end], picks[at].found, &mut kvs);
            } else {
                self.push_stored(picks[at].found.modified, values, &mut kvs)?;
            }
        }
        Ok(RangeResult { revision: self.current, kvs, more, count })
    }

    /// Keys that are equal in what is sorted by stay in the order of the keys.
    fn sort(&self, order: &mut [usize], picks: &[Pick], values: &impl Read) -> Result<(), Fault> {
        let descend = self.order == SortOrder::Descend;
        match self.target {
            SortTarget::Key if descend => order.reverse(),
            SortTarget::Key => {}
            SortTarget::Version => sort_by(order, descend, |at| picks[at].found.version),
            SortTarget::Create => sort_by(order, descend, |at| picks[at].found.created),
            SortTarget::Mod => sort_by(order, descend, |at| picks[at].found.modified.main),
            SortTarget::Value => {
                let loaded: Vec<_> = picks
                    .iter()
                    .map(|pick| stored(pick.found.modified, values))
                    .collect::<Result<_, Fault>>()?;
                let values = picks.iter().zip(&loaded);
                let values: Vec<_> = values
                    .map(|(pick, kv)| Ok(parsed(pick.found.modified, kv)?.value))
                    .collect::<Result<_, Fault>>()?;
                sort_by(order, descend, |at| values[at]);
            }
        }
        Ok(())
    }

    fn push_stored(
        &self,
        revision: Revision,
        values: &impl Read,
        kvs: &mut Kvs,
    ) -> Result<(), Fault> {
        let stored = stored(revision, values)?;
        if self.request.keys_only {
            kvs.push(&KeyValueRef { value: &[], ..parsed(revision, &stored)? }.encode());
        } else {
            kvs.push(&stored);
        }
        Ok(())
    }
}

/// What is stored under a revision that the index has.
pub(crate) fn stored<R: Read>(revision: Revision, values: &R) -> Result<backend::Value<'_>, Fault> {
    let found = values.get(Bucket::Key, &revision::encode(revision))?;
    found.ok_or(Fault::Missing(revision))
}

fn push_key(key: &[u8], found: Found, kvs: &mut Kvs) {
    let Found { modified, created: create_revision, version } = found;
    let mod_revision = modified.main;
    let kv = KeyValueRef { key, create_revision, mod_revision, version, ..KeyValueRef::default() };
    kvs.push(&kv.encode());
}

/// The fields of what is stored under a revision. What cannot be read must not pass for an empty value: other members can read theirs.
pub(crate) fn parsed(revision: Revision, stored: &[u8]) -> Result<KeyValueRef<'_>, Fault> {
    let key = revision::encode(revision);
    let wrong = || ReadError::malformed(Bucket::Key, &key, "not a KeyValue");
    Ok(KeyValueRef::parse(stored).ok_or_else(wrong)?)
}

fn sort_by<T: Ord>(order: &mut [usize], descend: bool, by: impl Fn(usize) -> T) {
    match descend {
        false => order.sort_by_key(|at| by(*at)),
        true => order.sort_by_key(|at| std::cmp::Reverse(by(*at))),
    }
}

/// Whether the answer is in the order of the keys.
pub(crate) fn is_default_order(request: &RangeRequest) -> bool {
    let (order, target) = (request.sort_order(), request.sort_target());
    order == SortOrder::None || (target == SortTarget::Key && order == SortOrder::Ascend)
}

/// Whether keys are left out because of their revisions.
pub(crate) fn has_filters(request: &RangeRequest) -> bool {
    let RangeRequest { min_mod_revision, max_mod_revision, .. } = *request;
    let RangeRequest { min_create_revision, max_create_revision, .. } = *request;
    [min_mod_revision, max_mod_revision, min_create_revision, max_create_revision] != [0; 4]
}

/// A limit; none if it is not positive.
fn bounded(limit: i64) -> Option<usize> {
    usize::try_from(limit).ok().filter(|limit| *limit > 0)
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).expect("counted in memory")
}
