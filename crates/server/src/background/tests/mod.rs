//! Background tasks on a member without a pipeline: the test takes their proposals from the queue,
//! applies them and completes them.

mod compaction;
mod leases;
mod publish;
mod purge;
mod stall;
mod versions;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::quota::Quota;
use auth::{AuthStore, Cost, Tokens};
use backend::Backend;
use env::{Clock, SimClock, SimDisk};
use membership::{Cluster, ClusterId, LEARNERS_MAX_DEFAULT, Member, Membership};
use mvcc::watch;
use prometheus::Registry;
use prost::Message as _;
use proto::etcdserverpb as pb;
use proto::etcdserverpb::InternalRaftRequest;
use raft::{Entry, EntryType};
use types::{Index, MemberId, Term};

use crate::apply::{Applied, Reply};
use crate::config::ServerConfig;
use crate::context::MemberContext;
use crate::error::Error;
use crate::metrics::Metrics;
use crate::pipeline::raft_loop::Event;
use crate::pipeline::voters::Voters;
use crate::propose::pending::AppliedProposal;
use crate::server::{Server, ServerInner};
use crate::state::{Config, StateMachine};
use crate::transport::NoPeers;
use sync::oneshot;

pub(super) const LOCAL: MemberId = MemberId(1);
pub(super) const SECOND: Duration = Duration::from_secs(1);
const TERM: Term = Term(2);

/// A member without threads, driven by a test.
pub(crate) struct ManualMember {
    pub(crate) server: Server,
    pub(super) clock: SimClock,
    applied: u64,
    voters: Voters,
    /// The proposals taken from the queue so far.
    pub(crate) proposed: Vec<(u64, InternalRaftRequest)>,
    /// The waiters of linearizable reads.
    pub(super) reads: Vec<oneshot::Sender<Result<(), Error>>>,
}

impl ManualMember {
    pub(crate) fn new() -> ManualMember {
        ManualMember::with(|_| {})
    }

    /// Creates a member with a changed configuration.
    pub(crate) fn with(change: impl FnOnce(&mut ServerConfig)) -> ManualMember {
        let mut config = ServerConfig::new("default", "/data");
        change(&mut config);
        let (disk, clock) = (SimDisk::new(0), SimClock::default());
        let state = state(&disk, &clock, &config);
        let context = MemberContext {
            local: LOCAL,
            cluster_id: ClusterId(7),
            config,
            disk: Arc::new(disk),
            clock: Arc::new(clock.clone()),
            metrics: Metrics::new(&Registry::new()).unwrap(),
        };
        let inner = ServerInner::new(context, state, Arc::new(NoPeers));
        let server = Server { inner: Arc::new(inner) };
        let (proposed, reads) = (Vec::new(), Vec::new());
        ManualMember { server, clock, applied: 0, voters: Voters::default(), proposed, reads }
    }

    /// Makes this member the sole leader, with a primary lessor.
    pub(crate) fn lead(&mut self) {
        let now = self.now();
        self.server.inner.raft.progress.set_leader(Some(LOCAL), true, now);
        self.server.inner.raft.progress.set_sole_leader(true);
        self.server.state().lessor.promote(Duration::ZERO, now);
    }

