//! gRPC stubs: for each etcd service a trait to implement, a server that calls it, and a client.
//!
//! The stubs are generated from the .proto files of `proto` and use its messages. The service
//! `etcdserverpb.KV` becomes
//!
//! | item | purpose |
//! | --- | --- |
//! | [`etcdserverpb::kv_server::Kv`] | trait of the service, with one async method per RPC |
//! | [`etcdserverpb::kv_server::KvServer`] | `tower` service: decodes, calls the trait, encodes |
//! | [`etcdserverpb::kv_client::KvClient`] | client over any `tower` service for gRPC requests |
//!
//! and so do `Watch`, `Lease`, `Cluster`, `Maintenance` and `Auth`, `Lock` in [`v3lockpb`],
//! `Election` in [`v3electionpb`] and `Health` in [`health`]. The crate opens no connections:
//! listeners, channels, TLS and limits belong to its users. A server can therefore be passed to a
//! client directly, which is how the tests call one without a socket.
//!
//! # A codec of our own
//!
//! All methods use one codec, named in `build.rs`: prost's, which builds a response as a struct and
//! encodes it. The responses of Range and Watch could skip the struct, because keys are stored in
//! the very bytes that are sent. Both ends are build settings: the path of the codec, and the Rust
//! type of a message, because `extern_path` can map the single message
//! `.etcdserverpb.RangeResponse` to a type that holds bytes. Clients still need the struct, so
//! servers and clients would be generated in two runs.

/// The client API: `KV`, `Watch`, `Lease`, `Cluster`, `Maintenance` and `Auth`.
#[expect(
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "tonic generates these attributes"
)]
pub mod etcdserverpb {
    include!(concat!(env!("OUT_DIR"), "/etcdserverpb.rs"));
}

/// The lock service, which a member runs for its clients.
#[expect(
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "tonic generates these attributes"
)]
pub mod v3lockpb {
    include!(concat!(env!("OUT_DIR"), "/v3lockpb.rs"));
}

/// The election service, which a member runs for its clients.
#[expect(
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "tonic generates these attributes"
)]
pub mod v3electionpb {
    include!(concat!(env!("OUT_DIR"), "/v3electionpb.rs"));
}

/// gRPC's health service, the package `grpc.health.v1`.
#[expect(
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "tonic generates these attributes"
)]
pub mod health {
    include!(concat!(env!("OUT_DIR"), "/grpc.health.v1.rs"));
}
