//! The handle of a running member, for everything outside its stages.
//!
//! [`Server`] is cheap to clone. A write is proposed ([`Server::propose`]) and completes when the
//! local member has applied it. A read waits until the local member has applied everything that was
//! committed when it began ([`Server::linearizable`]), and then reads the [`StateMachine`] on the
//! caller's thread.

use std::sync::Arc;
use std::time::Duration;

use env::Clock;
use membership::{Change, ClusterId, Membership};
use sync::{Notify, Timers, oneshot};
use types::{Index, MemberId, Term};

use crate::config::ServerConfig;
use crate::context::MemberContext;
use crate::error::Error;
use crate::lifecycle::{Lifecycle, StopReason};
use crate::metrics::Metrics;
use crate::pipeline::log_status::LogStatus;
use crate::pipeline::raft_handle::RaftHandle;
use crate::pipeline::raft_loop::Event;
use crate::pipeline::worker_pools::WorkerPools;
use crate::planted_bug::{self, PlantedBug};
use crate::propose::Proposals;
use crate::propose::alarms::AlarmProposer;
use crate::propose::pending::Proposal;
use crate::propose::proposer::Proposer;
use crate::propose::stage_timings::StageTimings;
use crate::propose::typed::{AppliedReply, Propose};
use crate::read::applied_index::AppliedIndex;
use crate::read::read_index::ReadRequest;
use crate::snapshot::files::SnapshotFiles;
use crate::state::{StateHandle, StateMachine};
use crate::transport::Transport;

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
    pub(crate) proposer: Proposer,
    pub(crate) alarms: AlarmProposer,
    pub(crate) state: Arc<StateHandle>,
    pub(crate) snapshot_files: Arc<SnapshotFiles>,
    pub(crate) log_status: Arc<LogStatus>,
    pub(crate) transport: Arc<dyn Transport>,
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
        let context = Arc::new(context);
        let MemberContext { config, disk, clock, metrics, local, .. } = &*context;
        let raft = Arc::new(RaftHandle::new(!config.features.initial_corrupt_check));
        let timers = Arc::new(Timers::default());
        let proposals = Arc::new(Proposals::new(*local, clock, metrics));
        let applied: Arc<AppliedIndex> = Arc::default();
        let proposer = Proposer {
            context: Arc::clone(&context),
            raft: Arc::clone(&raft),
            proposals: Arc::clone(&proposals),
            applied: Arc::clone(&applied),
        };
        ServerInner {
            lifecycle: Arc::new(Lifecycle::new(Arc::clone(&raft), Arc::clone(&timers))),
            raft,
            proposals,
            applied,
            alarms: AlarmProposer::new(proposer.clone()),
            proposer,
            state: Arc::new(StateHandle::new(state)),
            snapshot_files: Arc::new(SnapshotFiles::new(Arc::clone(disk), config.snap_path())),
            log_status: Arc::default(),
            transport,
            pools: WorkerPools::default(),
            timers,
            compaction: Arc::default(),
            context,
        }
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

    /// The membership, as far as it is applied.
    pub fn membership(&self) -> Arc<Membership> {
        self.state().cluster.now()
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
        self.inner.proposer.propose(request)
    }

    /// Proposes a conf change. It has no timeout: it waits until it is applied, the future is
    /// dropped, or the member stops.
    ///
    /// # Errors
    /// As for [`Server::propose`].
    pub fn propose_conf_change(&self, change: &Change) -> Result<Proposal<()>, Error> {
        self.inner.proposer.propose_conf_change(change)
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
        // Another member can become leader only after this read began: the raft loop resets the
        // flag before it processes a vote of another member.
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
