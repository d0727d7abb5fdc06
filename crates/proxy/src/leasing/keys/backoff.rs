//! Keys that are not acquired for a while: another proxy acquires or owns them, or the attempt
//! failed.
//!
//! Without it, two proxies that read and write a key in turn would pass the leasing key back and
//! forth with every request.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

/// The time for which a key is not acquired. As in etcd.
pub(super) const BACKOFF: Duration = Duration::from_secs(2);
/// The most keys that are remembered; the oldest may be acquired early.
const KEYS_MAX: usize = 16_384;

/// Keys that are not acquired for a while.
#[derive(Debug, Default)]
pub(super) struct Backoffs {
    ends: HashMap<Bytes, Instant>,
    /// Keys by the end of their time. A key that was added again is also at an earlier place.
    queue: VecDeque<(Instant, Bytes)>,
}

impl Backoffs {
    pub(super) fn add(&mut self, key: Bytes, now: Instant) {
        self.expire(now);
        let end = now + BACKOFF;
        self.ends.insert(key.clone(), end);
        self.queue.push_back((end, key));
        if self.queue.len() > KEYS_MAX {
            self.remove_oldest();
        }
    }

    pub(super) fn contains(&mut self, key: &Bytes, now: Instant) -> bool {
        self.expire(now);
        self.ends.contains_key(key)
    }

    fn expire(&mut self, now: Instant) {
        while self.queue.front().is_some_and(|(end, _)| *end <= now) {
            self.remove_oldest();
        }
    }

    fn remove_oldest(&mut self) {
        if let Some((end, key)) = self.queue.pop_front()
            && self.ends.get(&key) == Some(&end)
        {
            self.ends.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_waits_for_the_time_after_it_was_last_added() {
        let (mut backoffs, start) = (Backoffs::default(), Instant::now());
        backoffs.add("k".into(), start);
        backoffs.add("k".into(), start + BACKOFF / 2);
        assert!(backoffs.contains(&"k".into(), start + BACKOFF));
        assert!(!backoffs.contains(&"k".into(), start + BACKOFF / 2 + BACKOFF));
        assert!(backoffs.queue.is_empty());
    }

    #[test]
    fn the_number_of_keys_is_bounded() {
        let (mut backoffs, now) = (Backoffs::default(), Instant::now());
        for n in 0..=KEYS_MAX {
            backoffs.add(Bytes::from(n.to_string()), now);
        }
        assert_eq!((backoffs.queue.len(), backoffs.ends.len()), (KEYS_MAX, KEYS_MAX));
        assert!(!backoffs.contains(&"0".into(), now));
    }
}
