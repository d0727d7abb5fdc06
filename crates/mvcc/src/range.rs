//! Ranges: which keys, in which order, how many.
//!
//! A range is answered in two steps. *Selecting* asks the index alone: it finds revisions, filters them, and sorts them unless they are to be sorted
//! by value. *Loading* looks the values up in the backend and frames them. KeySelector-only and count-only ranges do not load anything.
//!
//! The order of things is etcd's, because it shows in the answer: the limit bounds what is looked for only where the order is that of
//! the keys and nothing is filtered; otherwise everything is filtered, sorted, and then cut.

use std::ops::ControlFlow;

use backend::Read;
use proto::etcdserverpb::RangeRequest;
use proto::etcdserverpb::range_request::{SortOrder, SortTarget};

use crate::error::{Error, Fault};
use crate::index::{KeyMeta, KeySelector, TreeIndex};
use crate::kv::KeyValueRef;
use crate::response::{Kvs, RangeResult};
use crate::value_reader::{ValueReader, parse_stored};

/// `RangeResponse.kvs`.
const KVS: u8 = 2;

/// What a key without a value takes beside its bytes, roughly: two lengths and three numbers.
const KEY_FRAME_BYTES: usize = 24;

/// Most keys that are looked up before they are copied.
const LOOKUP_BATCH_MAX: usize = 512;

/// What a range asks for, with what follows from the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RangeQuery<'a> {
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

/// KeySelector that were selected.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    selected: Vec<Selected>,
    /// The keys themselves, if only they are asked for.
    keys: Vec<u8>,
    count: i64,
}

#[derive(Clone, Copy, Debug)]
struct Selected {
    found: KeyMeta,
    /// Where the key begins and ends in `Selection::keys`.
    key: (usize, usize),
}

impl<'a> RangeQuery<'a> {
    /// An error if the revision is not there to be read.
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
            // Compat: as in etcd, sorted by the target after all, but only what the limit let through.
            query.order = SortOrder::Ascend;
        }
        Ok(query)
    }

    /// Whether it is about one key alone.
    pub(crate) fn is_of_one_key(&self) -> bool {
        self.request.range_end.is_empty()
    }

    /// KeySelector are answered from the index, without a lease, unless their values have to be seen in order to sort them.
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

    /// Sorts, cuts and loads what was selected.
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

    /// KeySelector that are equal in what is sorted by stay in the order of the keys.
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

/// What is stored of keys. Some are looked up, then room is made for them and they are copied.
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
    for some in selected.chunks(LOOKUP_BATCH_MAX) {
        found.clear();
        for one in some {
            found.push(values.stored(one.found.modified)?);
        }
        kvs.extend(&found);
    }
    Ok(kvs)
}

/// What is stored of keys, and is no value.
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

/// What the index knows of keys.
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
fn positive_limit(limit: i64) -> Option<usize> {
    usize::try_from(limit).ok().filter(|limit| *limit > 0)
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).expect("counted in memory")
}
