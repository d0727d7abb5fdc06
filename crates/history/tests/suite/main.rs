//! The checker, on histories: those of a perfect store, and those with an error in them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod common;

mod exhaustive;
mod large;
mod planted;
mod valid;
mod watch;
