//! The samples: their stacks with counters, and the addresses of those that are live.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{HEAP_PERIOD_BYTES, LIVE_MAX, STACKS_MAX};

/// Sampled allocations by call stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeapSamples {
    /// The stacks.
    pub stacks: Vec<HeapStack>,
    /// Samples that were not counted, because there were too many.
    pub lost: u64,
}

/// A call stack, and estimates of all allocations by it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeapStack {
    /// Return addresses, innermost first. The first ones are those of the sampler.
    pub addresses: Vec<u64>,
    /// Objects allocated so far.
    pub objects: u64,
    /// Bytes of these objects.
    pub bytes: u64,
    /// Objects that are not freed.
    pub live_objects: u64,
    /// Bytes that are not freed.
    pub live_bytes: u64,
}

/// The counters of a stack. Fractions: a sample stands for a fractional number of objects.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    objects: f64,
    bytes: f64,
    live_objects: f64,
    live_bytes: f64,
}

/// A stack with its counters.
pub(super) type CountedStack = (Arc<[usize]>, Counters);

/// A sample that is not freed.
#[derive(Clone, Copy, Debug)]
struct LiveSample {
    stack: usize,
    objects: f64,
    bytes: f64,
}

/// All samples. Neither map needs random numbers or hashes, which might panic.
#[derive(Debug)]
pub(super) struct Samples {
    numbers: BTreeMap<Arc<[usize]>, usize>,
    stacks: Vec<CountedStack>,
    live: BTreeMap<usize, LiveSample>,
    lost: u64,
}

impl Samples {
    pub(super) const fn new() -> Samples {
        Samples { numbers: BTreeMap::new(), stacks: Vec::new(), live: BTreeMap::new(), lost: 0 }
    }

    /// Counts a sample. Reports whether it is remembered.
    pub(super) fn insert(&mut self, address: usize, size: usize, stack: &[usize]) -> bool {
        let number = if self.live.len() < LIVE_MAX { self.number(stack) } else { None };
        let counters = number.and_then(|number| self.stacks.get_mut(number));
        let (Some(number), Some((_, counters))) = (number, counters) else {
            self.lost = self.lost.saturating_add(1);
            return false;
        };
        let (objects, bytes) = represented(size);
        counters.objects += objects;
        counters.bytes += bytes;
        counters.live_objects += objects;
        counters.live_bytes += bytes;
        self.live.insert(address, LiveSample { stack: number, objects, bytes }).is_none()
    }

    /// Counts a sample as freed. Reports whether the address was one.
    pub(super) fn remove(&mut self, address: usize) -> bool {
        let Some(sample) = self.live.remove(&address) else { return false };
        if let Some((_, counters)) = self.stacks.get_mut(sample.stack) {
            counters.live_objects -= sample.objects;
            counters.live_bytes -= sample.bytes;
        }
        true
    }

    /// Returns the stacks with their counters, and the number of lost samples.
    pub(super) fn share(&mut self) -> (Vec<CountedStack>, u64) {
        (self.stacks.clone(), self.lost)
    }

    /// Returns the number of a stack; none if there are too many.
    fn number(&mut self, stack: &[usize]) -> Option<usize> {
        if let Some(number) = self.numbers.get(stack) {
            return Some(*number);
        }
        let number = self.stacks.len();
        if number >= STACKS_MAX {
            return None;
        }
        let stack: Arc<[usize]> = stack.into();
        self.numbers.insert(Arc::clone(&stack), number);
        self.stacks.push((stack, Counters::default()));
        Some(number)
    }
}

/// Returns the objects and bytes that a sample of a size stands for.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn represented(size: usize) -> (f64, f64) {
    let size = size.max(1) as f64;
    // The inverse of the probability that such an allocation is sampled.
    let objects = -1.0 / (-size / f64::from(HEAP_PERIOD_BYTES)).exp_m1();
    (objects, objects * size)
}

impl From<CountedStack> for HeapStack {
    fn from((addresses, counters): CountedStack) -> HeapStack {
        let [objects, bytes, live_objects, live_bytes] =
            [counters.objects, counters.bytes, counters.live_objects, counters.live_bytes]
                .map(rounded);
        let addresses = addresses.iter().map(|address| *address as u64).collect();
        HeapStack { addresses, objects, bytes, live_objects, live_bytes }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast of a float saturates, at zero for rounding errors"
)]
fn rounded(number: f64) -> u64 {
    number.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stacks(samples: &mut Samples) -> Vec<HeapStack> {
        samples.share().0.into_iter().map(HeapStack::from).collect()
    }

    /// The formula of Go's and jemalloc's tools: an object of 8 KiB in samples of 512 KiB stands
    /// for 64.5, one of 1 MiB for 1.157.
    #[test]
    fn a_sample_stands_for_all_allocations_of_its_size() {
        let (objects, bytes) = represented(8192);
        assert!((objects - 64.501_302).abs() < 1e-5, "{objects}");
        assert!((bytes - objects * 8192.0).abs() < 1e-6, "{bytes}");
        let (objects, _) = represented(1 << 20);
        assert!((objects - 1.156_518).abs() < 1e-5, "{objects}");
        assert!(represented(0).0.is_finite());
    }

    #[test]
    fn a_freed_sample_stays_in_the_counters_of_past_allocations() {
        let mut samples = Samples::new();
        assert!(samples.insert(16, 1 << 20, &[1, 2]));
        assert!(samples.insert(32, 1 << 20, &[1, 2]));
        assert!(samples.insert(48, 8192, &[3]));
        assert!(samples.remove(16) && samples.remove(48));
        assert!(!samples.remove(16), "freed already");
        let [first, second] = &stacks(&mut samples)[..] else { panic!("two stacks") };
        assert_eq!(first.addresses, [1, 2]);
        assert_eq!((first.objects, first.live_objects), (2, 1));
        assert_eq!((first.bytes, first.live_bytes), (2_425_393, 1_212_697));
        assert_eq!((second.objects, second.live_objects, second.live_bytes), (65, 0, 0));
    }

    #[test]
    fn samples_beyond_the_bounds_are_counted_as_lost() {
        let mut samples = Samples::new();
        for number in 0..STACKS_MAX + 3 {
            samples.insert(number * 16, 1, &[number]);
        }
        assert_eq!((samples.stacks.len(), samples.lost), (STACKS_MAX, 3));
        for number in STACKS_MAX..LIVE_MAX + 5 {
            samples.insert(number * 16, 1, &[0]);
        }
        assert_eq!((samples.live.len(), samples.lost), (LIVE_MAX, 8));
    }
}
