//! Listeners, connections and the runtimes that serve them.
//!
//! Asynchronous Rust begins here. This crate turns bytes from sockets into requests and hands each
//! to a [`Handler`], which knows what requests mean and returns a response. The directories follow
//! the life of a connection:
//!
//! ```text
//!   listen/     bind a socket, accept connections, drain them at the end
//!   limits/     permits: connections, pending connections, unsent bytes, file descriptors
//!   open/       detect the protocol from at most 24 bytes, TLS handshake
//!                 50 52 49 20 2a ..  "PRI * HTTP/2.0"  HTTP/2
//!                 47 45 54 20 ..     "GET "            HTTP/1.1
//!                 16 03 01 ..        TLS handshake, then one of the above
//!   http1/      what hyper reads differently from Go: hosts, targets, transfer codings, refusals
//!   http2/      what hyper does not check: ping floods, endless headers, silent clients
//!   serve/      run hyper until the connection ends: Handler::call for each request
//!
//!   runtime/    single-threaded tokio runtimes; a connection never changes threads
//!   dial/       outgoing connections: a Dialer connects to a Target and returns a ClientStream
//! ```
//!
//! Invariants:
//!
//! - A listener holds a bounded number of connections ([`Config::connections_max`]); further ones
//!   wait in the kernel's backlog. A bounded number of them are pending, that is, in protocol
//!   detection or in the TLS handshake ([`Config::pending_max`]): one more evicts the oldest
//!   ([`EvictingLimit`]).
//! - Protocol detection, the handshake and the headers of a request each have a timeout.
//! - Buffers are bounded: by HTTP/2 windows on the way in; on the way out by a send buffer per
//!   stream and, since one chunk of a response is taken whole, by the handler, which checks the
//!   [`SendBudget`] of its connection. Unsent bytes are bounded across connections as well: while
//!   there are too many, no long response is begun, and connections that do not read are closed.
//! - A runtime polls one handshake at a time, between the tasks that serve requests.
//! - An error of one connection, or of one accept call, affects no other connection.
//! - A client that does not answer pings is disconnected, even when its socket accepts no more
//!   bytes.
//! - A client that pings more often than etcd allows gets etcd's GOAWAY and is disconnected.
//! - When [`ListenerHandle::drain`] returns, all connections are closed.
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
//!     async fn call(&self, _: &Arc<Connection>, r: Request<Incoming>) -> Response<Self::Body> {
//!         Response::new(format!("you asked for {}\n", r.uri().path()).into())
//!     }
//! }
//!
//! let runtimes = Runtimes::start(1)?;
//! let listener = Listener::bind(&Address::Tcp("localhost:0".into()), SocketOptions::default())?;
//! println!("listening on {}", listener.local());
//! let handle = net::serve(&runtimes, listener, Arc::new(Hello), Config::default())?;
//!
//! runtimes.block_on(handle.drain(Duration::from_secs(1)));
//! runtimes.stop();
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! # Not in this crate
//!
//! `api` knows paths, gRPC and JSON, and bounds request bodies, which this crate passes on as they
//! arrive. `node` knows flags and decides where to listen and when to stop. `tls` loads
//! certificates and decides which clients are trusted.

mod config;
mod connection;
mod handler;

mod listen;

mod limits;

mod open;

mod http1;

mod http2;

mod serve;

mod runtime;

mod dial;

pub use config::{
    Config, HEADER_BYTES_MAX, KeepAlive, LOCAL_RESETS_MAX, PENDING_RESETS_MAX, STREAMS_UNLIMITED,
};
pub use connection::{Connection, RemoteAddr};
pub use dial::{
    ADDRESSES_MAX, CONNECT_BYTES_MAX, CONNECT_TIMEOUT, ClientStream, DialError, Dialer, Forwarding,
    HANDSHAKE_TIMEOUT, Proxy, ProxyError, ProxySettings, Target, TargetError, TunnelError,
    URL_BYTES_MAX,
};
pub use handler::{BoxError, Handler};
pub use limits::{
    COUNTED_BYTES_MIN, DescriptorError, Evicted, EvictingLimit, Permit, RESERVED_DESCRIPTORS,
    SendBudget, UNSENT_BYTES_MAX, UNSENT_GRACE, UNSENT_PROGRESS_BYTES, UNSENT_TOTAL_BYTES_MAX,
    connections_max, raise_descriptor_limit,
};
pub use listen::{
    Address, BACKLOG, BindError, Listener, ListenerHandle, LocalAddr, ResolveError, SocketOptions,
};
pub use open::{ListenerTls, TlsMode};
pub use runtime::{BLOCKING_THREADS_MAX, Background, Runtimes};
pub use serve::serve;
