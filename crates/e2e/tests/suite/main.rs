//! Tests of the server as a process: start, requests, kill, restart.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod cluster;
mod damage;
mod files;
mod flags;
mod gateway;
mod grpc_proxy;
mod grpc_proxy_leasing;
mod grpc_proxy_requests;
mod http;
mod kill;
mod limits;
mod logs;
mod metrics;
mod profiles;
mod quota;
mod rejections;
mod serving;
mod slow_reader;
mod start_line;
mod stop;
mod tcp_gateway;
mod tls;
mod tracing;
