//! What clients speak: gRPC, the same as JSON, and HTTP for those who only want to know how the member is.
//!
//! ```text
//!   HTTP/2, application/grpc   POST /etcdserverpb.KV/Range  ──► grpc   keys, leases, watches, users, members, maintenance, locks, elections
//!   HTTP/1.1 and HTTP/2        POST /v3/kv/range            ──► gateway, and from there grpc
//!                              GET /health                  ──► http   health, version, metrics
//! ```
//!
//! [`Api`] looks at a request and hands it to one of the three. Everything outside that is etcd's to the letter has its home here: services and methods, codes and
//! texts of errors, paths and bodies. What is done is done by [`server`]; sockets are the business of [`net`].

mod body;
mod edge;
mod intake;
mod unread;

mod gateway;
pub mod grpc;
pub mod http;

pub use body::Body;
pub use edge::Api;
pub use grpc::Grpc;
pub use http::Http;
pub use server::SERVER_VERSION as VERSION;
