//! Ways to a peer that need no stream: each message or snapshot is a request of its own.

pub(crate) mod pipeline;
mod reply;
pub(crate) mod snapshot;
