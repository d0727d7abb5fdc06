//! The raft loop: it owns consensus, and is the only one to talk to it.
//!
//! Each [`turn`](RaftLoop::turn) takes everything that waits (proposals, messages, acknowledgements of the log and of applying), lets time pass, and
//! hands out what follows: entries to the log, committed ones to be applied, messages to other members. It waits for neither disk nor network.
//!
//! ```text
//!   proposals, reads ─┐                       ┌─► log      (append, and what to say once it is durable)
//!   peers ────────────┼─► turn ─► ready ──────┼─► apply    (committed entries)
//!   log, apply, ticks ┘                       └─► transport (messages)
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use failpoint::failpoint;
use proto::raftpb;
use raft::{
    ConfChangeV2, DropReason, LOCAL_APPEND_THREAD, LOCAL_APPLY_THREAD, MemoryStorage, Message,
    MessageType, ProposeError, RawNode, Ready, RoleKind, SoftState, StepError, Storage as _,
};
use types::{Index, MemberId, Term};

use crate::error::Error;
use crate::pipeline::applier::Work;
use crate::pipeline::heartbeats::Heartbeats;
use crate::pipeline::log_writer::LogWork;
use crate::pipeline::peer_inbox::Place;
use crate::propose::pending::Settled;
use crate::propose::stage_timings::Moment;
use crate::read::read_index::{Reader, Reads};
use crate::server::{Shared, StopReason};
use crate::snapshot::SnapshotWork;
use crate::snapshot::send::Sending;
use crate::sync::oneshot::Promise;
use crate::sync::queue::{Inbox, Sleep};

/// All reasons for the raft loop to do something, except that time passes.
#[derive(Debug)]
pub(crate) enum Event {
    /// A request is to be appended to the log.
    Propose { id: u64, data: Bytes, since: Duration, reign: Option<Term> },
    /// A change of members is.
    ProposeConfChange { id: u64, change: raftpb::ConfChange, since: Duration },
    /// Somebody wants to read what is committed.
    Read(Reader),
    /// Another member says something.
    Peer { message: Box<Message>, place: Place },
    /// It could not be told something.
    Unreachable(MemberId),
    /// It got a snapshot, or did not.
    SnapshotSent { to: MemberId, arrived: bool },
    /// The log has what this message asked for, durably.
    Appended(Box<Message>),
    /// The state machine has what was to be applied; these are its acknowledgements. Whoever waits for a change of members hears of it once
    /// consensus has these: only then will it take another.
    Applied { responses: Vec<Message>, conf_changes: Vec<(u64, ConfChanged)> },
    /// The state machine has come to a change of members.
    ConfChanged { index: Index, change: ConfChangeV2, conf_state: raft::ConfState },
    /// Entries behind this one are needed by nobody; a snapshot there has this configuration.
    Compact { applied: Index, conf_state: raft::ConfState },
    /// Leadership shall go to another.
    TransferLeader(MemberId),
    /// So many ticks pass at once: those who could have led have had their time.
    AdvanceTicks(u32),
    /// Somebody wants to know.
    Status(Promise<raft::Status>),
    /// Somebody wants to be woken.
    Sleep { until: Duration, promise: Promise<()> },
    /// It will be time to end.
    StopAt { at: Duration, reason: StopReason },
    /// It is time to end.
    Stop,
}

/// Consensus, and who waits for it.
pub(crate) struct RaftLoop {
    shared: Arc<Shared>,
    node: RawNode<MemoryStorage>,
    log: Arc<Inbox<LogWork>>,
    apply: Arc<Inbox<Work>>,
    snapshots: Arc<Inbox<SnapshotWork>>,
    sending: Sending,
    reads: Reads,
    heartbeats: Heartbeats,
    /// Proposals that wait for a leader; and changes of members, for one that is under way.
    held: VecDeque<Held>,
    /// The change of members that this member has proposed and not seen applied, and when. Consensus takes one at a time, and would lose the next.
    changing: Option<(u64, Duration)>,
    sleepers: BTreeMap<Duration, Vec<Promise<()>>>,
    next_tick: Duration,
    stop_at: Option<(Duration, StopReason)>,
    /// Appends that the log has not acknowledged.
    appends: usize,
    /// Whether this member is the only voter.
    is_sole_voter: bool,
    /// Whether there is nobody else at all, learners included.
    is_alone: bool,
    /// Handed back and forth with the inbox.
    events: Vec<Event>,
    is_over: bool,
}

