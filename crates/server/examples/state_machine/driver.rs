//! The log, and the requests about keys and leases.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use auth::{AuthInfo, AuthStore, Cost, Tokens};
use backend::{Backend, CommitThread};
use bytes::{Bytes, BytesMut};
use env::{Clock, OsClock, OsDisk, SeededRandom};
use membership::quota::Quota;
use membership::{Cluster, ClusterId, LEARNERS_MAX_DEFAULT, Membership};
use mvcc::{CompactionTurn, Response, check, txn};
use prost::Message;
use proto::etcdserverpb as pb;
use proto::raftpb::{ConfChange, ConfState};
use raft::Entry;
use server::{Applied, ConfChanges, Config, Outcome, Refusal, Reply, StateMachine};
use types::{Index, LeaseId, MemberId, Term};

use crate::answer::{Refused, with_header};
use crate::watch::Streams;

/// A request.
pub(crate) struct Frame {
    pub(crate) method: u8,
    pub(crate) user: String,
    pub(crate) payload: Bytes,
}

/// An answer: a message, or why there is none.
pub(crate) type Answer = Result<Bytes, Refused>;

/// The state machine, and the log that it is the only one to write.
pub(crate) struct Driver {
    folder: Box<Path>,
    clock: Arc<OsClock>,
    ttl_min: i64,
    pub(crate) machine: StateMachine,
    committer: CommitThread,
    index: Index,
    pub(crate) streams: Streams,
    pub(crate) random: SeededRandom,
}

/// The cheapest hash there is: it is not what is being tested.
const COST: u32 = 4;

/// Etcd's `--max-request-bytes`, unless it says otherwise.
const REQUEST_BYTES_MAX: usize = 3 << 19;

/// Ids of leases that nobody chose.
const GENERATED: i64 = 1 << 62;

/// A promoted lease has a little longer, and nothing here takes long.
const NO_EXTENSION: std::time::Duration = std::time::Duration::ZERO;

impl Driver {
    pub(crate) fn open(folder: &Path, ttl_min: i64) -> anyhow::Result<Driver> {
        let clock = Arc::new(OsClock::default());
        let machine = open(folder, &clock, ttl_min)?;
        let committer = CommitThread::spawn(&machine.backend)?;
        let index = machine.applied()?.0;
        let streams = Streams::default();
        let random = SeededRandom::new(0);
        Ok(Driver {
            folder: folder.into(),
            clock,
            ttl_min,
            machine,
            committer,
            index,
            streams,
            random,
        })
    }

    pub(crate) fn close(self) -> anyhow::Result<()> {
        let Driver { machine, streams, committer, .. } = self;
        drop(streams);
        committer.stop()?;
        let StateMachine { backend, store, .. } = machine;
        drop(store);
        Ok(backend.close()?)
    }

    pub(crate) fn answer(&mut self, frame: &Frame) -> anyhow::Result<Answer> {
        match frame.method {
            1 => self.range(frame),
            2..=4 => self.write(frame),
            5 => self.compact(frame),
            6..=9 => self.lease(frame),
            10 => self.hash_kv(frame),
            20..=35 => self.users(frame),
            40 => self.watch(frame),
            41 => self.drain(frame),
            42 => self.alarm(frame),
            50 => self.restart(),
            other => bail!("unknown method {other}"),
        }
    }

    /// Who asks. With no name, nobody.
    pub(crate) fn caller(&self, frame: &Frame) -> AuthInfo {
        match frame.user.as_str() {
            "" => AuthInfo::default(),
            user => AuthInfo { username: user.to_owned(), revision: self.machine.auth.revision() },
        }
    }

    /// Likewise, if there is anybody.
    pub(crate) fn caller_if_any(&self, frame: &Frame) -> Option<AuthInfo> {
        (!frame.user.is_empty()).then(|| self.caller(frame))
    }

    /// Appends a request to the log and applies it.
    pub(crate) fn propose(
        &mut self,
        frame: &Frame,
        request: pb::InternalRaftRequest,
    ) -> anyhow::Result<Result<(Reply, i64), Refused>> {
        let index = self.index.next();
        let mut header = pb::RequestHeader { id: index.0, ..pb::RequestHeader::default() };
        if self.machine.auth.enabled() {
            self.caller(frame).write_to(&mut header);
        }
        let request = pb::InternalRaftRequest { header: Some(header), ..request };
        let data = Bytes::from(request.encode_to_vec());
        if data.len() > REQUEST_BYTES_MAX {
            return Ok(Err(Refused::too_large()));
        }
        let entry = Entry { term: Term(1), index, data, ..Entry::default() };
        self.index = index;
        match self.machine.apply(&entry, &|_| true, &mut NoConfChanges)? {
            Applied::Request(Outcome { revision, result: Some(result), .. }) => Ok(result
                .map(|reply| (reply, revision))
                .map_err(|refusal: Refusal| Refused::from(&refusal))),
            other => bail!("applying a request gave {other:?}"),
        }
    }

