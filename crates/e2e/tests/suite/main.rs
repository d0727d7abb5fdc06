//! Tests of the server as a process: start, requests, kill, restart.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod cluster;
mod damage;
mod files;
mod flags;
mod gateway;
mod http;
mod kill;
mod limits;
mod logs;
mod metrics;
mod quota;
mod refusals;
mod serving;
mod slow_reader;
mod stop;
mod tls;
mod tracing;
