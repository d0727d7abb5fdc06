//! Responses to ranges that serializable reads may be answered with.
//!
//! ```text
//!   entries    [a, c) limit 10  ─► response    age 7
//!              a                ─► response    age 9
//!   points     a ─► { a }                                invalidated by a put of a
//!   ranges     { [a, c) limit 10 }                       and so is this one
//! ```
//!
//! A linearizable response may answer later serializable requests, whose client accepts an old
//! revision. A write through this proxy removes the entries that it touches. A write elsewhere does
//! not: serializable reads through a proxy are as old as the entry, as in etcd.
//!
//! A read takes the [epoch](CacheEpoch) before it is sent, and its response is kept only in that
//! epoch. Another one begins when responses of reads in flight must not be kept: they may show the
//! state before a write whose result is unknown, or what clients may no longer read.
//!
//! The cache holds [`ENTRIES_MAX`] responses, as etcd's, and at most [`BYTES_MAX`] bytes; the entry
//! that was not used for the longest time is evicted.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use prost::Message as _;
use proto::etcdserverpb::{RangeRequest, RangeResponse};

use crate::namespace::NO_END;

/// The most entries. As in etcd.
pub(crate) const ENTRIES_MAX: usize = 2048;
/// The most bytes of all requests and responses.
const BYTES_MAX: usize = 256 << 20;
/// The largest response that is kept.
const ENTRY_BYTES_MAX: usize = 8 << 20;

/// A cache of ranges.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    state: Mutex<CacheState>,
}

/// A time in which the responses of reads may be kept that were sent in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CacheEpoch(u64);

/// The result of a lookup.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Lookup {
    Hit(Arc<RangeResponse>),
    Miss,
    /// The revision was compacted.
    Compacted,
}

#[derive(Debug, Default)]
struct CacheState {
    entries: HashMap<Bytes, Entry>,
    /// Keys of entries by the time of their last use.
    ages: BTreeMap<u64, Bytes>,
    /// Keys of entries about the current revision of a single key, by that key.
    points: BTreeMap<Bytes, BTreeSet<Bytes>>,
    /// Keys of entries about the current revision of a range.
    ranges: BTreeSet<Bytes>,
    bytes: usize,
    clock: u64,
    compacted: i64,
    /// The newest revision that a write through this proxy has made.
    written: i64,
    epoch: CacheEpoch,
}

#[derive(Debug)]
struct Entry {
    request: RangeRequest,
    response: Arc<RangeResponse>,
    age: u64,
    bytes: usize,
}

impl Cache {
    /// Looks up the response to a serializable request.
    pub(crate) fn get(&self, request: &RangeRequest) -> Lookup {
        let key = key(request);
        let mut state = self.state.lock();
        if request.revision > 0 && request.revision < state.compacted {
            state.remove(&key);
            return Lookup::Compacted;
        }
        state.touch(&key).map_or(Lookup::Miss, Lookup::Hit)
    }

    /// Returns the epoch, for a read that is about to be sent.
    pub(crate) fn epoch(&self) -> CacheEpoch {
        self.state.lock().epoch
    }

    /// Begins another epoch: the responses of reads in flight are not kept.
    pub(crate) fn begin_epoch(&self) {
        self.state.lock().epoch.0 += 1;
    }

    /// Keeps the response to a read that was sent in an epoch, if that is still the current one.
    pub(crate) fn add(
        &self,
        request: &RangeRequest,
        response: &Arc<RangeResponse>,
        sent_in: CacheEpoch,
    ) {
        let mut request = request.clone();
        request.serializable = true;
        let key = key(&request);
        let bytes = key.len() + response.encoded_len();
        let mut state = self.state.lock();
        let revision = response.header.as_ref().map_or(0, |header| header.revision);
        let is_stale = request.revision == 0 && revision < state.written;
        let is_compacted = request.revision != 0 && request.revision <= state.compacted;
        let is_late = sent_in != state.epoch;
        if is_stale || is_compacted || is_late || bytes > ENTRY_BYTES_MAX {
            return;
        }
        state.remove(&key);
        state.insert(key, request, Arc::clone(response), bytes);
        while state.entries.len() > ENTRIES_MAX || state.bytes > BYTES_MAX {
            state.evict_oldest();
        }
    }

