//! etcd's protobuf messages: what clients, peers and files contain, to the byte.
//!
//! All types are generated from the files under `proto/`, which keep etcd's packages, names and
//! numbers. So everything that etcd 3.4 to 3.7 wrote can be read, and encoded messages equal
//! etcd's. The crate contains no services; the gRPC stubs are in `rpc`, generated from the same
//! files onto these types. The only code besides is [`command`], the typed form of a log request;
//! [`nested`], a codec for deeply nested transactions; and [`repair`], for requests that etcd's
//! decoder accepts and prost does not, with [`mod@fields`] below both.
//!
//! | module | where the bytes occur | used by |
//! | --- | --- | --- |
//! | [`mvccpb`] | values of the bucket `key`; ranges and watch events | `mvcc`, `api` |
//! | [`etcdserverpb`] | requests, responses; log requests; WAL metadata | `api`, `server`, `wal` |
//! | [`raftpb`] | log entries; messages between members | `raft`, `wal`, `peer` |
//! | [`walpb`] | records of the log on disk | `wal` |
//! | [`snappb`] | `.snap` files | `wal` |
//! | [`leasepb`] | bucket `lease`; `/leases/internal` between members | `lease`, `peer` |
//! | [`authpb`] | values of the buckets `authUsers` and `authRoles` | `auth` |
//! | [`membershippb`] | log entries that publish attributes of a member | `membership`, `server` |
//! | [`v3lockpb`], [`v3electionpb`] | the lock and the election service | `api` |
//! | [`health`] | gRPC's health service, `grpc.health.v1` | `api` |
//!
//! The package `versionpb` has no module: it contains options on the other packages, to be read
//! from [`FILE_DESCRIPTOR_SET`].
//!
//! # Absent is not zero
//!
//! In the proto3 packages a zero field is not encoded. `raftpb`, `walpb`, `snappb` and two messages
//! of `etcdserverpb` ([`Metadata`](etcdserverpb::Metadata), [`Request`](etcdserverpb::Request)) are
//! proto2: each of their fields is an [`Option`] and is encoded when it is `Some`, zero or not.
//! Both forms mean the same to consensus, but not to a checksum over the bytes, and both occur in
//! one log when a cluster is upgraded:
//!
//! ```
//! use prost::Message as _;
//! use proto::raftpb::{Entry, EntryType};
//!
//! // Up to 3.6 all scalar fields are encoded, including zeros:  type 0 | term 0 | index 5
//! let old = [0x08, 0x00, 0x10, 0x00, 0x18, 0x05];
//! let entry = Entry::decode(&old[..])?;
//! assert_eq!((entry.r#type, entry.term, entry.index), (Some(0), Some(0), Some(5)));
//! assert_eq!(entry.encode_to_vec(), old);
//!
//! // 3.7 encodes the fields that were set:  index 5
//! let new = [0x18, 0x05];
//! let entry = Entry::decode(&new[..])?;
//! assert_eq!((entry.r#type, entry.term, entry.index), (None, None, Some(5)));
//! assert_eq!(entry.encode_to_vec(), new);
//!
//! // The methods named like the fields return zero for an absent one.
//! assert_eq!((entry.r#type(), entry.term(), entry.index()), (EntryType::EntryNormal, 0, 5));
//! # Ok::<_, prost::DecodeError>(())
//! ```
//!
//! Where proto3 packs a list of numbers, proto2 does not: in a [`ConfState`](raftpb::ConfState)
//! there is a tag before each id.
//!
//! A single message is not re-encoded to the same bytes: in a [`Compare`](etcdserverpb::Compare) of
//! a range, etcd 3.7 encodes `range_end` before the comparison target, earlier releases and this
//! crate after it. That is harmless, because a request is encoded once, by the member that proposes
//! it.
//!
//! # Limits of the decoders
//!
//! - **Unknown fields are dropped**; etcd keeps them. So bytes that must be preserved, such as the
//!   data of an entry for a follower or a value for a range, are passed on as bytes and never
//!   re-encoded.
//! - **100 levels of messages** is the deepest that prost decodes; beyond that is an error, so that
//!   no request can exhaust the stack. Each nested transaction takes two levels, and etcd accepts
//!   10,000. [`nested`] decodes those.
//! - Strings must be UTF-8, in proto2 packages too.
//!
//! `bytes` fields are [`bytes::Bytes`](prost::bytes::Bytes): decoded from a `Bytes`, they share its
//! memory instead of copying it. A small field therefore keeps its whole buffer alive; copy what is
//! kept for long.
//!
//! Names follow Rust conventions: `KV` is `Kv`, `peerURLs` is `peer_urls`, `ID` is `id`.
//! `as_str_name` of an enum returns etcd's spelling.

