//! gRPC stubs: for each service of etcd a trait to implement, a server that calls it, and a client.
//!
//! Generated from the .proto files of `proto`, and using its messages. The service
//! `etcdserverpb.KV` becomes
//!
//! | here | for |
//! | --- | --- |
//! | [`etcdserverpb::kv_server::Kv`] | whoever answers: one async method for each RPC |
//! | [`etcdserverpb::kv_server::KvServer`] | a `tower` service that decodes a request, calls that trait and encodes the answer |
//! | [`etcdserverpb::kv_client::KvClient`] | whoever asks, over any `tower` service that takes gRPC requests |
//!
//! and so do `Watch`, `Lease`, `Cluster`, `Maintenance` and `Auth`, `Lock` in [`v3lockpb`],
//! `Election` in [`v3electionpb`] and `Health` in [`health`]. There are no connections in this
//! crate: listeners, channels, TLS and limits are the business of `api` and `client`. So a server
//! can be given to a client as it is, which is how the tests call one without a socket.
//!
//! # Where a codec of our own would go
//!
//! All methods use one codec, named in `build.rs`: prost's, which builds an answer as a struct and
//! encodes that. The answers of Range and Watch need not take that way, as the keys are stored in
//! the very bytes that go out. Both ends of it are settings of the build: the codec's path, and the
//! Rust type of a message, since `extern_path` can map the single message
//! `.etcdserverpb.RangeResponse` to a type that holds bytes. As a client still wants the struct,
//! servers and clients would then be generated in two runs.

/// The client API: `KV`, `Watch`, `Lease`, `Cluster`, `Maintenance` and `Auth`.
#[expect(
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "tonic writes them into what it generates"
)]
pub mod etcdserverpb {
    include!(concat!(env!("OUT_DIR"), "/etcdserverpb.rs"));
}

/// Locks, run by the member for the client.
#[expect(
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "tonic writes them into what it generates"
)]
pub mod v3lockpb {
    include!(concat!(env!("OUT_DIR"), "/v3lockpb.rs"));
}

/// Elections, run by the member for the client.
#[expect(
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "tonic writes them into what it generates"
)]
pub mod v3electionpb {
    include!(concat!(env!("OUT_DIR"), "/v3electionpb.rs"));
}

/// Whether a server is well: the package `grpc.health.v1`.
#[expect(
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "tonic writes them into what it generates"
)]
pub mod health {
    include!(concat!(env!("OUT_DIR"), "/grpc.health.v1.rs"));
}
