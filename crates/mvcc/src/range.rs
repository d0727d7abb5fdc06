//! Ranges: which keys, in which order, how many.
//!
//! A range is answered in two steps. *Selecting* asks the index alone: it finds revisions, filters them, and sorts them unless they are to be sorted
//! by value. *Loading* looks the values up in the backend and frames them. Keys-only and count-only ranges do not load anything.
//!
//! The order of things is etcd's, because it shows in the answer: the limit bounds what is looked for only where the order is that of
//! the keys and nothing is filtered; otherwise everything is filtered, sorted, and then cut.

use std::ops::ControlFlow;

use backend::Read;
use proto::etcdserverpb::RangeRequest;
use proto::etcdserverpb::range_request::{SortOrder, SortTarget};

use crate::error::{Error, Fault};
use crate::index::{Found, Index, Keys};
use crate::kv::KeyValueRef;
use crate::response::{Kvs, RangeResult};
use crate::values::{Values, parsed};

/// `RangeResponse.kvs`.
const KVS: u8 = 2;

/// What a key without a value takes beside its bytes, roughly: two lengths and three numbers.
const KEY_FRAME_BYTES: usize = 24;

/// Most keys that are looked up before they are copied.
const LOOKED_UP_MAX: usize = 512;

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
    /// Where the key begins and ends in `Selection::keys`.
    key: (usize, usize),
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
                let start = selection.keys.len();
                if self.keys_only() {
                    selection.keys.extend_from_slice(key);
                }
                selection.picks.push(Pick { found, key: (start, selection.keys.len()) });
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
        let Selection { mut picks, keys, count } = selection;
        let mut values = Values::new(values);
        self.sort(&mut picks, &mut values)?;
        let limit = bounded(self.request.limit).unwrap_or(usize::MAX);
        let more = picks.len() > limit;
        picks.truncate(limit);
        let kvs = match (self.keys_only(), self.request.keys_only) {
            (true, _) => keys_of(&picks, &keys),
            (_, true) => without_values(&picks, &mut values)?,
            _ => stored_of(&picks, &mut values)?,
        };
        Ok(RangeResult { revision: self.current, kvs, more, count })
    }

    /// Keys that are equal in what is sorted by stay in the order of the keys.
    fn sort(&self, picks: &mut Vec<Pick>, values: &mut Values<'_, impl Read>) -> Result<(), Fault> {
        let descend = self.order == SortOrder::Descend;
        match self.target {
            SortTarget::Key if descend => picks.reverse(),
            SortTarget::Key => {}
            SortTarget::Version => sort_by(picks, descend, |pick| pick.found.version),
            SortTarget::Create => sort_by(picks, descend, |pick| pick.found.created),
            SortTarget::Mod => sort_by(picks, descend, |pick| pick.found.modified.main),
            SortTarget::Value => *picks = sorted_by_value(picks, descend, values)?,
        }
        Ok(())
    }
}

fn sorted_by_value(
    picks: &[Pick],
    descend: bool,
    values: &mut Values<'_, impl Read>,
) -> Result<Vec<Pick>, Fault> {
    let revisions = picks.iter().map(|pick| pick.found.modified);
    let stored: Vec<_> = revisions.map(|at| values.stored(at)).collect::<Result<_, Fault>>()?;
    let mut sorted = Vec::with_capacity(picks.len());
    for (pick, kv) in picks.iter().zip(&stored) {
        sorted.push((parsed(pick.found.modified, kv)?.value, *pick));
    }
    sort_by(&mut sorted, descend, |(value, _)| *value);
    Ok(sorted.into_iter().map(|(_, pick)| pick).collect())
}

/// What is stored of keys. Some are looked up, then room is made for them and they are copied.
fn stored_of(picks: &[Pick], values: &mut Values<'_, impl Read>) -> Result<Kvs, Fault> {
    let mut kvs = Kvs::new(KVS);
    if let [pick] = picks {
        kvs.push(&values.stored(pick.found.modified)?);
        return Ok(kvs);
    }
    let mut found = Vec::with_capacity(picks.len().min(LOOKED_UP_MAX));
    for some in picks.chunks(LOOKED_UP_MAX) {
        found.clear();
        for pick in some {
            found.push(values.stored(pick.found.modified)?);
        }
        kvs.extend(&found);
    }
    Ok(kvs)
}

/// What is stored of keys, and is no value.
fn without_values(picks: &[Pick], values: &mut Values<'_, impl Read>) -> Result<Kvs, Fault> {
    let mut kvs = Kvs::new(KVS);
    for Pick { found, .. } in picks {
        let stored = values.stored(found.modified)?;
        kvs.push_fields(&KeyValueRef { value: &[], ..parsed(found.modified, &stored)? });
    }
    Ok(kvs)
}

/// What the index knows of keys.
fn keys_of(picks: &[Pick], keys: &[u8]) -> Kvs {
    let mut kvs = Kvs::new(KVS);
    kvs.make_room(keys.len() + picks.len() * KEY_FRAME_BYTES);
    for Pick { found, key } in picks {
        let Found { modified, created: create_revision, version } = *found;
        kvs.push_fields(&KeyValueRef {
            key: &keys[key.0..key.1],
            create_revision,
            mod_revision: modified.main,
            version,
            ..KeyValueRef::default()
        });
    }
    kvs
}

fn sort_by<T, K: Ord>(picks: &mut [T], descend: bool, by: impl Fn(&T) -> K) {
    match descend {
        false => picks.sort_by_key(by),
        true => picks.sort_by_key(|pick| std::cmp::Reverse(by(pick))),
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
