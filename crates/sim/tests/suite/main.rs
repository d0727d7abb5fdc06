//! Clusters in one thread.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod life;
mod stories;
mod teeth;
