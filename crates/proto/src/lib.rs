//! The messages of etcd: what clients, peers and files say, to the byte.
//!
//! Everything here is generated from the files under `proto/`, which keep etcd's packages, names
//! and numbers, so that whatever etcd 3.4 to 3.7 wrote can be read, and what is written is what
//! etcd would have written. There is no behaviour in this crate and no service: the gRPC stubs are
//! in `rpc`, built from the same files onto the types of this crate. The one module written by hand
//! is [`command`]: the requests of the log as an enum.
//!
//! | module | where the bytes are found | who deals in them |
//! | --- | --- | --- |
//! | [`mvccpb`] | values of the bucket `key`; ranges and watch events | `mvcc`, `api` |
//! | [`etcdserverpb`] | client requests and answers; requests in the log; metadata of the log | `api`, `client`, `server`, `wal` |
//! | [`raftpb`] | log entries; messages between members | `raft`, `wal`, `peer` |
//! | [`walpb`] | records of the log on disk | `wal` |
//! | [`snappb`] | `.snap` files | `wal` |
//! | [`leasepb`] | values of the bucket `lease`; `/leases/internal` between members | `lease`, `peer` |
//! | [`authpb`] | values of the buckets `authUsers` and `authRoles` | `auth` |
//! | [`membershippb`] | entries of the log that publish what a member is | `membership`, `server` |
//! | [`v3lockpb`], [`v3electionpb`] | the two services that run recipes for clients | `api`, `client` |
//! | [`health`] | gRPC's health service, `grpc.health.v1` | `api` |
//!
//! The package `versionpb` has no module: it is marks on the other packages, to be read from
//! [`FILE_DESCRIPTOR_SET`].
//!
//! # Absent is not zero
//!
//! In the proto3 packages a field that is zero is not written. `raftpb`, `walpb`, `snappb` and two
//! messages of `etcdserverpb` ([`Metadata`](etcdserverpb::Metadata),
//! [`Request`](etcdserverpb::Request)) are proto2: each of their fields is an [`Option`], and is
//! written when it is `Some`, zero or not. Both readings mean the same to consensus, but not to a
//! checksum over the bytes, and the two styles meet in one log when a cluster is upgraded:
//!
//! ```
//! use prost::Message as _;
//! use proto::raftpb::{Entry, EntryType};
//!
//! // Up to 3.6 all scalar fields are written, also the zeros:  type 0 | term 0 | index 5
//! let old = [0x08, 0x00, 0x10, 0x00, 0x18, 0x05];
//! let entry = Entry::decode(&old[..])?;
//! assert_eq!((entry.r#type, entry.term, entry.index), (Some(0), Some(0), Some(5)));
//! assert_eq!(entry.encode_to_vec(), old);
//!
//! // 3.7 writes what was set:  index 5
//! let new = [0x18, 0x05];
//! let entry = Entry::decode(&new[..])?;
//! assert_eq!((entry.r#type, entry.term, entry.index), (None, None, Some(5)));
//! assert_eq!(entry.encode_to_vec(), new);
//!
//! // To read, take the methods named like the fields: absent is zero there.
//! assert_eq!((entry.r#type(), entry.term(), entry.index()), (EntryType::EntryNormal, 0, 5));
//! # Ok::<_, prost::DecodeError>(())
//! ```
//!
//! And where proto3 packs a list of numbers, proto2 does not: in a [`ConfState`](raftpb::ConfState)
//! there is a tag before each id.
//!
//! One message does not come back as it was: in a [`Compare`](etcdserverpb::Compare) of a range
//! etcd 3.7 writes `range_end` before what to compare with, earlier releases after it, as here.
//! That is harmless, since a request is encoded once, by the member that proposes it.
//!
//! # What the decoders do not keep or take
//!
//! - **Unknown fields are dropped**; etcd keeps them. So bytes that must survive as they are, such
//!   as the data of an entry for a follower or a value for a range, are passed on as bytes, never
//!   decoded and encoded again.
//! - **100 levels of messages** is the deepest that decodes; beyond that is an error, so that no
//!   request can exhaust the stack. Each transaction within a transaction takes two levels: 51 of
//!   them decode as a client sends them, but only 50 as the log holds them. So depth must be
//!   bounded before a request is proposed. etcd takes 10,000 levels, and bounds depth by
//!   `--max-txn-ops` alone.
//! - Strings must be UTF-8, in proto2 packages too.
//!
//! `bytes` fields are [`bytes::Bytes`](prost::bytes::Bytes): decoded from a `Bytes`, they share its
//! memory instead of copying. So a small field keeps the whole buffer it came in alive; copy what
//! is to be kept for long.
//!
//! Names follow Rust: `KV` is `Kv`, `peerURLs` is `peer_urls`, `ID` is `id`. Enums keep etcd's
//! spelling for `as_str_name`.

