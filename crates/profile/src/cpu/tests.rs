use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::pprof::tests::{decode, names, text};

/// Uses CPU time in a function that must appear in the profile.
#[inline(never)]
fn busy_function_of_the_test() -> u64 {
    (0..10_000_u64).fold(0, |sum, round| black_box(sum ^ black_box(round).wrapping_mul(31)))
}

#[test]
fn a_busy_function_is_in_the_profile_of_its_thread() {
    // One sampler exists per process, and the tests of the HTTP part use it, too.
    let _alone = crate::http::tests::SAMPLER.lock().unwrap();
    let end = AtomicBool::new(false);
    let encoded = thread::scope(|scope| {
        let busy = thread::Builder::new().name("busy-thread".to_owned());
        let busy = busy.spawn_scoped(scope, || {
            while !end.load(Ordering::Relaxed) {
                black_box(busy_function_of_the_test());
            }
        });
        let profile = CpuProfile::start().unwrap();
        assert!(matches!(CpuProfile::start(), Err(CpuError::InUse)));
        // Waits for CPU time, not for time: the machine may be busy with other work.
        let before = cpu_time();
        let is_enough = || cpu_time().saturating_sub(before) > Duration::from_millis(500);
        let encoded = profile.run(Duration::from_secs(120), is_enough).unwrap();
        end.store(true, Ordering::Relaxed);
        busy.unwrap().join().unwrap();
        encoded
    });
    let profile = decode(&encoded);
    let text = |index: i64| text(&profile, index);
    let of_thread = |sample: &&crate::pprof::Sample| {
        sample.label.iter().any(|label| text(label.str) == "busy-thread")
    };
    let samples: Vec<_> = profile.sample.iter().filter(of_thread).collect();
    let found = samples.iter().filter(|sample| {
        let names = names(&profile, sample);
        // Unwound down to the start of the thread.
        names.iter().any(|name| name.contains("busy_function_of_the_test"))
            && names.iter().any(|name| name.contains("thread"))
    });
    assert!(found.count() > 0, "{} samples of {}", samples.len(), profile.sample.len());
    let nanoseconds: i64 = profile.sample.iter().map(|sample| sample.value[1]).sum();
    assert!(nanoseconds > 250_000_000, "{nanoseconds} ns");
    assert_eq!(text(profile.sample_type[1].unit), "nanoseconds");
}