    /// Removes entries about the current revision of a key or range. `written` is the revision of
    /// the write, if it is known.
    pub(crate) fn invalidate(&self, key: &Bytes, range_end: &Bytes, written: Option<i64>) {
        let mut state = self.state.lock();
        state.written = state.written.max(written.unwrap_or_default());
        for entry in state.touched_by(key, range_end) {
            state.remove(&entry);
        }
    }

    /// Removes all entries, and begins another epoch.
    pub(crate) fn clear(&self) {
        let mut state = self.state.lock();
        let (compacted, written) = (state.compacted, state.written);
        let epoch = CacheEpoch(state.epoch.0 + 1);
        *state = CacheState { compacted, written, epoch, ..CacheState::default() };
    }

    /// Refuses revisions before this one from now on.
    pub(crate) fn compact(&self, revision: i64) {
        let mut state = self.state.lock();
        state.compacted = state.compacted.max(revision);
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().entries.len()
    }
}

impl CacheState {
    fn touch(&mut self, key: &Bytes) -> Option<Arc<RangeResponse>> {
        self.clock += 1;
        let (clock, entry) = (self.clock, self.entries.get_mut(key)?);
        self.ages.remove(&entry.age);
        self.ages.insert(clock, key.clone());
        entry.age = clock;
        Some(Arc::clone(&entry.response))
    }

    fn insert(
        &mut self,
        key: Bytes,
        request: RangeRequest,
        response: Arc<RangeResponse>,
        bytes: usize,
    ) {
        self.clock += 1;
        let age = self.clock;
        // A response at a given revision never changes.
        if request.revision == 0 {
            match request.range_end.is_empty() {
                true => {
                    self.points.entry(request.key.clone()).or_default().insert(key.clone());
                }
                false => {
                    self.ranges.insert(key.clone());
                }
            }
        }
        self.ages.insert(age, key.clone());
        self.bytes += bytes;
        self.entries.insert(key, Entry { request, response, age, bytes });
    }

    fn remove(&mut self, key: &Bytes) {
        let Some(entry) = self.entries.remove(key) else { return };
        self.ages.remove(&entry.age);
        self.bytes -= entry.bytes;
        self.ranges.remove(key);
        if let Some(keys) = self.points.get_mut(&entry.request.key) {
            keys.remove(key);
            if keys.is_empty() {
                self.points.remove(&entry.request.key);
            }
        }
    }

    fn evict_oldest(&mut self) {
        if let Some(oldest) = self.ages.values().next().cloned() {
            self.remove(&oldest);
        }
    }

    /// Returns the keys of the entries that overlap a key or range.
    fn touched_by(&self, key: &Bytes, end: &Bytes) -> Vec<Bytes> {
        let points = self.points.range(key.clone()..).take_while(|(point, _)| match &end[..] {
            b"" => *point == key,
            NO_END => true,
            end => &point[..] < end,
        });
        let points = points.flat_map(|(_, keys)| keys).cloned();
        let ranges = self.ranges.iter().filter(|entry| {
            self.entries.get(*entry).is_some_and(|entry| overlaps(&entry.request, key, end))
        });
        points.chain(ranges.cloned()).collect()
    }
}

/// Returns whether a request for a range overlaps a key or range.
fn overlaps(request: &RangeRequest, key: &Bytes, end: &Bytes) -> bool {
    let begins_before_end = match &end[..] {
        b"" => request.key <= *key,
        NO_END => true,
        end => &request.key[..] < end,
    };
    let ends_after_key = &request.range_end[..] == NO_END || request.range_end > *key;
    begins_before_end && ends_after_key
}

fn key(request: &RangeRequest) -> Bytes {
    request.encode_to_vec().into()
}

#[cfg(test)]
mod tests;
