//! Sends to a peer without a stream: each message or snapshot is a request of its own.

pub(crate) mod pipeline;
mod reply;
pub(crate) mod snapshot;
