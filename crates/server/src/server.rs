//! A running member, as everybody but its own stages sees it.
//!
//! [`Server`] is a handle, cheap to clone. What changes something is proposed ([`Server::propose`]) and settled once it has been applied here;
//! what reads waits until everything is applied that was committed when it asked ([`Server::linearizable`]), and then reads the
//! [`StateMachine`] on the caller's own time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use auth::AuthInfo;
use bytes::Bytes;
use env::{Clock, Disk};
use membership::{Change, ClusterId};
use prost::Message as _;
use proto::command::{Command, RaftRequest};
use proto::etcdserverpb::{InternalRaftRequest, RequestHeader};
use types::{Index, MemberId, Term};
use wal::snap::Snapshotter;

use crate::config::ServerConfig;
use crate::error::Error;
use crate::metrics::{Metrics, Op};
use crate::pipeline::peer_inbox::Received;
use crate::pipeline::progress::Progress;
use crate::pipeline::raft_loop::Event;
use crate::planted_bug::{self, PlantedBug};
use crate::propose::alarms::Raising;
use crate::propose::ids::Ids;
use crate::propose::pending::{Answer, Asked, Proposal, Waits};
use crate::propose::stage_timings::{Following, Marked, Marks, Moment};
use crate::propose::typed::{self, AppliedReply, Propose};
use crate::read::applied_index::AppliedIndex;
use crate::read::read_index::Reader;
use crate::state::StateMachine;
use crate::sync::notify::Bell;
use crate::sync::oneshot::{Promise, promise};
use crate::sync::pool::Pools;
use crate::sync::queue::Inbox;
use crate::transport::Transport;

/// How far applying may be behind what is committed before requests are turned away.
pub const APPLY_GAP_MAX: u64 = 5_000;
/// The same for what must go on nevertheless, if the feature `PriorityRequest` is on.
pub const APPLY_GAP_PRIORITY_MAX: u64 = 2 * APPLY_GAP_MAX;

/// A running member.
#[derive(Clone, Debug)]
pub struct Server {
    pub(crate) shared: Arc<Shared>,
}

/// What the stages of a member share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: ServerConfig,
    pub(crate) disk: Arc<dyn Disk>,
    /// The folder of snapshots: one for all who write there.
    pub(crate) files: Snapshotter,
    /// Held while a database that came from another member gets its name and consensus hears of it. So nobody relies on one that is taken back.
    pub(crate) naming: Mutex<()>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) local: MemberId,
    pub(crate) cluster_id: ClusterId,
    pub(crate) ids: Ids,
    pub(crate) state: RwLock<Arc<StateMachine>>,
    pub(crate) progress: Progress,
    pub(crate) applied: AppliedIndex,
    pub(crate) waits: Arc<Waits>,
    /// Proposals that somebody wants to know the times of.
    pub(crate) marked: Marked,
    pub(crate) raft: Inbox<Event>,
    /// What others say and the raft loop has not heard yet.
    pub(crate) received: Arc<Received>,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) metrics: Metrics,
    pub(crate) raising: Raising,
    pub(crate) pools: Pools,
    /// Rung when there is a compaction to carry out.
    pub(crate) compaction: Bell,
    /// When the write to the log began that is under way, in nanoseconds of the clock; zero if none is.
    pub(crate) sync_began: AtomicU64,
    /// The first segment of the log that a replay needs. The locks of whoever writes the log say so too, but he may have failed, and let go of them.
    pub(crate) first_segment: AtomicU64,
    /// Whether it takes part in consensus: not before it has been compared with others, if that is asked for.
    takes_part: AtomicBool,
    stopping: AtomicBool,
    /// Why it stops, if not because it was asked to; and who wants to hear of it.
    end: Mutex<End>,
}

#[derive(Debug, Default)]
struct End {
    reason: Option<StopReason>,
    waiting: Vec<Promise<StopReason>>,
}

/// A request that is ready to be proposed.
struct Encoded {
    id: u64,
    op: Op,
    since: Duration,
    data: Bytes,
    reign: Option<Term>,
}

impl Encoded {
    fn asked(&self) -> Asked {
        Asked::Request { op: self.op, bytes: self.data.len(), since: self.since }
    }

    fn into_event(self) -> Event {
        Event::Propose { id: self.id, data: self.data, since: self.since, reign: self.reign }
    }
}

/// Why a member stops.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StopReason {
    /// It was asked to.
    #[error("stopped")]
    Asked,
    /// It is no member any more.
    #[error("the member has been permanently removed from the cluster")]
    Removed,
    /// It cannot go on.
    #[error("{0}")]
    Fault(Arc<str>),
}