    fn range(&mut self, frame: &Frame) -> anyhow::Result<Answer> {
        let request = pb::RangeRequest::decode(frame.payload.clone())?;
        if let Err(refused) = check::range(&request) {
            return Ok(Err(refused.into()));
        }
        if let Err(error) = self.machine.auth.check_range(&self.caller(frame), &request) {
            return Ok(Err((&error).into()));
        }
        Ok(self.machine.store.range(&request).map(|range| encode(&range)).map_err(|e| (&e).into()))
    }

    fn write(&mut self, frame: &Frame) -> anyhow::Result<Answer> {
        let payload = frame.payload.clone();
        let mut request = pb::InternalRaftRequest::default();
        let checked = match frame.method {
            2 => check::put(request.put.insert(pb::PutRequest::decode(payload)?)),
            3 => check::delete_range(
                request.delete_range.insert(pb::DeleteRangeRequest::decode(payload)?),
            ),
            _ => check::txn(
                request.txn.insert(pb::TxnRequest::decode(payload)?),
                check::TXN_OPS_MAX_DEFAULT,
            ),
        };
        if let Err(refused) = checked {
            return Ok(Err(refused.into()));
        }
        if let Some(txn) = request.txn.as_ref().filter(|txn| txn::is_read_only(txn)) {
            return Ok(self.read_txn(frame, txn));
        }
        Ok(self.propose(frame, request)?.map(|(reply, _)| match reply {
            Reply::Put(put) => encode(&put),
            Reply::DeleteRange(delete) => encode(&delete),
            Reply::Txn(txn) => encode(&txn),
            other => unreachable!("{other:?} answers something else"),
        }))
    }

    fn read_txn(&self, frame: &Frame, request: &pb::TxnRequest) -> Answer {
        let caller = self.caller(frame);
        let leases = NoKeys;
        self.machine
            .auth
            .check_txn(&caller, request, &leases)
            .map_err(|error| Refused::from(&error))?;
        let result = self.machine.store.read_txn(request).map_err(|error| Refused::from(&error))?;
        Ok(encode(&result))
    }

    fn compact(&mut self, frame: &Frame) -> anyhow::Result<Answer> {
        if let Err(error) = self.machine.auth.check_admin(self.caller_if_any(frame).as_ref()) {
            return Ok(Err((&error).into()));
        }
        let compaction = Some(pb::CompactionRequest::decode(frame.payload.clone())?);
        let request = pb::InternalRaftRequest { compaction, ..pb::InternalRaftRequest::default() };
        let answer = self.propose(frame, request)?;
        while self.machine.store.turn_compaction()? != CompactionTurn::Idle {}
        Ok(answer.map(|(_, revision)| with_header(revision, &pb::CompactionResponse::default())))
    }

    fn lease(&mut self, frame: &Frame) -> anyhow::Result<Answer> {
        let payload = frame.payload.clone();
        let mut request = pb::InternalRaftRequest::default();
        let caller = self.caller_if_any(frame);
        if let Err(error) = self.machine.auth.check_any_user(caller.as_ref()) {
            return Ok(Err((&error).into()));
        }
        match frame.method {
            6 => {
                let grant = request.lease_grant.insert(pb::LeaseGrantRequest::decode(payload)?);
                if grant.id == 0 {
                    // Whoever does not choose an id gets one.
                    grant.id = GENERATED | self.index.0.cast_signed();
                }
            }
            7 => request.lease_revoke = Some(pb::LeaseRevokeRequest::decode(payload)?),
            8 => return self.time_to_live(frame),
            _ => return Ok(self.leases(frame)),
        }
        Ok(self.propose(frame, request)?.map(|(reply, revision)| match reply {
            Reply::LeaseGrant { id, ttl } => with_header(
                revision,
                &pb::LeaseGrantResponse { id, ttl, ..pb::LeaseGrantResponse::default() },
            ),
            _ => with_header(revision, &pb::LeaseRevokeResponse::default()),
        }))
    }

    fn time_to_live(&mut self, frame: &Frame) -> anyhow::Result<Answer> {
        let request = pb::LeaseTimeToLiveRequest::decode(frame.payload.clone())?;
        let (id, machine) = (LeaseId(request.id), &self.machine);
        let caller = self.caller_if_any(frame);
        let leases = Keys(&machine.lessor);
        if let Err(error) =
            machine.auth.check_lease_time_to_live(caller.as_ref(), &request, &leases)
        {
            return Ok(Err((&error).into()));
        }
        let mut response =
            pb::LeaseTimeToLiveResponse { id: request.id, ttl: -1, ..Default::default() };
        if let Some(found) = machine.lessor.time_to_live(id, self.clock.monotonic()) {
            response.ttl = found.remaining.unwrap_or(-1);
            response.granted_ttl = found.granted;
            if request.keys {
                response.keys = machine.lessor.keys_of(id).unwrap_or_default();
            }
        }
        Ok(Ok(with_header(machine.store.current(), &response)))
    }

