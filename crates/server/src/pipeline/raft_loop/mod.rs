//! The raft loop: the stage that owns the consensus core.
//!
//! Each [`turn`](RaftLoop::turn) takes all queued events (proposals, messages, acknowledgements of
//! the log writer and the applier), ticks if it is time, and dispatches each `Ready`. It never
//! waits for disk or network.
//!
//! ```text
//!   proposals, reads ─┐                       ┌─► log writer  (append, and the responses to it)
//!   peers ────────────┼─► turn ─► Ready ──────┼─► applier     (committed entries)
//!   log, apply, ticks ┘                       └─► transport   (messages to peers)
//! ```
//!
//! `event` lists the causes to act; `proposals` holds what consensus cannot take yet; `peers` steps
//! and sends messages; `ready` dispatches; `timeouts` fails what took too long.

mod event;
mod heartbeats;
mod peers;
mod proposals;
mod ready;
mod timeouts;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use raft::{MemoryStorage, RawNode, SoftState};
use sync::{Queue, WakeOn};

pub(crate) use event::Event;
use heartbeats::HeartbeatMonitor;
use proposals::{ConfChangeInFlight, HeldPayload, HeldProposal};

use crate::context::MemberContext;
use crate::error::Error;
use crate::lifecycle::Lifecycle;
use crate::pipeline::Inboxes;
use crate::pipeline::applier::ApplyWork;
use crate::pipeline::log_writer::LogWork;
use crate::pipeline::raft_handle::RaftHandle;
use crate::propose::Proposals;
use crate::propose::pending::AppliedProposal;
use crate::read::applied_index::AppliedIndex;
use crate::read::read_index::ReadIndexQueue;
use crate::server::ServerInner;
use crate::snapshot::SnapshotWork;
use crate::snapshot::send::SnapshotTransfers;
use crate::state::StateHandle;
use crate::transport::Transport;

/// The consensus core and the work that waits for it.
pub(crate) struct RaftLoop {
    context: Arc<MemberContext>,
    lifecycle: Arc<Lifecycle>,
    raft: Arc<RaftHandle>,
    proposals: Arc<Proposals>,
    applied: Arc<AppliedIndex>,
    state: Arc<StateHandle>,
    transport: Arc<dyn Transport>,
    log: Arc<Queue<LogWork>>,
    apply: Arc<Queue<ApplyWork>>,
    snapshots: Arc<Queue<SnapshotWork>>,
    node: RawNode<MemoryStorage>,
    snapshot_transfers: SnapshotTransfers,
    reads: ReadIndexQueue,
    heartbeats: HeartbeatMonitor,
    /// Proposals that consensus cannot take yet.
    held: VecDeque<HeldProposal>,
    conf_change: Option<ConfChangeInFlight>,
    next_tick: Duration,
    /// The append messages that the log writer has not acknowledged.
    appends_in_flight: usize,
    is_sole_voter: bool,
    /// Whether there is no other member at all, learners included.
    is_sole_member: bool,
    /// The buffer that is swapped with the queue's.
    events: Vec<Event>,
    is_over: bool,
}

impl RaftLoop {
    pub(crate) fn new(
        server: &ServerInner,
        inboxes: &Inboxes,
        node: RawNode<MemoryStorage>,
    ) -> RaftLoop {
        let context = Arc::clone(&server.context);
        let heartbeat = context.config.heartbeat;
        let mut raft = RaftLoop {
            next_tick: context.now() + heartbeat,
            heartbeats: HeartbeatMonitor::new(heartbeat),
            context,
            lifecycle: Arc::clone(&server.lifecycle),
            raft: Arc::clone(&server.raft),
            proposals: Arc::clone(&server.proposals),
            applied: Arc::clone(&server.applied),
            state: Arc::clone(&server.state),
            transport: Arc::clone(&server.transport),
            log: Arc::clone(&inboxes.log),
            apply: Arc::clone(&inboxes.apply),
            snapshots: Arc::clone(&inboxes.snapshots),
            node,
            snapshot_transfers: SnapshotTransfers::default(),
            reads: ReadIndexQueue::default(),
            held: VecDeque::new(),
            conf_change: None,
            appends_in_flight: 0,
            is_sole_voter: false,
            is_sole_member: false,
            events: Vec::new(),
            is_over: false,
        };
        raft.on_configuration();
        raft
    }