/// The client API: keys, watches, leases, members, maintenance and auth. Also the same requests as
/// the log contains them, in [`InternalRaftRequest`](etcdserverpb::InternalRaftRequest).
#[expect(missing_docs, reason = "self-explanatory headers and fields have no comment")]
pub mod etcdserverpb {
    include!(concat!(env!("OUT_DIR"), "/etcdserverpb.rs"));
}

/// Keys and their events.
pub mod mvccpb {
    include!(concat!(env!("OUT_DIR"), "/mvccpb.rs"));
}

/// Consensus: the log, the messages between members, and the configuration.
#[expect(missing_docs, reason = "self-explanatory fields have no comment")]
pub mod raftpb {
    include!(concat!(env!("OUT_DIR"), "/raftpb.rs"));
}

/// The write-ahead log on disk.
#[expect(missing_docs, reason = "self-explanatory fields have no comment")]
pub mod walpb {
    include!(concat!(env!("OUT_DIR"), "/walpb.rs"));
}

/// Snapshot files.
pub mod snappb {
    include!(concat!(env!("OUT_DIR"), "/snappb.rs"));
}

/// Leases, on disk and between members.
#[expect(missing_docs, reason = "self-explanatory fields have no comment")]
pub mod leasepb {
    include!(concat!(env!("OUT_DIR"), "/leasepb.rs"));
}

/// Users and roles, as stored in the database.
#[expect(missing_docs, reason = "self-explanatory fields have no comment")]
pub mod authpb {
    include!(concat!(env!("OUT_DIR"), "/authpb.rs"));
}

/// Log entries in which a member publishes facts about itself and the cluster.
#[expect(missing_docs, reason = "self-explanatory fields have no comment")]
pub mod membershippb {
    include!(concat!(env!("OUT_DIR"), "/membershippb.rs"));
}

/// The lock service; a lock is held by a key under the lock's name.
#[expect(missing_docs, reason = "self-explanatory headers and fields have no comment")]
pub mod v3lockpb {
    include!(concat!(env!("OUT_DIR"), "/v3lockpb.rs"));
}

/// The election service; an election is won by a key under the election's name.
#[expect(missing_docs, reason = "self-explanatory headers and fields have no comment")]
pub mod v3electionpb {
    include!(concat!(env!("OUT_DIR"), "/v3electionpb.rs"));
}

/// gRPC's health service, the package `grpc.health.v1`.
#[expect(missing_docs, reason = "self-explanatory fields have no comment")]
pub mod health {
    include!(concat!(env!("OUT_DIR"), "/grpc.health.v1.rs"));
}

pub mod command;
pub mod fields;
pub mod nested;
pub mod repair;
pub mod shape;

/// All messages, enums and services as an encoded `google.protobuf.FileDescriptorSet`, for use at
/// run time.
///
/// The set contains two kinds of options that the generated types do not show:
///
/// - `versionpb.etcd_version_msg`, `_field`, `_enum` and `_enum_value`: the first etcd release that
///   knows the item. They determine the oldest release that can read a log.
/// - `google.api.http` on a method: its route in the JSON gateway.
///
/// Field names are etcd's own (`peerURLs`), as in JSON.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
