//! The heap profile: live and past allocations by call stack, as the allocator samples them.

use std::time::{Duration, SystemTime};

use env::HeapSamples;

use crate::mapped_files::mapped_files;
use crate::pprof::{self, Description};
use crate::stack_counts::{Stack, StackCounts};
use crate::symbols::{Call, Symbols};

/// The most calls within the allocator and its sampler.
const ALLOCATOR_DEPTH_MAX: usize = 16;

/// The global allocator of this program does not sample.
#[derive(Debug, thiserror::Error)]
#[error("the memory allocator of this build does not sample allocations")]
pub(crate) struct NotSampled;

/// Sampled allocations: objects and bytes that were allocated, and that still are.
#[derive(Clone, Debug)]
pub(crate) struct HeapProfile {
    stacks: StackCounts<4>,
    at: SystemTime,
}

impl HeapProfile {
    /// Takes a profile.
    ///
    /// # Errors
    /// The allocator does not sample.
    pub(crate) fn take() -> Result<HeapProfile, NotSampled> {
        let samples = env::heap_samples().ok_or(NotSampled)?;
        Ok(HeapProfile { stacks: counts(samples), at: SystemTime::now() })
    }

    /// Returns what happened since an earlier profile.
    pub(crate) fn since(mut self, earlier: HeapProfile) -> (HeapProfile, Duration) {
        let duration = self.at.duration_since(earlier.at).unwrap_or_default();
        self.stacks.subtract(earlier.stacks);
        (self, duration)
    }

    /// Encodes the profile. `default_kind` is the counter that tools show first.
    pub(crate) fn encode(&self, default_kind: &'static str, duration: Duration) -> Vec<u8> {
        let files = mapped_files();
        let symbols = Symbols::resolve(&self.stacks.addresses(), &files);
        let description = Description {
            kinds: [
                ("alloc_objects", "count"),
                ("alloc_space", "bytes"),
                ("inuse_objects", "count"),
                ("inuse_space", "bytes"),
            ],
            default_kind,
            period: (("space", "bytes"), env::HEAP_PERIOD_BYTES.into()),
            at: self.at,
            duration,
            comments: self.stacks.lost_comment().into_iter().collect(),
        };
        let stacks = self.without_allocator(&symbols);
        pprof::encode(&description, &stacks, &symbols, &files)
    }

    /// Prints the stacks, those with the most live bytes first.
    pub(crate) fn text(&self) -> String {
        let symbols = Symbols::resolve(&self.stacks.addresses(), &mapped_files());
        let stacks = self.without_allocator(&symbols);
        let [objects, bytes, live_objects, live_bytes] = stacks.total();
        let mut text = format!(
            "heap profile: {live_objects}: {live_bytes} [{objects}: {bytes}] @ heap/{}\n",
            env::HEAP_PERIOD_BYTES
        );
        let mut sorted = stacks.sorted();
        sorted.sort_by_key(|(_, counts)| std::cmp::Reverse(counts[3]));
        for (stack, [objects, bytes, live_objects, live_bytes]) in sorted {
            text.push_str(&format!("{live_objects}: {live_bytes} [{objects}: {bytes}] @\n"));
            for address in &stack.addresses {
                for call in symbols.get(*address) {
                    let Call { function, file, line } = call;
                    text.push_str(&format!("#\t{address:#x}\t{function}\t{file}:{line}\n"));
                }
            }
        }
        text
    }

    /// Removes the calls within the allocator from the inner end of the stacks.
    fn without_allocator(&self, symbols: &Symbols) -> StackCounts<4> {
        let mut stacks = StackCounts::default();
        for (stack, counts) in self.stacks.sorted() {
            let of_allocator =
                |address: &u64| symbols.get(*address).last().is_some_and(is_of_allocator);
            let inner = stack.addresses.iter().take(ALLOCATOR_DEPTH_MAX).rposition(of_allocator);
            let addresses = stack.addresses[inner.map_or(0, |at| at + 1)..].to_vec();
            stacks.add(Stack { addresses, thread: String::new() }, *counts);
        }
        stacks
    }
}