    fn leases(&self, frame: &Frame) -> Answer {
        let machine = &self.machine;
        let ids = machine.lessor.leases();
        let caller = self.caller_if_any(frame);
        machine
            .auth
            .check_lease_leases(caller.as_ref(), ids.iter().copied(), &Keys(&machine.lessor))
            .map_err(|error| Refused::from(&error))?;
        let leases = ids.into_iter().map(|id| pb::LeaseStatus { id: id.0 }).collect();
        let response = pb::LeaseLeasesResponse { leases, ..Default::default() };
        Ok(with_header(machine.store.current(), &response))
    }

    fn hash_kv(&mut self, frame: &Frame) -> anyhow::Result<Answer> {
        let request = pb::HashKvRequest::decode(frame.payload.clone())?;
        if let Err(error) = self.machine.auth.check_admin(self.caller_if_any(frame).as_ref()) {
            return Ok(Err((&error).into()));
        }
        let hashed = self.machine.store.hash_kv(request.revision);
        Ok(hashed.map_err(|error| Refused::from(&error)).map(|(hash, current)| {
            let response = pb::HashKvResponse {
                hash: hash.hash,
                compact_revision: hash.compact_revision,
                hash_revision: hash.revision,
                ..Default::default()
            };
            with_header(current, &response)
        }))
    }

    fn alarm(&mut self, frame: &Frame) -> anyhow::Result<Answer> {
        let alarm = pb::AlarmRequest::decode(frame.payload.clone())?;
        let caller = self.caller_if_any(frame);
        if let Err(error) = self.machine.auth.check_alarm(caller.as_ref(), &alarm) {
            return Ok(Err((&error).into()));
        }
        let request = pb::InternalRaftRequest { alarm: Some(alarm), ..Default::default() };
        Ok(self.propose(frame, request)?.map(|(reply, revision)| match reply {
            Reply::Alarm(response) => with_header(revision, &response),
            other => unreachable!("{other:?} answers something else"),
        }))
    }

    /// Closes everything, and takes up again what the files hold. Streams are gone.
    fn restart(&mut self) -> anyhow::Result<Answer> {
        self.streams = Streams::default();
        let aside = Driver::open(&self.folder.join("aside"), self.ttl_min)?;
        std::mem::replace(self, aside).close()?;
        let folder = self.folder.parent().context("a folder above the one aside")?.to_owned();
        let opened = Driver::open(&folder, self.ttl_min)?;
        std::mem::replace(self, opened).close()?;
        Ok(Ok(Bytes::new()))
    }
}

fn open(folder: &Path, clock: &Arc<OsClock>, ttl_min_seconds: i64) -> anyhow::Result<StateMachine> {
    std::fs::create_dir_all(folder)?;
    let disk = Arc::new(OsDisk);
    let clock: Arc<dyn Clock> = Arc::clone(clock) as _;
    let path = folder.join("db");
    let backend = Backend::open(disk, Arc::clone(&clock), &path, backend::Config::default())?;
    let auth = AuthStore::new(Tokens::simple(NO_EXTENSION), Arc::clone(&clock), Cost::new(COST));
    let (id, local) = (ClusterId(1), MemberId(1));
    let cluster = Cluster::new(id, local, LEARNERS_MAX_DEFAULT, Membership::default());
    let config = Config {
        store: mvcc::Config::default(),
        lease: lease::Config { ttl_min_seconds, ..lease::Config::default() },
        watch: mvcc::watch::Config::new(1),
        wake_watch: Arc::new(|| {}),
        quota: Quota::new(0),
    };
    let machine = StateMachine::open(backend, Arc::clone(&clock), auth, cluster, config)?;
    machine.lessor.promote(NO_EXTENSION, clock.monotonic());
    Ok(machine)
}

fn encode(response: &dyn Response) -> Bytes {
    let header = pb::ResponseHeader { revision: response.revision(), ..Default::default() };
    let mut out = BytesMut::new();
    response.encode(&header, &mut out);
    out.freeze()
}

/// The keys of leases.
struct Keys<'a>(&'a lease::Lessor);

impl auth::LeaseKeys for Keys<'_> {
    fn keys_of(&self, id: LeaseId) -> Vec<Bytes> {
        self.0.keys_of(id).unwrap_or_default()
    }
}

/// A transaction that only reads attaches nothing.
struct NoKeys;

impl auth::LeaseKeys for NoKeys {
    fn keys_of(&self, _: LeaseId) -> Vec<Bytes> {
        Vec::new()
    }
}

struct NoConfChanges;

impl ConfChanges for NoConfChanges {
    fn apply(&mut self, _: Index, _: &ConfChange) -> ConfState {
        unreachable!("nobody proposes any")
    }
}

/// Streams by number.
pub(crate) type Numbered<T> = BTreeMap<u32, T>;
