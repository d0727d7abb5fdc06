//! Range requests: selection, order and limit.
//!
//! A range executes in two steps. *Selecting* uses the index alone: it finds revisions, filters
//! them, and sorts them unless the order is by value. *Loading* reads the values from the backend
//! and frames them. Keys-only and count-only ranges load nothing.
//!
//! Compat: the order of the steps is etcd's, because the response shows it. The limit bounds the
//! selection only if the order is that of the keys and no filter is set; otherwise the selection is
//! filtered, sorted, and then truncated.

use std::ops::ControlFlow;

use backend::Read;
use proto::etcdserverpb::RangeRequest;
use proto::etcdserverpb::range_request::{SortOrder, SortTarget};

use crate::error::{Error, Fault};
use crate::index::{KeyMeta, KeySelector, TreeIndex};
use crate::kv::KeyValueRef;
use crate::response::{Kvs, RangeResult};
use crate::value_reader::{ValueReader, parse_stored};

/// The field number of `RangeResponse.kvs`.
const KVS: u8 = 2;

/// The approximate size of a framed key without its bytes: two lengths and three varints.
const KEY_FRAME_BYTES: usize = 24;

/// The maximum number of values that are looked up before they are copied.
const LOOKUP_BATCH_MAX: usize = 512;

/// A range request with the values derived from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RangeQuery<'a> {
    request: &'a RangeRequest,
    /// The revision to read at.
    at: i64,
    /// The revision of the store.
    current: i64,
    /// The maximum number of keys to select.
    limit: usize,
    order: SortOrder,
    target: SortTarget,
}

/// The selected keys.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    selected: Vec<Selected>,
    /// The bytes of the keys, for a keys-only request.
    keys: Vec<u8>,
    count: i64,
}

#[derive(Clone, Copy, Debug)]
struct Selected {
    found: KeyMeta,
    /// The position of the key in `Selection::keys`.
    key: (usize, usize),
}

