//! The client API of a member: gRPC, the same as JSON, and HTTP for health, version and metrics.
//!
//! ```text
//!   HTTP/2, application/grpc   POST /etcdserverpb.KV/Range  ──► services  etcd's gRPC services
//!   HTTP/1.1 and HTTP/2        POST /v3/kv/range            ──► gateway   JSON, calls services
//!                              GET /health                  ──► http      health, version, metrics
//! ```
//!
//! [`Api`] routes a request to one of the three. Everything that clients see of etcd is here:
//! services and methods, codes and texts of errors, paths and bodies. The gRPC protocol itself is
//! in [`grpc`], requests are executed by [`server`], and sockets are in [`net`].
//!
//! Shared by the services: `methods` (the table of RPCs), `interceptor` (the check before a
//! handler), `context` (the handler's argument beside the request), [`errors`] (etcd's error
//! table), `validate` (checks of requests about keys) and `observe` (metrics, log lines and spans
//! of calls).

mod body;
mod context;
mod drain;
pub mod errors;
mod interceptor;
mod methods;
mod observe;
mod router;
mod validate;

mod gateway;
pub mod http;
mod services;

pub use body::Body;
pub use http::Http;
pub use router::Api;
pub use server::SERVER_VERSION as VERSION;
pub use services::{Grpc, GrpcConfig};
