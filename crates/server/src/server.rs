//! The handle of a running member, for everything outside its stages.
//!
//! [`Server`] is cheap to clone. A write is proposed ([`Server::propose`]) and completes when the
//! local member has applied it. A read waits until the local member has applied everything that was
//! committed when it began ([`Server::linearizable`]), and then reads the [`StateMachine`] on the
//! caller's thread.

use std::sync::Arc;
use std::time::Duration;

use auth::AuthInfo;
use bytes::Bytes;
use env::Clock;
use membership::{Change, ClusterId};
use proto::command::{Command, RaftRequest};
use proto::etcdserverpb::{InternalRaftRequest, RequestHeader};
use proto::nested;
use sync::{Notify, Timers, oneshot};
use types::{Index, MemberId, Term};

use crate::config::ServerConfig;
use crate::context::MemberContext;
use crate::error::Error;
use crate::lifecycle::{Lifecycle, StopReason};
use crate::metrics::{Metrics, Op};
use crate::pipeline::log_status::LogStatus;
use crate::pipeline::raft_handle::RaftHandle;
use crate::pipeline::raft_loop::Event;
use crate::pipeline::worker_pools::WorkerPools;
use crate::planted_bug::{self, PlantedBug};
use crate::propose::Proposals;
use crate::propose::alarms::AlarmRaiser;
use crate::propose::pending::{Proposal, ProposalKind, ProposalResult};
use crate::propose::stage_timings::{RequestStage, StageTimings, TimingGuard};
use crate::propose::typed::{self, AppliedReply, Propose, RequestProposal};
use crate::read::applied_index::AppliedIndex;
use crate::read::read_index::ReadRequest;
use crate::snapshot::files::SnapshotFiles;
use crate::state::{StateHandle, StateMachine};
use crate::transport::Transport;

/// The maximum number of committed entries that are not applied. Beyond it requests are refused.
pub const APPLY_GAP_MAX: u64 = 5_000;
/// The bound for requests with priority, if the feature `PriorityRequest` is on.
pub const APPLY_GAP_PRIORITY_MAX: u64 = 2 * APPLY_GAP_MAX;

/// A running member.
#[derive(Clone, Debug)]
pub struct Server {
    pub(crate) inner: Arc<ServerInner>,
}

/// The handles of a running member. Each stage holds the ones that it needs.
#[derive(Debug)]
pub(crate) struct ServerInner {
    pub(crate) context: Arc<MemberContext>,
    pub(crate) lifecycle: Arc<Lifecycle>,
    pub(crate) raft: Arc<RaftHandle>,
    pub(crate) proposals: Arc<Proposals>,
    pub(crate) applied: Arc<AppliedIndex>,
    pub(crate) state: Arc<StateHandle>,
    pub(crate) snapshot_files: Arc<SnapshotFiles>,
    pub(crate) log_status: Arc<LogStatus>,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) alarms: AlarmRaiser,
    pub(crate) pools: WorkerPools,
    pub(crate) timers: Arc<Timers>,
    /// Wakes the compactor.
    pub(crate) compaction: Arc<Notify>,
}

impl ServerInner {
    pub(crate) fn new(
        context: MemberContext,
        state: StateMachine,
        transport: Arc<dyn Transport>,
    ) -> ServerInner {
        let MemberContext { config, disk, clock, metrics, local, .. } = &context;
        let raft = Arc::new(RaftHandle::new(!config.features.initial_corrupt_check));
        let timers = Arc::new(Timers::default());
        ServerInner {
            lifecycle: Arc::new(Lifecycle::new(Arc::clone(&raft), Arc::clone(&timers))),
            raft,
            proposals: Arc::new(Proposals::new(*local, clock, metrics)),
            applied: Arc::default(),
            state: Arc::new(StateHandle::new(state)),
            snapshot_files: Arc::new(SnapshotFiles::new(Arc::clone(disk), config.snap_path())),
            log_status: Arc::default(),
            transport,
            alarms: AlarmRaiser::default(),
            pools: WorkerPools::default(),
            timers,
            compaction: Arc::default(),
            context: Arc::new(context),
        }
    }
}

/// A request with its id, encoded and ready to be proposed.
struct EncodedRequest {
    id: u64,
    op: Op,
    since: Duration,
    data: Bytes,
}

impl EncodedRequest {
    fn kind(&self) -> ProposalKind {
        ProposalKind::Request { op: self.op, bytes: self.data.len(), since: self.since }
    }

    fn into_event(self, leader_term: Option<Term>) -> Event {
        Event::Propose { id: self.id, data: self.data, since: self.since, leader_term }
    }
}

impl Server {
    /// The id of the local member.
    pub fn local(&self) -> MemberId {
        self.inner.context.local
    }

    /// The id of the cluster.
    pub fn cluster_id(&self) -> ClusterId {
        self.inner.context.cluster_id
    }

    /// The configuration of the member.
    pub fn config(&self) -> &ServerConfig {
        &self.inner.context.config
    }

