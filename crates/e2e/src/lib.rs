//! Test support for the server as a process: start it, call it, kill it, inspect what it left.
//!
//! ```text
//!   Options ─► Sandbox (directory, ports) ─► Member (running process) ─► Stopped ─► Member ...
//!                                           │ client()   gRPC
//!                                           │ get()      HTTP/1.1  (both also over TLS: TlsClient)
//!                                           │ log()      its lines, as they arrive
//!                                           └ kill(), terminate()
//!   Proxy ──► a member                    gateway or grpc-proxy, in front of it
//!   Collector ◄── its traces
//! ```
//!
//! ```no_run
//! # use e2e::{Member, Options};
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let member = Member::start(Options::new().flag("max-txn-ops", "3"));
//! member.client().put("k", "v").await?;
//! let member = member.kill().start();
//! assert_eq!(member.client().get("k").await?.kvs[0].value, "v");
//! # Ok::<(), tonic::Status>(()) }).unwrap();
//! ```
//!
//! Nothing here waits by sleeping: the server's log shows when it serves, and its outputs end when
//! it exits. An event that does not occur within [`TIMEOUT`] fails the test, with the log. Only
//! [`http::wait_until_healthy`] polls, since a member does not announce its health.
//!
//! The tests in `tests/suite` check only the binary, which they build first (see [`binary`]). Of
//! the crates below the API, only the reference version in `types` is linked.

pub mod binary;
pub mod collector;
pub mod frames;
pub mod http;
pub mod output;
pub mod process;

mod client;
mod cluster;
mod member;
mod options;
mod proxy;
mod sandbox;
mod tls_client;
mod watch_stream;

use std::time::Duration;

pub use client::Client;
pub use cluster::start_cluster;
pub use member::{Member, Stopped};
pub use options::Options;
pub use process::{Exit, Process};
pub use proxy::Proxy;
pub use sandbox::Sandbox;
pub use tls_client::TlsClient;
pub use watch_stream::WatchStream;

/// Bound on every wait. Far above the usual time, since test machines are busy.
pub const TIMEOUT: Duration = Duration::from_secs(120);
