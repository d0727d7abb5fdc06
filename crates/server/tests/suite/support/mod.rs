//! Helpers of the tests: a member without threads, requests, workloads and comparisons.

pub(crate) mod arbitrary;
pub(crate) mod member;
pub(crate) mod observe;
pub(crate) mod requests;
pub(crate) mod workload;

pub(crate) use member::{Member, Setup};
pub(crate) use observe::Observed;
pub(crate) use workload::Workload;
