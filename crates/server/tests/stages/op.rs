//! The random requests of clients.

use bytes::Bytes;
use env::SeededRandom;
use membership::{Attributes, Change, Member, RaftAttributes};
use proto::command::Command;
use proto::etcdserverpb as pb;
use proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};

use server::{AppliedReply, Error, Proposal, Reply, Server};
use simkit::{RandomExt as _, poll_once};
use types::MemberId;

use crate::model::Model;

const KEYS: [&str; 9] = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
const LEASES: i64 = 5;
/// The share of long values, which fill a good part of a segment: one in this many.
const LONG_ONE_IN: u64 = 8;
const LONG_BYTES: usize = 700;
/// The maximum number of learners.
pub(crate) const LEARNERS_MAX: usize = 3;

/// A request.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Put {
        key: String,
        value: String,
        lease: i64,
    },
    /// Deletes the keys of a range.
    Delete {
        from: String,
        to: String,
    },
    /// Executes one of two branches, depending on the version of a key.
    Txn {
        key: String,
        version: i64,
        then: Branch,
        or_else: Branch,
    },
    Grant {
        id: i64,
        ttl: i64,
    },
    Revoke {
        id: i64,
    },
    Compact {
        revision: i64,
    },
    /// Adds a learner, which never connects.
    Join {
        learner: u64,
    },
    Leave {
        learner: u64,
    },
}

/// The puts of a branch, each of another key.
#[derive(Clone, Debug)]
pub(crate) struct Branch {
    pub(crate) puts: Vec<(String, String)>,
}

impl Op {
    /// Draws a request that is usually valid in the state of the model. Values contain `number`, so
    /// they are unique.
    pub(crate) fn draw(random: &mut SeededRandom, model: &Model, number: u64) -> Op {
        match random.below(20) {
            0..9 => Op::put(random, number),
            9..12 => {
                let [from, to] = [key(random), key(random)];
                Op::Delete { to: if from < to { to } else { format!("{from}\0") }, from }
            }
            12..15 => {
                let version = i64::try_from(random.below(3)).unwrap();
                let [then, or_else] = [(); 2].map(|()| Branch::draw(random, number));
                Op::Txn { key: key(random), version, then, or_else }
            }
            15..17 => Op::Grant { id: lease(random), ttl: 1000 + lease(random) },
            17 => Op::Revoke { id: lease(random) },
            _ => {
                let back = i64::try_from(random.below(8)).unwrap();
                Op::Compact { revision: (model.revision + 1 - back).max(1) }
            }
        }
    }

    /// Draws a conf change.
    pub(crate) fn draw_change(random: &mut SeededRandom, model: &Model, number: u64) -> Op {
        let learner = 1_000 + number;
        let first = model.learners.first();
        match first {
            Some(first) if model.learners.len() == LEARNERS_MAX || random.chance(1, 3) => {
                Op::Leave { learner: *first }
            }
            // No member has this id.
            None if random.chance(1, 5) => Op::Leave { learner },
            _ => Op::Join { learner },
        }
    }

    /// Proposes the operation.
    pub(crate) fn propose(&self, server: &Server) -> Result<Proposed, Error> {
        let change = |change: &Change| server.propose_conf_change(change).map(Proposed::ConfChange);
        let request = |command: Command| server.propose(command).map(Proposed::Request);
        match self {
            Op::Join { learner } => change(&Change::Add(member(*learner))),
            Op::Leave { learner } => change(&Change::Remove(MemberId(*learner))),
            Op::Put { key, value, lease } => request(put(key, value, *lease).into()),
            Op::Delete { from, to } => {
                let (key, range_end) = (bytes(from), bytes(to));
                request(pb::DeleteRangeRequest { key, range_end, prev_kv: false }.into())
            }
            Op::Txn { key, version, then, or_else } => {
                let compare = pb::Compare {
                    result: CompareResult::Equal.into(),
                    target: CompareTarget::Version.into(),
                    key: bytes(key),
                    target_union: Some(TargetUnion::Version(*version)),
                    ..pb::Compare::default()
                };
                let (success, failure) = (then.ops(), or_else.ops());
                request(pb::TxnRequest { compare: vec![compare], success, failure }.into())
            }
            Op::Grant { id, ttl } => request(pb::LeaseGrantRequest { id: *id, ttl: *ttl }.into()),
            Op::Revoke { id } => request(pb::LeaseRevokeRequest { id: *id }.into()),
            Op::Compact { revision } => {
                request(pb::CompactionRequest { revision: *revision, physical: false }.into())
            }
        }
    }

    pub(crate) fn put(random: &mut SeededRandom, number: u64) -> Op {
        let lease = if random.chance(1, 3) { lease(random) } else { 0 };
        Op::Put { key: key(random), value: value(random, number), lease }
    }
}

/// A proposed operation.
pub(crate) enum Proposed {
    Request(Proposal<AppliedReply<Reply>>),
    ConfChange(Proposal<()>),
}

/// The result of a proposed operation.
pub(crate) enum OpResult {
    Request(AppliedReply<Reply>),
    ConfChange(Result<(), membership::ConfChangeRefusal>),
}

impl Proposed {
    /// Returns the result, once there is one.
    pub(crate) fn poll(&mut self) -> Option<Result<OpResult, Error>> {
        match self {
            Proposed::Request(proposal) => Some(poll_once(proposal)?.map(OpResult::Request)),
            Proposed::ConfChange(proposal) => Some(match poll_once(proposal)? {
                Err(Error::Members(refused)) => Ok(OpResult::ConfChange(Err(refused))),
                result => result.map(|()| OpResult::ConfChange(Ok(()))),
            }),
        }
    }
}

fn bytes(text: &str) -> Bytes {
    Bytes::from(text.to_owned())
}

impl Branch {
    fn draw(random: &mut SeededRandom, number: u64) -> Branch {
        let (first, count) = (random.position(6), random.position(4));
        let keys = KEYS[first..first + count].iter();
        Branch { puts: keys.map(|key| ((*key).to_owned(), value(random, number))).collect() }
    }

    fn ops(&self) -> Vec<pb::RequestOp> {
        let op = |(key, value): &(String, String)| {
            let put = pb::request_op::Request::RequestPut(put(key, value, 0));
            pb::RequestOp { request: Some(put) }
        };
        self.puts.iter().map(op).collect()
    }
}

fn put(key: &str, value: &str, lease: i64) -> pb::PutRequest {
    let (key, value) = (key.to_owned().into(), value.to_owned().into());
    pb::PutRequest { key, value, lease, ..pb::PutRequest::default() }
}

fn member(learner: u64) -> Member {
    let peer_urls = vec![format!("http://learner{learner}:2380")];
    let raft = RaftAttributes { peer_urls, is_learner: true };
    Member { id: MemberId(learner), raft, attributes: Attributes::default() }
}

fn key(random: &mut SeededRandom) -> String {
    random.pick(&KEYS).to_owned()
}

fn value(random: &mut SeededRandom, number: u64) -> String {
    let len = if random.chance(1, LONG_ONE_IN) { LONG_BYTES } else { 0 };
    format!("{number:0len$}")
}

fn lease(random: &mut SeededRandom) -> i64 {
    1 + i64::try_from(random.below(u64::try_from(LEASES).unwrap())).unwrap()
}
