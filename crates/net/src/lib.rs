//! Listeners, connections and the runtimes that serve them.
//!
//! Asynchronous Rust begins here. This crate takes bytes from sockets and makes requests of them; what a request means is for a
//! [`Handler`] to know, which gets one at a time and gives a response:
//!
//! ```text
//!                accept loop            opening (24 bytes at most)            hyper, on the runtime of the connection
//!   Listener ──► takes a place ──► 50 52 49 20 2a .. "PRI * HTTP/2.0" ──► HTTP/2, its frames followed by Guard ──► Handler::call
//!   :2379        of so many        47 45 54 20 ..    "GET "           ──► HTTP/1.1                             ──► Handler::call
//!                                  16 03 01 ..       TLS              ──► a handshake, and then one of the above
//! ```
//!
//! [`Runtimes`] are single-threaded tokio runtimes, one for each core. A connection lives on one of them from its first byte to its last, so
//! nothing that belongs to it ever changes threads.
//!
//! Connections are also made from here: a [`Dialer`] calls whom a [`Target`] names, and hands over a [`Link`].
//!
//! What is always true:
//!
//! - A listener holds a bounded number of connections ([`Config::connections_max`]); whoever comes on top waits in the backlog of the kernel. Of those a bounded
//!   number have not said yet what they speak, or are at their handshake ([`Config::opening_max`]): for one more, the first of them is cut ([`Crowd`]).
//! - A connection that does not say what it speaks, a handshake that does not come to its end, and a request whose headers do not end, are cut after a time.
//! - What is buffered for a connection is bounded: by the windows of HTTP/2 on the way in; on the way out by a send buffer for each stream and, since a
//!   piece of a response is taken whole, whatever its length, by the handler, which is told what is not sent yet ([`Unsent`]).
//!   What all connections have not read is bounded too: those that let it lie for the longest are cut.
//! - Handshakes, which compute for long, are computed one at a time on a runtime, between the turns of those who are served.
//! - An error of one connection, or of accepting one, ends nothing else.
//! - A client that does not answer pings is cut, also if its socket takes nothing any more.
//! - A client that pings more often than etcd would allow gets the answer that etcd gives, and is cut.
//! - When [`Serving::drain`] returns, every connection is gone.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::Full;
//! use hyper::body::Incoming;
//! use net::{Address, Config, Connection, Handler, Listener, Runtimes, SocketOptions};
//!
//! struct Hello;
//!
//! impl Handler for Hello {
//!     type Body = Full<Bytes>;
//!
//!     async fn call(&self, _: &Arc<Connection>, request: Request<Incoming>) -> Response<Full<Bytes>> {
//!         Response::new(format!("you asked for {}\n", request.uri().path()).into())
//!     }
//! }
//!
//! let runtimes = Runtimes::start(1)?;
//! let listener = Listener::bind(&Address::Tcp("localhost:0".into()), SocketOptions::default())?;
//! println!("listening on {}", listener.local());
//! let serving = net::serve(&runtimes, listener, Arc::new(Hello), Config::default())?;
//!
//! runtimes.block_on(serving.drain(Duration::from_secs(1)));
//! runtimes.stop();
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! # Left to others
//!
//! `api` knows paths, gRPC and JSON; it also bounds the bodies of requests, which this crate hands on as they come. `node` knows flags and
//! says where to listen and when to stop. `tls` knows certificates and who is let in with them.

mod address;
mod config;
mod descriptors;
mod listener;
mod stream;

mod mail;
mod resolver;
mod runtimes;

mod crowd;
mod unsent;

mod connection;
mod handler;
mod opening;

mod handshake;
mod security;
mod turns;

mod frames;
mod gather;
mod guard;
mod watched;

mod serve;
mod serving;

mod dialer;
mod link;
mod target;

pub use address::Address;
pub use config::{
    Config, HEADER_BYTES_MAX, KeepAlive, LOCAL_RESETS_MAX, PENDING_RESETS_MAX, STREAMS_UNLIMITED,
};
pub use connection::{Connection, Peer};
pub use crowd::{Crowd, Exit, Guest};
pub use descriptors::{
    DescriptorError, RESERVED_DESCRIPTORS, connections_max, raise_descriptor_limit,
};
pub use dialer::{ADDRESSES_MAX, DialError, Dialer, HANDSHAKE_TIMEOUT};
pub use handler::{BoxError, Handler};
pub use link::Link;
pub use listener::{BACKLOG, BindError, Listener, Local, SocketOptions};
pub use runtimes::{BLOCKING_THREADS_MAX, Background, Runtimes};
pub use security::{Security, Tls};
pub use serve::serve;
pub use serving::Serving;
pub use target::{Target, TargetError, URL_BYTES_MAX};
pub use unsent::{
    COUNTED_BYTES_MIN, UNSENT_BYTES_MAX, UNSENT_TIME_MIN, UNSENT_TOTAL_BYTES_MAX, Unsent,
};
