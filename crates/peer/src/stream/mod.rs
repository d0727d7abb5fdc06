//! Streams: connections over which messages go one way for as long as both ends are there.
//!
//! Whoever wants to hear dials: member 1 asks member 2 for `GET /raft/stream/msgapp/1`, and what member 2 has to say to member 1 is the body of the answer, which never ends.
//!
//! ```text
//!   1 (leader)                                        2
//!   Outlet msgapp  ── MsgApp ────────────────────►  Inlet msgapp        dialled by 2
//!   Outlet message ── MsgHeartbeat, … ───────────►  Inlet message       dialled by 2
//!   Inlet message  ◄── MsgAppResp, … ─────────────  Outlet message      dialled by 1
//!   Inlet msgapp   ◄── (a sign of life) ──────────  Outlet msgapp       dialled by 1
//! ```

pub(crate) mod inlet;
pub(crate) mod outlet;
pub(crate) mod writer;

use types::MemberId;

/// The two kinds of stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamKind {
    /// Takes everything.
    Message,
    /// Takes only what a leader replicates.
    MsgApp,
}

/// Where streams are asked for.
pub(crate) const STREAM_PATH: &str = "/raft/stream/";

impl StreamKind {
    pub(crate) const ALL: [StreamKind; 2] = [StreamKind::MsgApp, StreamKind::Message];

    /// Its name in a path.
    pub(crate) fn segment(self) -> &'static str {
        match self {
            StreamKind::Message => "message",
            StreamKind::MsgApp => "msgapp",
        }
    }

    /// Its name in logs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            StreamKind::Message => "stream Message",
            StreamKind::MsgApp => "stream MsgApp v2",
        }
    }

    /// Where a member asks for it.
    pub(crate) fn path(self, from: MemberId) -> String {
        format!("{STREAM_PATH}{}/{from}", self.segment())
    }
}
