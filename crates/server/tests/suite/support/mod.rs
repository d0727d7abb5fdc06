//! What the tests share.

pub(crate) mod arbitrary;
mod block_on;
pub(crate) mod member;
pub(crate) mod observe;
pub(crate) mod requests;
pub(crate) mod workload;

pub(crate) use block_on::{block_on, poll};
pub(crate) use member::{Member, Setup};
pub(crate) use observe::Observed;
pub(crate) use workload::Workload;