impl<'a> RangeQuery<'a> {
    /// Fails if the revision is compacted or in the future.
    pub(crate) fn new(
        request: &'a RangeRequest,
        current: i64,
        compacted: i64,
    ) -> Result<RangeQuery<'a>, Error> {
        if request.revision > current {
            return Err(Error::FutureRevision);
        }
        let at = if request.revision <= 0 { current } else { request.revision };
        if at < compacted {
            return Err(Error::Compacted);
        }
        let (order, target) = (request.sort_order(), request.sort_target());
        let mut query = RangeQuery { request, at, current, limit: usize::MAX, order, target };
        if is_default_order(request) && !has_filters(request) {
            query.limit =
                positive_limit(request.limit).map_or(usize::MAX, |limit| limit.saturating_add(1));
        }
        if target != SortTarget::Key && order == SortOrder::None {
            // Compat: as in etcd, a target without an order sorts ascending, but only the keys
            // within the limit.
            query.order = SortOrder::Ascend;
        }
        Ok(query)
    }

    /// Returns whether the request names a single key.
    pub(crate) fn is_of_one_key(&self) -> bool {
        self.request.range_end.is_empty()
    }

    /// Returns whether the response comes from the index alone, without leases. A sort by value
    /// needs the values.
    fn keys_only(&self) -> bool {
        self.request.keys_only && self.target != SortTarget::Value
    }

    pub(crate) fn select(&self, index: &TreeIndex) -> Selection {
        let keys = KeySelector::new(&self.request.key, &self.request.range_end);
        if self.request.count_only {
            let count = signed(index.count(keys, self.at));
            return Selection { count, ..Selection::default() };
        }
        let mut selection = Selection::default();
        let mut seen = 0;
        let ended = index.visit(keys, self.at, |key, found| {
            seen += 1;
            if self.passes_filters(found) {
                let start = selection.keys.len();
                if self.keys_only() {
                    selection.keys.extend_from_slice(key);
                }
                selection.selected.push(Selected { found, key: (start, selection.keys.len()) });
            }
            if seen < self.limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        selection.count = match ended {
            ControlFlow::Continue(()) => signed(seen as u64),
            ControlFlow::Break(()) => signed(index.count(keys, self.at)),
        };
        selection
    }

    fn passes_filters(&self, found: KeyMeta) -> bool {
        let RangeRequest { min_mod_revision, max_mod_revision, .. } = *self.request;
        let RangeRequest { min_create_revision, max_create_revision, .. } = *self.request;
        let within = |revision: i64, min: i64, max: i64| {
            (min == 0 || revision >= min) && (max == 0 || revision <= max)
        };
        within(found.modified.main, min_mod_revision, max_mod_revision)
            && within(found.created, min_create_revision, max_create_revision)
    }

    /// Sorts, truncates and loads a selection.
    pub(crate) fn load(
        &self,
        selection: Selection,
        values: &impl Read,
    ) -> Result<RangeResult, Fault> {
        let Selection { mut selected, keys, count } = selection;
        let mut values = ValueReader::new(values);
        self.sort(&mut selected, &mut values)?;
        let limit = positive_limit(self.request.limit).unwrap_or(usize::MAX);
        let more = selected.len() > limit;
        selected.truncate(limit);
        let kvs = match (self.keys_only(), self.request.keys_only) {
            (true, _) => load_keys_only(&selected, &keys),
            (_, true) => load_without_values(&selected, &mut values)?,
            _ => load_stored(&selected, &mut values)?,
        };
        Ok(RangeResult { revision: self.current, kvs, more, count })
    }

    /// Sorts a selection. The sort is stable: equal items stay in key order.
    fn sort(
        &self,
        selected: &mut Vec<Selected>,
        values: &mut ValueReader<'_, impl Read>,
    ) -> Result<(), Fault> {
        let descend = self.order == SortOrder::Descend;
        match self.target {
            SortTarget::Key if descend => selected.reverse(),
            SortTarget::Key => {}
            SortTarget::Version => sort_by(selected, descend, |one| one.found.version),
            SortTarget::Create => sort_by(selected, descend, |one| one.found.created),
            SortTarget::Mod => sort_by(selected, descend, |one| one.found.modified.main),
            SortTarget::Value => *selected = sorted_by_value(selected, descend, values)?,
        }
        Ok(())
    }
}

fn sorted_by_value(
    selected: &[Selected],
    descend: bool,
    values: &mut ValueReader<'_, impl Read>,
) -> Result<Vec<Selected>, Fault> {
    let revisions = selected.iter().map(|one| one.found.modified);
    let stored: Vec<_> = revisions.map(|at| values.stored(at)).collect::<Result<_, Fault>>()?;
    let mut sorted = Vec::with_capacity(selected.len());
    for (one, kv) in selected.iter().zip(&stored) {
        sorted.push((parse_stored(one.found.modified, kv)?.value, *one));
    }
    sort_by(&mut sorted, descend, |(value, _)| *value);
    Ok(sorted.into_iter().map(|(_, one)| one).collect())
}

/// Loads encoded `KeyValue`s: looks up a batch, reserves space for it, and copies it.
fn load_stored(
    selected: &[Selected],
    values: &mut ValueReader<'_, impl Read>,
) -> Result<Kvs, Fault> {
    let mut kvs = Kvs::new(KVS);
    if let [one] = selected {
        kvs.push(&values.stored(one.found.modified)?);
        return Ok(kvs);
    }
    let mut found = Vec::with_capacity(selected.len().min(LOOKUP_BATCH_MAX));
    for batch in selected.chunks(LOOKUP_BATCH_MAX) {
        found.clear();
        for one in batch {
            found.push(values.stored(one.found.modified)?);
        }
        kvs.extend(&found);
    }
    Ok(kvs)
}

/// Loads encoded `KeyValue`s without their values.
fn load_without_values(
    selected: &[Selected],
    values: &mut ValueReader<'_, impl Read>,
) -> Result<Kvs, Fault> {
    let mut kvs = Kvs::new(KVS);
    for Selected { found, .. } in selected {
        let stored = values.stored(found.modified)?;
        kvs.push_fields(&KeyValueRef { value: &[], ..parse_stored(found.modified, &stored)? });
    }
    Ok(kvs)
}

/// Builds `KeyValue`s from the index alone.
fn load_keys_only(selected: &[Selected], keys: &[u8]) -> Kvs {
    let mut kvs = Kvs::new(KVS);
    kvs.make_room(keys.len() + selected.len() * KEY_FRAME_BYTES);
    for Selected { found, key } in selected {
        let KeyMeta { modified, created: create_revision, version } = *found;
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

fn sort_by<T, K: Ord>(selected: &mut [T], descend: bool, by: impl Fn(&T) -> K) {
    match descend {
        false => selected.sort_by_key(by),
        true => selected.sort_by_key(|one| std::cmp::Reverse(by(one))),
    }
}

/// Returns whether the response is in key order.
pub fn is_default_order(request: &RangeRequest) -> bool {
    let (order, target) = (request.sort_order(), request.sort_target());
    order == SortOrder::None || (target == SortTarget::Key && order == SortOrder::Ascend)
}

/// Returns whether a filter on revisions is set.
pub fn has_filters(request: &RangeRequest) -> bool {
    let RangeRequest { min_mod_revision, max_mod_revision, .. } = *request;
    let RangeRequest { min_create_revision, max_create_revision, .. } = *request;
    [min_mod_revision, max_mod_revision, min_create_revision, max_create_revision] != [0; 4]
}

/// Returns a limit, or `None` if it is not positive.
fn positive_limit(limit: i64) -> Option<usize> {
    usize::try_from(limit).ok().filter(|limit| *limit > 0)
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).expect("a count in memory fits into an i64")
}