impl StopReason {
    pub(crate) fn fault(what: &str, error: &dyn std::fmt::Display) -> StopReason {
        StopReason::Fault(format!("{what}: {error}").into())
    }
}

impl Shared {
    #[expect(clippy::too_many_arguments, reason = "all that a member is made of")]
    pub(crate) fn new(
        config: ServerConfig,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        cluster_id: ClusterId,
        local: MemberId,
        state: StateMachine,
        transport: Arc<dyn Transport>,
        metrics: Metrics,
    ) -> Shared {
        let start = clock.wall().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let waits = Waits::new(Arc::clone(&clock), &metrics);
        let files = Snapshotter::new(Arc::clone(&disk), config.snap_path());
        let takes_part = AtomicBool::new(!config.features.initial_corrupt_check);
        Shared {
            config,
            disk,
            files,
            naming: Mutex::default(),
            clock,
            local,
            cluster_id,
            ids: Ids::new(local, start),
            state: RwLock::new(Arc::new(state)),
            progress: Progress::default(),
            applied: AppliedIndex::default(),
            waits: Arc::new(waits),
            marked: Marked::default(),
            raft: Inbox::default(),
            received: Arc::default(),
            transport,
            metrics,
            raising: Raising::default(),
            pools: Pools::default(),
            compaction: Bell::default(),
            sync_began: AtomicU64::new(0),
            first_segment: AtomicU64::new(0),
            takes_part,
            stopping: AtomicBool::new(false),
            end: Mutex::default(),
        }
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    pub(crate) fn state(&self) -> Arc<StateMachine> {
        Arc::clone(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Another state takes the place of the one there is: for readers, and for those who watch, at once.
    pub(crate) fn replace_state(&self, state: Arc<StateMachine>) {
        let next = Arc::clone(&state);
        next.store.take_over(|| {
            *self.state.write().unwrap_or_else(PoisonError::into_inner) = state;
        });
    }

    /// Whether this member votes, and hears what others say.
    pub(crate) fn takes_part(&self) -> bool {
        self.takes_part.load(Ordering::Acquire)
    }

    /// It holds what others hold.
    pub(crate) fn take_part(&self) {
        self.takes_part.store(true, Ordering::Release);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Ends everything: nobody is served from here on. The first reason counts.
    pub(crate) fn end(&self, reason: StopReason) {
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        if end.reason.is_some() {
            return;
        }
        let told = reason.clone();
        end.reason = Some(reason);
        let waiting = std::mem::take(&mut end.waiting);
        drop(end);
        self.stopping.store(true, Ordering::Release);
        self.raft.push(Event::Stop);
        waiting.into_iter().for_each(|promise| promise.keep(told.clone()));
    }

    /// Why it ended, or is about to.
    pub(crate) fn reason(&self) -> StopReason {
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        end.reason.clone().unwrap_or(StopReason::Asked)
    }

    /// The state, if nobody else has it.
    pub(crate) fn into_state(self) -> Option<StateMachine> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        Arc::try_unwrap(state).ok()
    }

    /// Ends everything a little later.
    pub(crate) fn end_at(&self, at: Duration, reason: StopReason) {
        self.raft.push(Event::StopAt { at, reason });
    }

    /// This member cannot go on.
    pub(crate) fn fail(&self, what: &str, error: &dyn std::fmt::Display) {
        tracing::error!(%error, "{what}; the member stops");
        self.end(StopReason::fault(what, error));
    }
}

impl Server {
    /// This member.
    pub fn local(&self) -> MemberId {
        self.shared.local
    }

    /// Its cluster.
    pub fn cluster_id(&self) -> ClusterId {
        self.shared.cluster_id
    }

    /// How it behaves.
    pub fn config(&self) -> &ServerConfig {
        &self.shared.config
    }

    /// What it counts.
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// All that members agree on, as far as it has been applied here. Not to be kept: a snapshot may put another in its place.
    pub fn state(&self) -> Arc<StateMachine> {
        self.shared.state()
    }

    /// Monotonic time.
    pub fn now(&self) -> Duration {
        self.shared.now()
    }

    /// The clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.clock
    }

    /// The term.
    pub fn term(&self) -> Term {
        self.shared.progress.term()
    }

    /// Who leads.
    pub fn leader(&self) -> Option<MemberId> {
        self.shared.progress.leader()
    }

    /// Whether this member does.
    pub fn is_leader(&self) -> bool {
        self.shared.progress.leads()
    }

    /// How long there has been no leader; none while there is one.
    pub fn leaderless_for(&self) -> Option<Duration> {
        self.shared.progress.leaderless_for(self.now())
    }

    /// Whether this member has no vote.
    pub fn is_learner(&self) -> bool {
        self.state().cluster.now().is_learner(self.local())
    }

    /// What is committed.
    pub fn committed(&self) -> Index {
        self.shared.progress.committed()
    }

    /// What is applied.
    pub fn applied(&self) -> Index {
        self.shared.applied.get()
    }

    /// An id that no other request has.
    pub fn next_id(&self) -> u64 {
        self.shared.ids.next()
    }

    /// Proposes a command in the name of the member itself.
    ///
    /// # Errors
    /// The command was not proposed. After `Ok`, it may be applied even if its future never resolves.
    pub fn propose<P: Propose>(
        &self,
        request: P,
    ) -> Result<Proposal<AppliedReply<P::Reply>>, Error> {
        let command = request.into();
        self.check_gap(&command)?;
        Ok(self.propose_followed::<P>(RequestHeader::default(), command, None)?.0)
    }

    /// Proposes a decision of the leader. It is dropped if this member does not lead in that term
    /// any more, because the next leader decides anew. `caller` is the user in whose name it is
    /// applied.
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
        self.check_gap(&command)?;
        let mut header = RequestHeader::default();
        caller.into_iter().for_each(|caller| caller.write_to(&mut header));
        let encoded = Encoded { reign: Some(term), ..self.encode(header, command)? };
        let extract = AppliedReply::of::<P>;
        let proposal = self.shared.waits.register(encoded.id, encoded.asked(), extract)?;
        self.submit(encoded.into_event())?;
        Ok(proposal)
    }

    /// Proposes the command of a request `P` after [`Server::check_gap`]. While the second value is
    /// kept, the stages note in `marks` when they process the proposal.
    pub(crate) fn propose_followed<P: Propose>(
        &self,
        header: RequestHeader,
        command: Command,
        marks: Option<&Arc<Marks>>,
    ) -> Result<(Proposal<AppliedReply<P::Reply>>, Option<Following<'_>>), Error> {
        let encoded = self.encode(header, command)?;
        let extract = AppliedReply::of::<P>;
        let proposal = self.shared.waits.register(encoded.id, encoded.asked(), extract)?;
        marks.into_iter().for_each(|marks| marks.note(Moment::Proposed, encoded.since));
        let following = self.shared.marked.follow(encoded.id, marks);
        self.submit(encoded.into_event())?;
        Ok((proposal, following))
    }

    /// Proposes a command without a waiter and calls a function with the result. With a term, as for
    /// [`Server::propose_as_leader`].
    ///
    /// # Errors
    /// As for [`Server::propose`]; the function may have been called with that error or not.
    pub(crate) fn propose_then<P: Propose>(
        &self,
        request: P,
        reign: Option<Term>,
        then: impl FnOnce(Result<AppliedReply<P::Reply>, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        let command = request.into();
        self.check_gap(&command)?;
        let encoded = Encoded { reign, ..self.encode(RequestHeader::default(), command)? };
        let then = |answer: Answer| then(answer.and_then(AppliedReply::of::<P>));
        self.shared.waits.register_then(encoded.id, encoded.asked(), then)?;
        self.submit(encoded.into_event())
    }

    /// Proposes a conf change. It waits as long as its future is kept: only the end of the member
    /// ends it.
    ///
    /// # Errors
    /// As for [`Server::propose`].
    pub fn propose_conf_change(&self, change: &Change) -> Result<Proposal<()>, Error> {
        let id = self.next_id();
        let extract = typed::conf_change_result;
        let proposal = self.shared.waits.register(id, Asked::ConfChange, extract)?;
        let change = change.to_conf_change(Some(id));
        // As if it had not begun to wait: so it never waits for too long.
        self.submit(Event::ProposeConfChange { id, change, since: Duration::MAX })?;
        Ok(proposal)
    }

    /// Assigns the request id and encodes the entry.
    fn encode(&self, mut header: RequestHeader, command: Command) -> Result<Encoded, Error> {
        let (id, op, since) = (self.next_id(), Op::of(&command), self.now());
        header.id = id;
        let request = InternalRaftRequest::from(RaftRequest::new(header, command));
        let data = Bytes::from(request.encode_to_vec());
        if data.len() > self.config().max_request_bytes {
            self.count_too_large(op, since);
            return Err(Error::RequestTooLarge);
        }
        Ok(Encoded { id, op, since, data, reign: None })
    }

    /// Compat: as in etcd, that it is too large is an answer like any other.
    fn count_too_large(&self, op: Op, since: Duration) {
        let took = self.now().saturating_sub(since);
        self.metrics().request_duration.observe(op, true, took);
    }

    fn submit(&self, event: Event) -> Result<(), Error> {
        if self.shared.raft.push_quietly(event) { Ok(()) } else { Err(Error::Stopped) }
    }

    /// Applying must not fall too far behind.
    pub(crate) fn check_gap(&self, command: &Command) -> Result<(), Error> {
        let is_revoke = matches!(command, Command::LeaseRevoke(_));
        let priority = self.config().features.priority_request && is_revoke;
        let gap_max = if priority { APPLY_GAP_PRIORITY_MAX } else { APPLY_GAP_MAX };
        // In this order, so that it never seems larger than it is.
        let committed = self.committed().0;
        if committed > self.applied().0.saturating_add(gap_max) {
            return Err(Error::TooManyRequests);
        }
        Ok(())
    }

    /// Returns once this member has applied all that was committed, anywhere, when it was called.
    ///
    /// # Errors
    /// It could not be made sure of.
    pub async fn linearizable(&self) -> Result<(), Error> {
        self.linearizable_followed(None).await
    }

    /// The same, and the raft loop notes when it has an answer.
    pub(crate) async fn linearizable_followed(
        &self,
        marks: Option<Arc<Marks>>,
    ) -> Result<(), Error> {
        // Nobody else can have committed anything, and what was acknowledged is applied: there is nothing to wait for. Should somebody come
        // to lead meanwhile, then after this read began; and the raft loop says so before it hears of anybody else's vote.
        let is_sure = planted_bug::is_planted(PlantedBug::ReadWithoutQuorum) && self.is_leader();
        if self.shared.progress.rules_alone() || is_sure {
            return Ok(());
        }
        let (promise, waiting) = promise();
        self.shared.raft.push(Event::Read(Reader { promise, marks }));
        waiting.await.unwrap_or(Err(Error::Stopped))
    }

    /// Returns once an index has been applied here. There is no bound on the time: the caller gives up when it likes.
    ///
    /// # Errors
    /// The member stops.
    pub async fn wait_applied(&self, index: Index) -> Result<(), Error> {
        if self.applied() >= index {
            return Ok(());
        }
        let (promise, waiting) = promise();
        self.shared.applied.when(index, promise);
        waiting.await.unwrap_or(Err(Error::Stopped))
    }

    /// The state of consensus, with the progress of others if this member leads.
    ///
    /// # Errors
    /// The member stops.
    pub async fn raft_status(&self) -> Result<raft::Status, Error> {
        let (promise, waiting) = promise();
        self.shared.raft.push(Event::Status(promise));
        waiting.await.ok_or(Error::Stopped)
    }

    /// Asks for leadership to go to another member.
    pub fn transfer_leader(&self, to: MemberId) {
        self.shared.raft.push(Event::TransferLeader(to));
    }

    /// Returns when so much time has passed, to within a tick.
    ///
    /// # Errors
    /// The member stops, and time with it: whoever sleeps in a loop must leave it.
    pub async fn sleep(&self, time: Duration) -> Result<(), Error> {
        let (promise, waiting) = promise();
        let until = self.now().saturating_add(time);
        self.shared.raft.push(Event::Sleep { until, promise });
        waiting.await.ok_or(Error::Stopped)
    }

    /// How long the write to the log that is under way has taken; none if there is none.
    pub fn log_busy_for(&self) -> Option<Duration> {
        let began = self.shared.sync_began.load(Ordering::Relaxed);
        (began != 0).then(|| self.now().saturating_sub(Duration::from_nanos(began)))
    }

    /// How other members are reached.
    pub fn transport(&self) -> &Arc<dyn Transport> {
        &self.shared.transport
    }

    /// Returns when the member stops, with the reason.
    pub async fn stopped(&self) -> StopReason {
        let waiting = {
            let mut end = self.shared.end.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(reason) = &end.reason {
                return reason.clone();
            }
            let (promise, waiting) = promise();
            end.waiting.retain(Promise::is_wanted);
            end.waiting.push(promise);
            waiting
        };
        waiting.await.unwrap_or(StopReason::Asked)
    }

    /// Whether the member is stopping, or has stopped.
    pub fn is_stopping(&self) -> bool {
        self.shared.is_stopping()
    }
}
