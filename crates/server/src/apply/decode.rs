//! Decodes the request in a log entry.
//!
//! A member that cannot decode a committed entry cannot start. So the decoder accepts all that any
//! member may have written:
//!
//! - Members up to 3.4 published their attributes as requests to the v2 store; logs still hold
//!   them.
//! - Transactions may be nested deeper than prost decodes ([`proto::nested`]).

use membership::v2;
use prost::Message as _;
use proto::command::{NotACommand, RaftRequest};
use proto::etcdserverpb::{self as pb, InternalRaftRequest};
use proto::nested;
use raft::Entry;

use super::Fault;

pub(super) fn decode(entry: &Entry) -> Result<RaftRequest, Fault> {
    let source = match nested::decode_request(entry.data.clone()) {
        Ok(wire) => return from_wire(wire, entry),
        Err(source) => source,
    };
    match pb::Request::decode(entry.data.clone()) {
        Ok(v2) => from_v2(&v2),
        Err(_) => Err(Fault::Decode { index: entry.index, source }),
    }
}

fn from_wire(wire: InternalRaftRequest, entry: &Entry) -> Result<RaftRequest, Fault> {
    RaftRequest::try_from(wire).or_else(|not_a_command| match not_a_command {
        NotACommand::V2(v2) => from_v2(&v2),
        NotACommand::Empty => Err(Fault::Unknown(entry.index)),
    })
}

fn from_v2(request: &pb::Request) -> Result<RaftRequest, Fault> {
    Ok(v2::to_raft_request(request).map_err(membership::StopError::from)?)
}