    /// Handles all queued events and the time that has passed. Returns the time until the next
    /// tick, or none when the loop is over.
    pub(crate) fn turn(&mut self) -> Option<Duration> {
        self.handle_events();
        if self.is_over {
            return None;
        }
        let now = self.context.now();
        // A member that may hold corrupt data must neither vote nor apply entries. Waiters still
        // time out.
        if !self.raft.participates() {
            self.tick(now);
            return Some(self.idle_for());
        }
        self.propose_held();
        self.tick(now);
        self.maybe_campaign_alone();
        self.request_read_index(now);
        while self.node.has_ready() {
            let ready = self.node.ready();
            self.dispatch(ready, now);
            self.propose_held();
            self.request_read_index(now);
        }
        self.publish_commit_index();
        self.publish_sole_leader();
        Some(self.idle_for())
    }

    /// The time until the next tick.
    pub(crate) fn idle_for(&self) -> Duration {
        self.next_tick.saturating_sub(self.context.now())
    }

    /// The events that wake the loop. While the log writer is busy, a proposal need not: it would
    /// queue after the write. The acknowledgement wakes the loop, and all proposals that arrived
    /// by then go into one append.
    pub(crate) fn wake_on(&self) -> WakeOn {
        if self.appends_in_flight > 0 { WakeOn::Urgent } else { WakeOn::Any }
    }

    fn handle_events(&mut self) {
        let mut events = std::mem::take(&mut self.events);
        self.raft.queue.take(&mut events);
        events.drain(..).for_each(|event| self.handle(event));
        self.events = events;
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Propose { id, data, since, leader_term } => {
                let payload = HeldPayload::Request(data, leader_term);
                self.held.push_back(HeldProposal { id, payload, since });
            }
            Event::ProposeConfChange { id, change, since } => {
                let payload = HeldPayload::ConfChange(change);
                self.held.push_back(HeldProposal { id, payload, since });
            }
            Event::ReadIndex(read) => self.reads.push(read),
            Event::PeerMessage { message, permit } => {
                drop(permit);
                if self.raft.participates() {
                    self.step(*message);
                }
            }
            Event::PeerUnreachable(member) => self.node.report_unreachable(member),
            Event::SnapshotSent { to, arrived } => {
                self.snapshot_transfers.end(to, arrived, self.context.now());
                self.node.report_snapshot(to, arrived);
            }
            Event::Appended(append) => {
                self.appends_in_flight = self.appends_in_flight.saturating_sub(1);
                self.on_appended(*append);
            }
            Event::Applied { responses, conf_changes } => {
                self.deliver_responses(responses);
                for (id, result) in conf_changes {
                    self.conf_change.take_if(|change| change.id == id);
                    self.proposals.pending.complete(id, Ok(AppliedProposal::ConfChange(result)));
                }
            }
            Event::ConfChanged { index, change, conf_state } => {
                self.on_conf_changed(index, &change, &conf_state);
            }
            Event::CompactLog { applied, conf_state } => self.compact_log(applied, conf_state),
            Event::TransferLeader(to) => self.transfer_leader(to),
            Event::AdvanceTicks(ticks) => (0..ticks).for_each(|_| self.node.tick()),
            // A failed send means that the waiter was dropped.
            Event::Status(sender) => drop(sender.send(self.node.status())),
            Event::Stop => self.is_over = true,
        }
    }

    fn tick(&mut self, now: Duration) {
        if now < self.next_tick {
            return;
        }
        let heartbeat = self.context.config.heartbeat;
        self.next_tick += heartbeat;
        if self.next_tick <= now {
            // The loop was held up. The missed ticks do not count: the member did not listen during
            // them, and would depose a leader for its own delay.
            self.next_tick = now + heartbeat;
        }
        if self.raft.participates() {
            self.node.tick();
        }
        self.expire(now);
    }

    /// Campaigns at once if the local member is the only voter: there is no leader to wait for.
    fn maybe_campaign_alone(&mut self) {
        if !self.is_sole_voter {
            return;
        }
        let status = self.node.basic_status();
        let is_idle_follower = status.soft_state == SoftState::default();
        if is_idle_follower && status.applied == status.hard_state.commit {
            self.node.campaign();
        }
    }

    fn request_read_index(&mut self, now: Duration) {
        let ids = &self.proposals.ids;
        if let Some(context) = self.reads.next_request(now, || ids.next()) {
            self.node.read_index(context);
        }
    }
}

/// Fails everything that waits for consensus, also after a panic of the loop.
impl Drop for RaftLoop {
    fn drop(&mut self) {
        self.raft.progress.set_sole_leader(false);
        self.raft.queue.close();
        self.proposals.pending.fail_all(&Error::Stopped);
        self.applied.fail_all(&Error::Stopped);
        // Dropping the senders in late events cancels their waiters.
        self.raft.queue.take(&mut self.events);
        self.events.clear();
    }
}
