//! The keys that are attached to leases.
//!
//! ```text
//!   lease_of   foo → 7, bar → 7, zoo → 9             looked up by every put and delete
//!   keys       (7, bar) (7, foo) (9, zoo)            read when a lease is revoked or queried
//! ```
//!
//! Both hold the same pairs. They share the bytes of a key. One sorted set for all leases takes
//! less memory than a set for each: most leases have one key or none.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use types::LeaseId;

pub(crate) type Key = Arc<[u8]>;

/// Leases by key.
#[expect(
    clippy::disallowed_types,
    reason = "looked up by every put and delete, and never iterated"
)]
type LeaseOf = std::collections::HashMap<Key, LeaseId>;

/// The pairs of keys and leases.
#[derive(Debug, Default)]
pub(crate) struct Attachments {
    lease_of: LeaseOf,
    keys: BTreeSet<(LeaseId, Key)>,
}

impl Attachments {
    pub(crate) fn lease_of(&self, key: &[u8]) -> Option<LeaseId> {
        self.lease_of.get(key).copied()
    }

    /// Attaches a key to a lease, and detaches it from any other.
    pub(crate) fn attach(&mut self, id: LeaseId, key: &[u8]) {
        if let Some(before) = self.lease_of(key) {
            self.detach(before, key);
        }
        let key = Key::from(key);
        self.lease_of.insert(Arc::clone(&key), id);
        self.keys.insert((id, key));
    }

    /// Detaches a key from a lease, if it is attached to it.
    pub(crate) fn detach(&mut self, id: LeaseId, key: &[u8]) {
        if self.lease_of(key) != Some(id) {
            return;
        }
        if let Some((key, _)) = self.lease_of.remove_entry(key) {
            self.keys.remove(&(id, key));
        }
    }

    /// Detaches all keys of a lease. Returns them, sorted.
    pub(crate) fn detach_all(&mut self, id: LeaseId) -> Vec<Bytes> {
        let keys = self.keys_after(id, None, usize::MAX);
        for key in &keys {
            self.lease_of.remove(key);
            self.keys.remove(&(id, Arc::clone(key)));
        }
        keys.iter().map(|key| Bytes::copy_from_slice(key)).collect()
    }

    /// Returns at most `max` keys of a lease, sorted, beginning after a given key.
    pub(crate) fn keys_after(&self, id: LeaseId, after: Option<&Key>, max: usize) -> Vec<Key> {
        let from = match after {
            Some(key) => Bound::Excluded((id, Arc::clone(key))),
            None => Bound::Included((id, Key::default())),
        };
        let keys = self.keys.range((from, Bound::Unbounded)).take_while(|(of, _)| *of == id);
        keys.map(|(_, key)| Arc::clone(key)).take(max).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEVEN: LeaseId = LeaseId(7);
    const NINE: LeaseId = LeaseId(-9);

    fn keys(attachments: &Attachments, id: LeaseId) -> Vec<String> {
        let keys = attachments.keys_after(id, None, usize::MAX);
        keys.iter().map(|key| String::from_utf8(key.to_vec()).unwrap()).collect()
    }

    #[test]
    fn a_key_moves_from_lease_to_lease() {
        let mut attachments = Attachments::default();
        for key in [&b"foo"[..], b"bar", b"foo"] {
            attachments.attach(SEVEN, key);
        }
        assert_eq!(keys(&attachments, SEVEN), ["bar", "foo"]);
        attachments.attach(NINE, b"foo");
        assert_eq!(attachments.lease_of(b"foo"), Some(NINE));
        assert_eq!(keys(&attachments, SEVEN), ["bar"]);
        assert_eq!(keys(&attachments, NINE), ["foo"]);
    }

    #[test]
    fn detaching_from_another_lease_changes_nothing() {
        let mut attachments = Attachments::default();
        attachments.attach(SEVEN, b"foo");
        attachments.detach(NINE, b"foo");
        attachments.detach(SEVEN, b"bar");
        assert_eq!(attachments.lease_of(b"foo"), Some(SEVEN));
        attachments.detach(SEVEN, b"foo");
        assert_eq!(attachments.lease_of(b"foo"), None);
        assert_eq!(keys(&attachments, SEVEN), Vec::<String>::new());
    }

    #[test]
    fn detach_all_returns_the_sorted_keys_of_one_lease() {
        let mut attachments = Attachments::default();
        for (id, key) in [(SEVEN, "b"), (NINE, "c"), (SEVEN, "a"), (LeaseId(8), "d")] {
            attachments.attach(id, key.as_bytes());
        }
        assert_eq!(attachments.detach_all(SEVEN), ["a", "b"]);
        assert_eq!(attachments.detach_all(SEVEN), Vec::<Bytes>::new());
        assert_eq!(attachments.lease_of(b"a"), None);
        assert_eq!(attachments.lease_of(b"c"), Some(NINE));
        assert_eq!(keys(&attachments, LeaseId(8)), ["d"]);
    }

    #[test]
    fn keys_after_continues_where_the_last_call_stopped() {
        let mut attachments = Attachments::default();
        for key in ["", "a", "b", "c"] {
            attachments.attach(SEVEN, key.as_bytes());
        }
        let first = attachments.keys_after(SEVEN, None, 2);
        let rest = attachments.keys_after(SEVEN, first.last(), 5);
        assert_eq!((first.len(), rest.len()), (2, 2));
        assert_eq!(&*rest[0], b"b");
    }
}