#[derive(Debug)]
struct Held {
    id: u64,
    what: What,
    since: Duration,
}

#[derive(Debug)]
enum What {
    /// With the term in which this member has to lead, or it must not be proposed.
    Request(Bytes, Option<Term>),
    ConfChange(raftpb::ConfChange),
}

/// Whether a change of members was made.
type ConfChanged = Result<(), membership::ConfChangeRefusal>;

/// Requests that are proposed in one go.
#[derive(Debug, Default)]
struct Batch {
    ids: Vec<u64>,
    data: Vec<Bytes>,
}

impl Batch {
    fn add(&mut self, id: u64, data: Bytes) {
        self.ids.push(id);
        self.data.push(data);
    }
}

impl RaftLoop {
    pub(crate) fn new(
        shared: Arc<Shared>,
        node: RawNode<MemoryStorage>,
        log: Arc<Inbox<LogWork>>,
        apply: Arc<Inbox<Work>>,
        snapshots: Arc<Inbox<SnapshotWork>>,
    ) -> RaftLoop {
        let next_tick = shared.now() + shared.config.heartbeat;
        let heartbeats = Heartbeats::new(shared.config.heartbeat);
        let mut raft = RaftLoop {
            shared,
            node,
            log,
            apply,
            snapshots,
            sending: Sending::default(),
            reads: Reads::default(),
            heartbeats,
            held: VecDeque::new(),
            changing: None,
            sleepers: BTreeMap::new(),
            next_tick,
            stop_at: None,
            appends: 0,
            is_sole_voter: false,
            is_alone: false,
            events: Vec::new(),
            is_over: false,
        };
        raft.note_voters();
        raft
    }

    /// Does all there is to do now. Returns how long there will be nothing, unless something comes; none when it is over.
    pub(crate) fn turn(&mut self) -> Option<Duration> {
        self.take_events();
        if self.is_over {
            return None;
        }
        let now = self.shared.now();
        // A member that may hold something wrong must not vote, nor apply anything on top of it. Time passes for those who wait.
        if !self.shared.takes_part() {
            self.tick(now);
            return Some(self.idle_for());
        }
        self.propose_held();
        self.tick(now);
        self.campaign_alone();
        self.ask_for_reads(now);
        while self.node.has_ready() {
            let ready = self.node.ready();
            self.hand_out(ready, now);
            self.propose_held();
            self.ask_for_reads(now);
        }
        self.note_committed();
        self.note_rule();
        Some(self.idle_for())
    }

    /// How long there is nothing to do, unless something comes.
    pub(crate) fn idle_for(&self) -> Duration {
        self.next_tick.saturating_sub(self.shared.now())
    }

    /// While the log is at work, what is proposed need not wake the loop: it would queue up behind that. The acknowledgement does, and then all of it goes
    /// into one append.
    pub(crate) fn sleep(&self) -> Sleep {
        if self.appends > 0 { Sleep::Soundly } else { Sleep::Lightly }
    }