    /// Makes another member the leader.
    pub(super) fn follow(&mut self) {
        let now = self.now();
        self.server.inner.raft.progress.set_leader(Some(MemberId(2)), false, now);
        self.server.inner.raft.progress.set_sole_leader(false);
        self.server.state().lessor.demote();
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    pub(crate) fn advance(&mut self, time: Duration) -> Duration {
        self.clock.advance(time);
        self.now()
    }

    /// Takes proposals and reads from the queue of the raft loop.
    pub(crate) fn take_events(&mut self) {
        let mut events = Vec::new();
        self.server.inner.raft.queue.take(&mut events);
        for event in events {
            match event {
                Event::Propose { id, data, .. } => {
                    self.proposed.push((id, InternalRaftRequest::decode(data).unwrap()));
                }
                Event::ReadIndex(read) => self.reads.push(read.waiter),
                _ => {}
            }
        }
    }

    /// Takes the requests that were proposed since the last call.
    pub(super) fn take_proposed(&mut self) -> Vec<InternalRaftRequest> {
        self.take_events();
        self.proposed.drain(..).map(|(_, request)| request).collect()
    }

    /// Applies all proposals and completes their waiters.
    pub(crate) fn complete_all(&mut self) -> Vec<InternalRaftRequest> {
        self.take_events();
        let proposed = std::mem::take(&mut self.proposed);
        for (id, request) in &proposed {
            let answer = self.apply(request);
            self.server.inner.proposals.pending.complete(*id, Ok(answer));
        }
        proposed.into_iter().map(|(_, request)| request).collect()
    }

    /// Fails all proposals.
    pub(crate) fn fail_all(&mut self, error: &Error) {
        self.take_events();
        for (id, _) in std::mem::take(&mut self.proposed) {
            self.server.inner.proposals.pending.complete(id, Err(error.clone()));
        }
    }

    /// Applies a request as the next entry of the log.
    pub(super) fn apply(&mut self, request: &InternalRaftRequest) -> AppliedProposal {
        self.applied += 1;
        let entry = Entry {
            term: TERM,
            index: Index(self.applied),
            kind: EntryType::Normal,
            data: request.encode_to_vec().into(),
            ..Entry::default()
        };
        let state = self.server.state();
        match state.apply(&entry, &|_| true, &mut self.voters).unwrap() {
            Applied::Request(outcome) => {
                let result = outcome.result.unwrap();
                AppliedProposal::Request { revision: outcome.revision, result }
            }
            other => panic!("{other:?}"),
        }
    }

    /// Applies a request that must succeed.
    pub(crate) fn apply_ok(&mut self, request: &InternalRaftRequest) -> Reply {
        match self.apply(request) {
            AppliedProposal::Request { result, .. } => result.unwrap(),
            AppliedProposal::ConfChange(_) => panic!("expected the result of a request"),
        }
    }

    /// Replaces the state by a snapshot without keys, as the applier does.
    pub(crate) fn receive_empty_snapshot(&mut self) {
        let (disk, clock) = (SimDisk::new(0), self.clock.clone());
        let sent = state(&disk, &clock, self.server.config()).backend;
        let successor = self.server.state().successor(sent).unwrap();
        self.server.inner.state.replace(Arc::new(successor));
    }

    pub(crate) fn put(&mut self, key: &str) {
        let put = pb::PutRequest { key: key.to_owned().into(), ..pb::PutRequest::default() };
        self.apply_ok(&InternalRaftRequest { put: Some(put), ..header() });
    }
}

pub(crate) fn header() -> InternalRaftRequest {
    let header = Some(pb::RequestHeader { id: 1, ..pb::RequestHeader::default() });
    InternalRaftRequest { header, ..InternalRaftRequest::default() }
}

fn state(disk: &SimDisk, clock: &SimClock, config: &ServerConfig) -> StateMachine {
    let clock: Arc<dyn Clock> = Arc::new(clock.clone());
    let (disk, path) = (Arc::new(disk.clone()), Path::new("db"));
    let backend =
        Backend::open(disk, Arc::clone(&clock), path, backend::Config::default()).unwrap();
    let tokens = Tokens::simple(config.auth_token_ttl);
    let auth = AuthStore::new(tokens, Arc::clone(&clock), Cost::new(4));
    let member =
        Member { id: LOCAL, ..Member::at_bootstrap("default", config.peer_urls.clone(), "token") };
    let members = Membership::of([member]);
    let cluster = Cluster::new(ClusterId(7), LOCAL, LEARNERS_MAX_DEFAULT, members);
    let lease =
        lease::Config { checkpoint: config.features.lease_checkpoint, ..lease::Config::default() };
    let config = Config {
        store: mvcc::Config::default(),
        lease,
        watch: watch::Config::default(),
        wake_watch: Arc::new(|| {}),
        quota: Quota::new(config.quota_backend_bytes),
    };
    StateMachine::open(backend, clock, auth, cluster, config).unwrap()
}

mod all {
    use super::super::{BackgroundTasks, TURN_MAX};
    use super::*;

    #[test]
    fn a_starting_member_publishes_and_decides_the_cluster_version() {
        let mut member = ManualMember::new();
        let mut tasks = BackgroundTasks::new(member.server.clone());
        let mut waiting = tasks.published().wait();
        member.lead();
        let now = member.now();
        tasks.turn(now);
        let requests = member.complete_all();
        assert!(requests[0].cluster_member_attr_set.is_some());
        assert_eq!(requests[1].cluster_version_set.as_ref().unwrap().ver, "3.7.0");
        assert_eq!(waiting.try_recv(), Ok(None));
        tasks.turn(now);
        assert_eq!(waiting.try_recv(), Ok(Some(())));
        assert_eq!(
            tasks.published().wait().try_recv(),
            Ok(Some(())),
            "later waiters resolve at once"
        );
    }

    #[test]
    fn an_idle_member_takes_turns_at_the_longest_interval() {
        let mut member = ManualMember::new();
        member.follow();
        let decided = proto::membershippb::ClusterVersionSetRequest { ver: "3.7.0".to_owned() };
        member.apply_ok(&InternalRaftRequest { cluster_version_set: Some(decided), ..header() });
        let mut tasks = BackgroundTasks::new(member.server.clone());
        let now = member.now();
        tasks.turn(now);
        member.complete_all();
        // Closing the pool drops its jobs, since it has no threads.
        member.server.inner.pools.close();
        tasks.turn(now);
        assert_eq!(tasks.turn(now), TURN_MAX);
    }
}
