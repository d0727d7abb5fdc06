//! Without the feature: points are not there, whatever the environment says.

#![cfg(not(feature = "failpoints"))]

use failpoint::failpoint;

/// Evaluated while compiling, where nothing but what can be known then is allowed: so a point is nothing at run time.
const fn passes() -> u32 {
    failpoint!("walBeforeSync");
    failpoint!("beforeWriteMetaError", |_text| no_such_function());
    failpoint!("raftDropHeartbeat", || no_such_function());
    5
}

#[test]
fn a_point_is_nothing() {
    const PASSED: u32 = passes();
    assert_eq!(PASSED, 5);
    assert!(failpoint::start().is_ok());
}
