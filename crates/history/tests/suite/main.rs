//! Tests of the checker on correct histories and on histories with planted errors.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod common;

mod exhaustive;
mod large;
mod planted;
mod valid;
mod watch;