/// Reports whether a function belongs to the allocator or its sampler.
fn is_of_allocator(call: &Call) -> bool {
    const PREFIXES: [&str; 6] = [
        "backtrace::",
        "env::heap_sampler::",
        "<env::heap_sampler::",
        "__rust_",
        "__rdl_",
        "__rg_",
    ];
    let name = call.function.trim_start_matches("__rustc::");
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Converts samples of the allocator.
fn counts(samples: HeapSamples) -> StackCounts<4> {
    let mut stacks = StackCounts::default();
    stacks.add_lost(samples.lost);
    for stack in samples.stacks {
        // An address within the call, before the one that it returns to.
        let addresses = stack.addresses.iter().map(|address| address.saturating_sub(1)).collect();
        let counts = [stack.objects, stack.bytes, stack.live_objects, stack.live_bytes];
        let counts = counts.map(|count| i64::try_from(count).unwrap_or(i64::MAX));
        stacks.add(Stack { addresses, thread: String::new() }, counts);
    }
    stacks
}

#[cfg(test)]
mod tests {
    use env::HeapStack;

    use super::*;
    use crate::pprof::tests::{decode, names};

    #[test]
    fn samples_become_counters_of_calls() {
        let stack = HeapStack {
            addresses: vec![0x5581_d0a3_c6d5, 0x10],
            objects: 4,
            bytes: 400,
            live_objects: 1,
            live_bytes: 100,
        };
        let counts = counts(HeapSamples { stacks: vec![stack], lost: 3 });
        let addresses = vec![0x5581_d0a3_c6d4, 0xf];
        let expected = Stack { addresses, thread: String::new() };
        assert_eq!(counts.sorted(), [(&expected, &[4, 400, 1, 100])]);
        assert_eq!(counts.lost_comment().as_deref(), Some("3 samples were lost"));
    }

    #[test]
    fn calls_within_the_allocator_are_recognized() {
        let call = |function: &str| Call { function: function.to_owned(), ..Call::default() };
        for name in [
            "backtrace::backtrace::libunwind::trace",
            "env::heap_sampler::ThreadSampler::end_countdown",
            "<env::heap_sampler::SamplingAllocator as core::alloc::global::GlobalAlloc>::alloc",
            "__rustc::__rust_alloc",
            "__rustc::__rg_realloc",
        ] {
            assert!(is_of_allocator(&call(name)), "{name}");
        }
        for name in ["alloc::alloc::alloc", "mvcc::index::Index::put", "env::os::OsFile::map"] {
            assert!(!is_of_allocator(&call(name)), "{name}");
        }
    }

    #[inline(never)]
    fn allocate_in_the_test() -> Vec<Vec<u8>> {
        (0..32).map(|_| std::hint::black_box(Vec::with_capacity(1 << 20))).collect()
    }

    /// 32 MiB, of which 27 blocks are sampled on average, with a standard deviation of 2.
    #[test]
    fn the_function_that_allocates_is_in_the_profile() {
        assert!(env::start_heap_sampling());
        let before = HeapProfile::take().unwrap();
        let blocks = allocate_in_the_test();
        let (difference, _) = HeapProfile::take().unwrap().since(before);
        let profile = decode(&difference.encode("inuse_space", Duration::ZERO));
        let live = |sample: &&crate::pprof::Sample| sample.value[3] > 1 << 20;
        let found = profile.sample.iter().filter(live).find(|sample| {
            let names = names(&profile, sample);
            let is_of_test = names.iter().any(|name| name.contains("allocate_in_the_test"));
            // The calls of the allocator are removed.
            is_of_test && !names[0].contains("heap_sampler") && !names[0].contains("__rust")
        });
        let sample = found.expect("a sample with the function");
        assert!((16 << 20..64 << 20).contains(&sample.value[3]), "{:?}", sample.value);
        assert!(difference.text().contains("allocate_in_the_test"));
        drop(blocks);
    }
}
