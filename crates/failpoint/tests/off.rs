//! Without the feature: points do not exist, whatever the environment says.

#![cfg(not(feature = "failpoints"))]

use failpoint::failpoint;

/// A const fn, so that a point can expand to nothing but compile-time checks.
const fn passes() -> u32 {
    failpoint!("walBeforeSync");
    failpoint!("beforeWriteMetaError", |_text| no_such_function());
    failpoint!("raftDropHeartbeat", || no_such_function());
    5
}

#[test]
fn points_expand_to_nothing() {
    const PASSED: u32 = passes();
    assert_eq!(PASSED, 5);
    assert!(failpoint::start().is_ok());
}