/// Reading and writing keys, watching them, leases, members, maintenance, users: the client API.
/// And the same requests as they stand in the log, in
/// [`InternalRaftRequest`](etcdserverpb::InternalRaftRequest).
#[expect(missing_docs, reason = "headers and fields that say what they are have no comment")]
pub mod etcdserverpb {
    include!(concat!(env!("OUT_DIR"), "/etcdserverpb.rs"));
}

/// Keys and what happens to them.
pub mod mvccpb {
    include!(concat!(env!("OUT_DIR"), "/mvccpb.rs"));
}

/// Consensus: the log, the messages between members, and who the members are.
#[expect(missing_docs, reason = "fields that say what they are have no comment")]
pub mod raftpb {
    include!(concat!(env!("OUT_DIR"), "/raftpb.rs"));
}

/// The write-ahead log on disk.
#[expect(missing_docs, reason = "fields that say what they are have no comment")]
pub mod walpb {
    include!(concat!(env!("OUT_DIR"), "/walpb.rs"));
}

/// Snapshot files.
pub mod snappb {
    include!(concat!(env!("OUT_DIR"), "/snappb.rs"));
}

/// Leases on disk and between members.
#[expect(missing_docs, reason = "fields that say what they are have no comment")]
pub mod leasepb {
    include!(concat!(env!("OUT_DIR"), "/leasepb.rs"));
}

/// Users and roles as the database holds them.
#[expect(missing_docs, reason = "fields that say what they are have no comment")]
pub mod authpb {
    include!(concat!(env!("OUT_DIR"), "/authpb.rs"));
}

/// What a member publishes about itself and the cluster, through the log.
#[expect(missing_docs, reason = "fields that say what they are have no comment")]
pub mod membershippb {
    include!(concat!(env!("OUT_DIR"), "/membershippb.rs"));
}

/// Locks, held by a key under the lock's name.
#[expect(missing_docs, reason = "headers and fields that say what they are have no comment")]
pub mod v3lockpb {
    include!(concat!(env!("OUT_DIR"), "/v3lockpb.rs"));
}

/// Elections among clients, each won by a key under the election's name.
#[expect(missing_docs, reason = "headers and fields that say what they are have no comment")]
pub mod v3electionpb {
    include!(concat!(env!("OUT_DIR"), "/v3electionpb.rs"));
}

/// Whether a server is well: the package `grpc.health.v1`.
#[expect(missing_docs, reason = "fields that say what they are have no comment")]
pub mod health {
    include!(concat!(env!("OUT_DIR"), "/grpc.health.v1.rs"));
}

pub mod command;
pub mod shape;

/// All messages, enums and services as an encoded `google.protobuf.FileDescriptorSet`, for those
/// who need names at run time.
///
/// Two kinds of option are in it that the generated types do not show:
///
/// - `versionpb.etcd_version_msg`, `_field`, `_enum` and `_enum_value`: the first etcd release that
///   knows the thing. From these follows the oldest release that can read a log.
/// - `google.api.http` on a method: its route in the JSON gateway.
///
/// Field names are etcd's own here (`peerURLs`), as JSON wants them.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
