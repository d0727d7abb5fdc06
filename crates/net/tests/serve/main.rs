//! Listeners and connections, over real sockets.

mod client;
mod drain;
mod handler;
mod http;
mod limits;
mod pings;
