//! Tests of simulated clusters.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod clusters;
mod planted_bugs;
mod scenarios;
