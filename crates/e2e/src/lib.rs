//! The whole server, as a process: what tests need to start it, ask it, kill it and look at what it left.
//!
//! ```text
//!   Options ──► Place (a folder, some ports) ──► Member (a running process) ──► Stopped ──► Member ...
//!                                                   │ client()   gRPC
//!                                                   │ get()      HTTP/1.1          (both over TLS with Secure)
//!                                                   │ log()      its lines, as they come
//!                                                   └ kill(), terminate()
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
//! Nothing here waits by sleeping: the log of the server says when it serves, its outputs end when it ends. Whatever does not come within
//! [`PATIENCE`] fails the test, with the log.
//!
//! The tests in `tests/suite` judge the binary and nothing else; none of our crates below the edge is linked. They build it first, see [`binary`].

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
mod place;
mod secure;
mod watching;

use std::time::Duration;

pub use client::Client;
pub use cluster::start_cluster;
pub use member::{Member, Stopped};
pub use options::Options;
pub use place::Place;
pub use process::{Ended, Process};
pub use secure::Secure;
pub use watching::Watching;

/// How long anything may take. Far above what it does take, since machines that run tests are busy.
pub const PATIENCE: Duration = Duration::from_secs(120);
