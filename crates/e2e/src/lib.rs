//! Test support for the server as a process: start it, call it, kill it, inspect what it left.
//!
//! ```text
//!   Options ─► Sandbox (folder, ports) ─► Member (running process) ─► Stopped ─► Member ...
//!                                           │ client()   gRPC
//!                                           │ get()      HTTP/1.1  (both also over TLS: TlsClient)
//!                                           │ log()      its lines, as they arrive
//!                                           └ kill(), terminate()
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
//! Nothing here waits by sleeping: the server's log says when it serves, and its outputs end when
//! it exits. An event that does not occur within [`TIMEOUT`] fails the test, with the log.
//!
//! The tests in `tests/suite` judge only the binary, which they build first (see [`binary`]); no
//! crate below the API is linked.

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
mod sandbox;
mod tls_client;
mod watch_stream;

use std::time::Duration;

pub use client::Client;
pub use cluster::start_cluster;
pub use member::{Member, Stopped};
pub use options::Options;
pub use process::{Exit, Process};
pub use sandbox::Sandbox;
pub use tls_client::TlsClient;
pub use watch_stream::WatchStream;

/// Bound on every wait. Far above the usual time, since test machines are busy.
pub const TIMEOUT: Duration = Duration::from_secs(120);