    /// The metrics of the member.
    pub fn metrics(&self) -> &Metrics {
        &self.inner.context.metrics
    }

    /// The state machine, as far as it is applied. Do not keep it: a snapshot may replace it.
    pub fn state(&self) -> Arc<StateMachine> {
        self.inner.state.get()
    }

    /// The time on the monotonic clock.
    pub fn now(&self) -> Duration {
        self.inner.context.now()
    }

    /// The clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.context.clock
    }

    /// The current term.
    pub fn term(&self) -> Term {
        self.inner.raft.progress.term()
    }

    /// The leader, if it is known.
    pub fn leader(&self) -> Option<MemberId> {
        self.inner.raft.progress.leader()
    }

    /// Returns whether the local member leads.
    pub fn is_leader(&self) -> bool {
        self.inner.raft.progress.is_leader()
    }

    /// The time without a leader; none while there is one.
    pub fn leaderless_for(&self) -> Option<Duration> {
        self.inner.raft.progress.leaderless_for(self.now())
    }

    /// Returns whether the local member is a learner.
    pub fn is_learner(&self) -> bool {
        self.state().cluster.is_learner()
    }

    /// The commit index.
    pub fn committed(&self) -> Index {
        self.inner.raft.progress.committed()
    }

    /// The applied index.
    pub fn applied(&self) -> Index {
        self.inner.applied.get()
    }

    /// Returns a new request id.
    pub fn next_id(&self) -> u64 {
        self.inner.proposals.ids.next()
    }

    /// Proposes a command in the name of the member itself.
    ///
    /// # Errors
    /// The command was not proposed. After `Ok`, it may be applied even if its future never
    /// completes.
    pub fn propose<P: Propose>(
        &self,
        request: P,
    ) -> Result<Proposal<AppliedReply<P::Reply>>, Error> {
        let command = request.into();
        self.check_apply_gap(&command)?;
        Ok(self.propose_timed::<P>(RequestHeader::default(), command, None)?.0)
    }

    /// Proposes a decision of the leader of `term`. It is dropped if the member does not lead in
    /// that term any more, because the next leader decides for itself. `caller` is the user in
    /// whose name it is applied.
    ///
    /// # Errors
    /// As for [`Server::propose`].
    pub(crate) fn propose_as_leader<P: Propose>(
        &self,
        caller: Option<&AuthInfo>,
        request: P,
        term: Term,
    ) -> Result<Proposal<AppliedReply<P::Reply>>, Error> {
        let command = request.into();
        self.check_apply_gap(&command)?;
        let mut header = RequestHeader::default();
        caller.into_iter().for_each(|caller| caller.write_to(&mut header));
        let encoded = self.encode(header, command)?;
        let (pending, extract) = (&self.inner.proposals.pending, AppliedReply::of::<P>);
        let proposal = pending.register(encoded.id, encoded.kind(), extract)?;
        self.submit(encoded.into_event(Some(term)))?;
        Ok(proposal)
    }

    /// Proposes the command of a request `P` after [`Server::check_apply_gap`]. While the guard
    /// exists, the stages record in `timings` when they reach the proposal.
    pub(crate) fn propose_timed<P: Propose>(
        &self,
        header: RequestHeader,
        command: Command,
        timings: Option<&Arc<StageTimings>>,
    ) -> Result<(RequestProposal<P>, Option<TimingGuard<'_>>), Error> {
        let encoded = self.encode(header, command)?;
        let (proposals, extract) = (&self.inner.proposals, AppliedReply::of::<P>);
        let proposal = proposals.pending.register(encoded.id, encoded.kind(), extract)?;
        if let Some(timings) = timings {
            timings.record(RequestStage::Proposed, encoded.since);
        }
        let guard = proposals.timed.track(encoded.id, timings);
        self.submit(encoded.into_event(None))?;
        Ok((proposal, guard))
    }

    /// Proposes a command and passes its result to `callback`. With a leader term, the command is
    /// conditional as for [`Server::propose_as_leader`].
    ///
    /// # Errors
    /// As for [`Server::propose`]. The callback may or may not have been called with the error.
    pub(crate) fn propose_with_callback<P: Propose>(
        &self,
        request: P,
        leader_term: Option<Term>,
        callback: impl FnOnce(Result<AppliedReply<P::Reply>, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        let command = request.into();
        self.check_apply_gap(&command)?;
        let encoded = self.encode(RequestHeader::default(), command)?;
        let callback = |result: ProposalResult| callback(result.and_then(AppliedReply::of::<P>));
        let pending = &self.inner.proposals.pending;
        pending.register_callback(encoded.id, encoded.kind(), callback)?;
        self.submit(encoded.into_event(leader_term))
    }

    /// Proposes a conf change. It has no timeout: it waits until it is applied, the future is
    /// dropped, or the member stops.
    ///
    /// # Errors
    /// As for [`Server::propose`].
    pub fn propose_conf_change(&self, change: &Change) -> Result<Proposal<()>, Error> {
        let id = self.next_id();
        let (pending, extract) = (&self.inner.proposals.pending, typed::conf_change_result);
        let proposal = pending.register(id, ProposalKind::ConfChange, extract)?;
        let change = change.to_conf_change(Some(id));
        // A start in the infinite future never times out.
        self.submit(Event::ProposeConfChange { id, change, since: Duration::MAX })?;
        Ok(proposal)
    }

    /// Assigns the request id and encodes the entry.
    fn encode(&self, mut header: RequestHeader, command: Command) -> Result<EncodedRequest, Error> {
        let (id, op, since) = (self.next_id(), Op::of(&command), self.now());
        header.id = id;
        let mut request = InternalRaftRequest::from(RaftRequest::new(header, command));
        let data = Bytes::from(nested::encode_request(&mut request));
        if data.len() > self.config().max_request_bytes {
            self.count_too_large(op, since);
            return Err(Error::RequestTooLarge);
        }
        Ok(EncodedRequest { id, op, since, data })
    }

    /// Compat: as in etcd, a request that is too large counts as a success.
    fn count_too_large(&self, op: Op, since: Duration) {
        let took = self.now().saturating_sub(since);
        self.metrics().request_duration.observe(op, true, took);
    }

    fn submit(&self, event: Event) -> Result<(), Error> {
        if self.inner.raft.push_deferred(event) { Ok(()) } else { Err(Error::Stopped) }
    }

    /// Refuses a request if the applied index is too far behind the commit index.
    pub(crate) fn check_apply_gap(&self, command: &Command) -> Result<(), Error> {
        let is_revoke = matches!(command, Command::LeaseRevoke(_));
        let priority = self.config().features.priority_request && is_revoke;
        let gap_max = if priority { APPLY_GAP_PRIORITY_MAX } else { APPLY_GAP_MAX };
        // The commit index is read first, so that the gap is never overestimated.
        let committed = self.committed().0;
        if committed > self.applied().0.saturating_add(gap_max) {
            return Err(Error::TooManyRequests);
        }
        Ok(())
    }

    /// Returns once the local member has applied everything that any member had committed at the
    /// time of the call.
    ///
    /// # Errors
    /// The read index could not be determined.
    pub async fn linearizable(&self) -> Result<(), Error> {
        self.linearizable_timed(None).await
    }

    /// Waits as [`Server::linearizable`] does. The raft loop records in `timings` when the read
    /// index is known.
    pub(crate) async fn linearizable_timed(
        &self,
        timings: Option<Arc<StageTimings>>,
    ) -> Result<(), Error> {
        // A sole leader has applied every acknowledged write, and no other member can commit one.
        // Should another member come to lead, then only after this read began: the raft loop resets
        // the flag before it processes a vote of another member.
        let skips_quorum =
            planted_bug::is_planted(PlantedBug::ReadWithoutQuorum) && self.is_leader();
        if self.inner.raft.progress.is_sole_leader() || skips_quorum {
            return Ok(());
        }
        let (waiter, confirmed) = oneshot::channel();
        self.inner.raft.push(Event::ReadIndex(ReadRequest { waiter, timings }));
        confirmed.await.unwrap_or(Err(Error::Stopped))
    }

    /// Returns once an index is applied. There is no timeout: the caller drops the future to give
    /// up.
    ///
    /// # Errors
    /// The member stops.
    pub async fn wait_applied(&self, index: Index) -> Result<(), Error> {
        if self.applied() >= index {
            return Ok(());
        }
        let (waiter, applied) = oneshot::channel();
        self.inner.applied.notify_at(index, waiter);
        applied.await.unwrap_or(Err(Error::Stopped))
    }

    /// The state of consensus, with the progress of peers if the local member leads.
    ///
    /// # Errors
    /// The member stops.
    pub async fn raft_status(&self) -> Result<raft::Status, Error> {
        let (sender, status) = oneshot::channel();
        self.inner.raft.push(Event::Status(sender));
        status.await.map_err(|_| Error::Stopped)
    }

    /// Starts the transfer of leadership to another member.
    pub fn transfer_leader(&self, to: MemberId) {
        self.inner.raft.push(Event::TransferLeader(to));
    }

    /// Returns after a time.
    ///
    /// # Errors
    /// The member stops, and its timers with it: a loop that sleeps must end.
    pub async fn sleep(&self, time: Duration) -> Result<(), Error> {
        let deadline = self.now().saturating_add(time);
        self.inner.timers.sleep_until(deadline).await.map_err(|_| Error::Stopped)
    }

    /// The duration of the write to the log that is in progress, if there is one.
    pub fn log_busy_for(&self) -> Option<Duration> {
        self.inner.log_status.busy_for(|| self.now())
    }

    /// The transport to peers.
    pub fn transport(&self) -> &Arc<dyn Transport> {
        &self.inner.transport
    }

    /// Returns when the member stops, with the reason.
    pub async fn stopped(&self) -> StopReason {
        self.inner.lifecycle.stopped().await
    }

    /// Returns whether the member is stopping or has stopped.
    pub fn is_stopping(&self) -> bool {
        self.inner.lifecycle.is_stopping()
    }
}
