//! Without the feature: points do not exist, whatever the environment says.

#![cfg(not(feature = "failpoints"))]

use failpoint::{failpoint, failpoint_async};

/// A const fn, so that a point can expand to nothing but compile-time checks.
const fn passes() -> u32 {
    failpoint!("walBeforeSync");
    failpoint!("beforeWriteMetaError", |_text| no_such_function());
    failpoint!("raftDropHeartbeat", || no_such_function());
    5
}

async fn passes_too() -> u32 {
    failpoint_async!("beforePublishing");
    6
}

#[test]
fn points_of_tasks_are_ready_at_once() {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert_eq!(std::pin::pin!(passes_too()).poll(&mut cx), std::task::Poll::Ready(6));
}

#[test]
fn points_expand_to_nothing() {
    const PASSED: u32 = passes();
    assert_eq!(PASSED, 5);
    assert!(failpoint::start().is_ok());
}
