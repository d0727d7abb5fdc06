//! Listeners and connections, over real sockets.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod client;
mod drain;
mod handler;
mod http;
mod limits;
mod pings;
mod requests;
mod secure;