    fn take_events(&mut self) {
        let mut events = std::mem::take(&mut self.events);
        self.shared.raft.take(&mut events);
        events.drain(..).for_each(|event| self.handle(event));
        self.events = events;
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Propose { id, data, since, reign } => {
                self.held.push_back(Held { id, what: What::Request(data, reign), since });
            }
            Event::ProposeConfChange { id, change, since } => {
                self.held.push_back(Held { id, what: What::ConfChange(change), since });
            }
            Event::Read(reader) => self.reads.add(reader),
            Event::Peer { message, place } => {
                drop(place);
                if self.shared.takes_part() {
                    self.step(*message);
                }
            }
            Event::Unreachable(member) => self.node.report_unreachable(member),
            Event::SnapshotSent { to, arrived } => {
                self.sending.end(to, arrived, self.shared.now());
                self.node.report_snapshot(to, arrived);
            }
            Event::Appended(append) => {
                self.appends = self.appends.saturating_sub(1);
                self.acknowledge(*append);
            }
            Event::Applied { responses, conf_changes } => {
                self.deliver(responses);
                for (id, result) in conf_changes {
                    self.changing.take_if(|(changing, _)| *changing == id);
                    self.shared.waits.settle(id, Ok(Settled::ConfChange(result)));
                }
            }
            Event::ConfChanged { index, change, conf_state } => {
                self.conf_changed(index, &change, &conf_state);
            }
            Event::Compact { applied, conf_state } => self.compact(applied, conf_state),
            Event::TransferLeader(to) => self.transfer_leader(to),
            Event::AdvanceTicks(ticks) => (0..ticks).for_each(|_| self.node.tick()),
            Event::Status(promise) => promise.keep(self.node.status()),
            Event::Sleep { until, promise } => {
                self.sleepers.entry(until).or_default().push(promise);
            }
            Event::StopAt { at, reason } => self.stop_at = Some((at, reason)),
            Event::Stop => self.is_over = true,
        }
    }

    /// Proposes all that waits, in one go, if there is somebody to propose to.
    fn propose_held(&mut self) {
        if self.held.is_empty() || self.node.basic_status().soft_state.lead.is_none() {
            return;
        }
        // Whoever asked for it may have given up, or a leader may have lost it.
        self.changing.take_if(|(id, _)| !self.shared.waits.contains(*id));
        let mut batch = Batch::default();
        for held in std::mem::take(&mut self.held) {
            match held.what {
                What::Request(_, Some(term)) if !self.leads_in(term) => {
                    self.drop_proposal(held.id, DropReason::NoLeader);
                }
                What::Request(data, _) => batch.add(held.id, data),
                What::ConfChange(_) if !self.may_change_members() => self.held.push_back(held),
                What::ConfChange(change) => {
                    self.propose_batch(std::mem::take(&mut batch));
                    self.propose_conf_change(held.id, change);
                }
            }
        }
        self.propose_batch(batch);
    }

    /// Consensus passes over a change while another is under way, or may be: one from before this member led. Then nobody would ever answer for it.
    fn may_change_members(&self) -> bool {
        let status = self.node.basic_status();
        let is_new = status.soft_state.role == RoleKind::Leader
            && self.node.storage().term(status.applied) != Ok(status.hard_state.term);
        self.changing.is_none() && !is_new
    }

    fn leads_in(&self, term: Term) -> bool {
        let status = self.node.basic_status();
        status.soft_state.role == RoleKind::Leader && status.hard_state.term == term
    }

    fn propose_batch(&mut self, batch: Batch) {
        if let Err(ProposeError { reason }) = self.node.propose_batch(batch.data) {
            batch.ids.into_iter().for_each(|id| self.drop_proposal(id, reason));
        }
    }

    fn drop_proposal(&self, id: u64, reason: DropReason) {
        let error = match reason {
            DropReason::TooMuchUncommitted => Error::TooManyRequests,
            _ => Error::ProposalDropped,
        };
        self.shared.waits.fail(id, error);
    }

    fn propose_conf_change(&mut self, id: u64, change: raftpb::ConfChange) {
        let proposed = raft::ConfChange::try_from(change)
            .map_err(|_| DropReason::ReservedId)
            .and_then(|change| self.node.propose_conf_change(change).map_err(|it| it.reason));
        match proposed {
            Ok(()) => self.changing = Some((id, self.shared.now())),
            Err(reason) => self.drop_proposal(id, reason),
        }
    }

    fn step(&mut self, message: Message) {
        let (from, kind) = (message.from, message.kind);
        match self.node.step(message) {
            Ok(()) => {}
            // What it acknowledged before may be committed, and a vote for a log as short as its own could undo that: it says nothing more.
            Err(error @ StepError::LogLost { .. }) => {
                self.shared.fail("follow the leader", &error);
                self.is_over = true;
            }
            Err(error) => {
                tracing::debug!(%from, kind = kind.as_str(), %error, "refused a message");
            }
        }
    }

    /// Hands leadership on. That has succeeded within an election timeout, or is given up.
    fn transfer_leader(&mut self, to: MemberId) {
        let shared = &self.shared;
        shared.progress.hand_on(shared.now() + 2 * shared.config.election_timeout());
        self.node.transfer_leader(to);
    }

    /// What the log has, consensus may read back; and only now may anybody be told.
    fn acknowledge(&mut self, append: Message) {
        let hard_state = append.hard_state();
        let storage = self.node.storage_mut();
        let starts_over = append.snapshot.is_some();
        if starts_over {
            failpoint!("raftBeforeApplySnap");
        }
        let snapshot = append.snapshot.map_or(Ok(()), |snapshot| storage.apply_snapshot(*snapshot));
        hard_state.into_iter().for_each(|state| storage.set_hard_state(state));
        if let Err(error) = snapshot.and_then(|()| storage.append(&append.entries)) {
            return self.shared.fail("append to the log in memory", &error);
        }
        failpoint!("raftBeforeAdvance");
        self.deliver(append.responses);
        if starts_over {
            failpoint!("raftAfterApplySnap");
            self.note_voters();
        }
    }

    /// Acknowledgements of the storage threads: to this member's own consensus, or to others.
    fn deliver(&mut self, responses: Vec<Message>) {
        let local = self.shared.local;
        let (own, others): (Vec<_>, Vec<_>) =
            responses.into_iter().partition(|message| message.to == local);
        for message in own {
            // An acknowledgement means nothing to a member that has been removed.
            let _ = self.node.step_local(message);
        }
        self.send(others);
    }

    fn send(&mut self, mut messages: Vec<Message>) {
        let snapshots = messages.extract_if(.., |message| message.kind == MessageType::MsgSnap);
        for snapshot in snapshots.collect::<Vec<_>>() {
            self.send_snapshot(snapshot);
        }
        if !messages.is_empty() {
            self.shared.transport.send(messages);
        }
    }

    /// Whoever knows the database sees to it. If it cannot be sent, consensus tries again in a while.
    fn send_snapshot(&mut self, message: Message) {
        let to = message.to;
        if self.sending.begin(to) {
            self.snapshots.push(SnapshotWork::Send(Box::new(message)));
        } else {
            self.node.report_snapshot(to, false);
        }
    }

    fn conf_changed(&mut self, index: Index, change: &ConfChangeV2, conf_state: &raft::ConfState) {
        match self.node.apply_conf_change(index, change) {
            Ok(Some(conf)) if !conf.is_equivalent(conf_state) => {
                let error = format!("{conf:?} is not {conf_state:?}");
                self.shared.fail("consensus and the state machine differ about who votes", &error);
            }
            Ok(_) => self.note_voters(),
            Err(error) => self.shared.fail("apply a change of members", &error),
        }
    }

    fn note_voters(&mut self) {
        let config = self.node.status().config;
        let conf = config.to_conf_state();
        self.is_sole_voter = conf.voters == [self.shared.local] && conf.voters_outgoing.is_empty();
        self.is_alone =
            self.is_sole_voter && conf.learners.is_empty() && conf.learners_next.is_empty();
        // At once, before anybody else can be asked for a vote: see `Server::linearizable`.
        self.note_rule();
    }

    /// Forgets entries that everybody should have.
    fn compact(&mut self, applied: Index, conf_state: raft::ConfState) {
        if !self.sending.is_over(self.shared.now()) {
            return;
        }
        let kept = self.shared.config.snapshot_catchup_entries;
        let storage = self.node.storage_mut();
        // Both refuse what was done before; there is nothing to do then.
        let _ = storage.create_snapshot(applied, Some(conf_state), Bytes::new());
        let _ = storage.compact(Index(applied.0.saturating_sub(kept)));
    }

    fn tick(&mut self, now: Duration) {
        if now < self.next_tick {
            return;
        }
        let heartbeat = self.shared.config.heartbeat;
        self.next_tick += heartbeat;
        if self.next_tick <= now {
            // It was held up. Time that nobody lived through does not count: others would be voted out for it.
            self.next_tick = now + heartbeat;
        }
        if self.shared.takes_part() {
            self.node.tick();
        }
        self.expire(now);
    }

    fn expire(&mut self, now: Duration) {
        let shared = Arc::clone(&self.shared);
        let awake = self.sleepers.split_off(&(now + Duration::from_nanos(1)));
        let woken = std::mem::replace(&mut self.sleepers, awake);
        woken.into_values().flatten().for_each(|promise| promise.keep(()));
        shared.applied.forget_unwanted();
        if let Some((_, reason)) = self.stop_at.take_if(|(at, _)| *at <= now) {
            shared.end(reason);
        }
        let Some(until) = now.checked_sub(shared.config.request_timeout()) else { return };
        // It never reached the leader, or that passed over it: whoever asked may wait, but not all who come after. What this member appended itself comes to be applied.
        let follows = !shared.progress.leads();
        self.changing.take_if(|(_, since)| follows && *since <= until);
        // Nobody took them: they waited for a leader in vain. What nobody waits for any more goes as well.
        for held in self.held.iter().filter(|held| held.since <= until) {
            shared.waits.fail(held.id, Error::DeadlineExceeded);
        }
        self.held.retain(|held| shared.waits.contains(held.id));
        shared.waits.expire(until, |since| self.timeout(since));
        if self.reads.expire(until) {
            tracing::warn!(
                "timed out waiting for read index response (local node might have slow network)"
            );
            shared.metrics.slow_read_indexes.inc();
        }
    }

    /// Why an answer did not come, as far as one can guess.
    fn timeout(&self, since: Duration) -> Error {
        let (progress, config) = (&self.shared.progress, &self.shared.config);
        let elected = progress.elected_at();
        let lost = elected.saturating_sub(2 * config.election_timeout());
        if since > lost && since < elected {
            return Error::TimeoutLeaderFail;
        }
        let Some(lead) = progress.leader() else { return Error::Timeout };
        let connected = |member| {
            self.shared.transport.active_since(member).is_some_and(|active| active < since)
        };
        let is_connected =
            if lead == self.shared.local { self.has_quorum(connected) } else { connected(lead) };
        if is_connected { Error::Timeout } else { Error::TimeoutConnectionLost }
    }

    fn has_quorum(&self, connected: impl Fn(MemberId) -> bool) -> bool {
        let members = self.shared.state().cluster.now();
        let all = members.members().count();
        let local = self.shared.local;
        members.ids().filter(|id| *id == local || connected(*id)).count() > all / 2
    }

    /// A member that is alone need not wait to see whether somebody else leads.
    fn campaign_alone(&mut self) {
        if !self.is_sole_voter {
            return;
        }
        let status = self.node.basic_status();
        let waits = status.soft_state == SoftState::default();
        if waits && status.applied == status.hard_state.commit {
            self.node.campaign();
        }
    }

    fn ask_for_reads(&mut self, now: Duration) {
        let ids = &self.shared.ids;
        if let Some(context) = self.reads.ask(now, || ids.next()) {
            self.node.read_index(context);
        }
    }

    /// What consensus wants done.
    fn hand_out(&mut self, ready: Ready, now: Duration) {
        // First, so that nobody sees applied what is not yet committed; and who hears of an entry from another member finds it committed here.
        self.note_committed();
        if let Some(soft_state) = ready.soft_state {
            self.note_leader(soft_state, now);
        }
        for read in ready.read_states {
            let context = &read.request_context;
            if !self.reads.answered(context, read.index, &self.shared.applied, now) {
                self.shared.metrics.slow_read_indexes.inc();
            }
        }
        let mut others = Vec::new();
        for message in ready.messages {
            match message.to {
                LOCAL_APPEND_THREAD => self.append(message),
                LOCAL_APPLY_THREAD => self.apply(message),
                _ => others.push(message),
            }
        }
        self.note_heartbeats(&others, now);
        if self.shared.progress.leads() {
            failpoint!("raftBeforeLeaderSend");
        } else {
            failpoint!("raftBeforeFollowerSend");
        }
        self.send(others);
    }

    /// Has the log make something durable. How far entries are committed need not be, since that is learned anew: the log hears of it and writes it with whatever
    /// comes next. But an acknowledgement speaks for all that was handed out before, so nothing of that may be under way.
    fn append(&mut self, message: Message) {
        if self.appends == 0
            && self.is_commit_alone(&message)
            && let Some(state) = message.hard_state()
        {
            self.log.push_quietly(LogWork::State(state.into()));
            return self.acknowledge(message);
        }
        self.appends += 1;
        self.shared.marked.logged(&message.entries, || self.shared.now());
        self.log.push(LogWork::Append(Box::new(message)));
    }

    /// Has what is committed applied.
    fn apply(&self, message: Message) {
        if let Some(last) = message.entries.last() {
            self.shared.marked.reached(Moment::Committed, last.index, || self.shared.now());
        }
        // If nobody applies anything any more, the member is ending.
        let _ = self.apply.push(Work::Apply(Box::new(message)));
    }

    fn is_commit_alone(&self, append: &Message) -> bool {
        let saved = self.node.storage().hard_state();
        append.entries.is_empty()
            && append.snapshot.is_none()
            && (append.term, append.vote) == (saved.term, saved.vote)
    }

    /// Counts heartbeats that come too late.
    fn note_heartbeats(&mut self, messages: &[Message], now: Duration) {
        for heartbeat in messages.iter().filter(|message| message.kind == MessageType::MsgHeartbeat)
        {
            let Some(late) = self.heartbeats.send(heartbeat.to, now) else { continue };
            self.shared.metrics.heartbeat_send_failures.inc();
            tracing::warn!(
                to = %heartbeat.to,
                heartbeat_interval = ?self.shared.config.heartbeat,
                expected_duration = ?self.heartbeats.expected(),
                exceeded_duration = ?late,
                "leader failed to send out heartbeat on time; took too long, leader is overloaded likely from slow disk"
            );
        }
    }

    fn note_leader(&mut self, soft_state: SoftState, now: Duration) {
        let SoftState { lead, role } = soft_state;
        let leads = role == RoleKind::Leader;
        self.heartbeats.forget();
        let shared = Arc::clone(&self.shared);
        let had_leader = shared.progress.leader().is_some();
        self.changing = None;
        if shared.progress.set_leader(lead, leads, now) {
            shared.metrics.leader_changes.inc();
            if self.reads.leader_changed(had_leader) {
                shared.metrics.read_indexes_failed.inc();
            }
        }
        if !leads {
            self.note_rule();
            shared.state().lessor.demote();
        }
    }

    /// For those who look without asking.
    fn note_committed(&mut self) {
        let status = self.node.basic_status();
        let progress = &self.shared.progress;
        progress.set_term(status.hard_state.term);
        if progress.committed() < status.hard_state.commit {
            progress.set_committed(status.hard_state.commit);
        }
    }

    /// Whether this member leads alone, and has applied something of its own term; so it has applied all that was ever acknowledged.
    fn note_rule(&self) {
        let (status, applied) = (self.node.basic_status(), self.shared.applied.get());
        let term = self.node.storage().term(applied);
        let leads = self.is_alone && status.soft_state.role == RoleKind::Leader;
        // A learner applies what is committed, and answers, before this member may have done so; also one that was just removed.
        let begins = self.shared.progress.rules_alone() || applied >= status.hard_state.commit;
        let alone = leads && begins && term == Ok(status.hard_state.term);
        self.shared.progress.set_rules_alone(alone);
    }
}

/// Whoever waits for consensus is told that there is none any more; also if the loop has panicked.
impl Drop for RaftLoop {
    fn drop(&mut self) {
        self.shared.progress.set_rules_alone(false);
        self.shared.raft.close();
        self.shared.waits.fail_all(&Error::Stopped);
        self.shared.applied.fail_all(&Error::Stopped);
        // Promises that are dropped wake those who wait, also those that came too late to be taken.
        self.shared.raft.take(&mut self.events);
        self.events.clear();
    }
}
