//! Messages from and to peers.

use std::time::Duration;

use raft::{Message, MessageType, StepError};
use types::MemberId;

use super::RaftLoop;
use crate::snapshot::SnapshotWork;

impl RaftLoop {
    /// Steps a message of a peer.
    pub(super) fn step(&mut self, message: Message) {
        let (from, kind) = (message.from, message.kind);
        match self.node.step(message) {
            Ok(()) => {}
            // An entry that this member acknowledged may be committed, and a vote with its shorter
            // log could undo that. The member must not send another message.
            Err(error @ StepError::LogLost { .. }) => {
                self.lifecycle.fail("follow the leader", &error);
                self.is_over = true;
            }
            Err(error) => {
                tracing::debug!(%from, kind = kind.as_str(), %error, "refused a message");
            }
        }
    }

    /// Delivers the acknowledgements of the log writer and the applier: to the local consensus
    /// core, or to peers.
    pub(super) fn deliver_responses(&mut self, responses: Vec<Message>) {
        let local = self.context.local;
        let (to_self, to_peers): (Vec<_>, Vec<_>) =
            responses.into_iter().partition(|message| message.to == local);
        for message in to_self {
            // A removed member refuses its own acknowledgements, which have no effect then.
            let _ = self.node.step_local(message);
        }
        self.send(to_peers);
    }

    pub(super) fn send(&mut self, mut messages: Vec<Message>) {
        let snapshots = messages.extract_if(.., |message| message.kind == MessageType::MsgSnap);
        for snapshot in snapshots.collect::<Vec<_>>() {
            self.send_snapshot(snapshot);
        }
        if !messages.is_empty() {
            self.transport.send(messages);
        }
    }

    /// Hands a snapshot message to the snapshot stage, which adds the database. If the transfer
    /// cannot start now, consensus retries.
    fn send_snapshot(&mut self, message: Message) {
        let to = message.to;
        if self.snapshot_transfers.begin(to) {
            self.snapshots.push(SnapshotWork::Send(Box::new(message)));
        } else {
            self.node.report_snapshot(to, false);
        }
    }

    /// Starts a leader transfer. It succeeds within an election timeout or is given up.
    pub(super) fn transfer_leader(&mut self, to: MemberId) {
        let decided_by = self.context.now() + 2 * self.context.config.election_timeout();
        self.raft.progress.suspend_leader_lease(decided_by);
        self.node.transfer_leader(to);
    }

    /// Counts and logs heartbeats that are sent too late.
    pub(super) fn check_heartbeats(&mut self, messages: &[Message], now: Duration) {
        for heartbeat in messages.iter().filter(|message| message.kind == MessageType::MsgHeartbeat)
        {
            let Some(delay) = self.heartbeats.record_sent(heartbeat.to, now) else { continue };
            self.context.metrics.heartbeat_send_failures.inc();
            tracing::warn!(
                to = %heartbeat.to,
                heartbeat_interval = ?self.context.config.heartbeat,
                expected_duration = ?self.heartbeats.expected(),
                exceeded_duration = ?delay,
                "leader failed to send out heartbeat on time; took too long, leader is overloaded likely from slow disk"
            );
        }
    }
}
