//! Streams: long-lived connections that carry messages in one direction.
//!
//! The receiver dials: member 1 sends `GET /raft/stream/msgapp/1` to member 2, and the endless body
//! of the response carries the messages of member 2 for member 1.
//!
//! ```text
//!   1 (leader)                                             2
//!   queue, writer: msgapp   ── MsgApp ───────────────────► reader: msgapp            dialed by 2
//!   queue, writer: message  ── MsgHeartbeat, … ──────────► reader: message           dialed by 2
//!   reader: message         ◄── MsgAppResp, … ───────────  queue, writer: message    dialed by 1
//!   reader: msgapp          ◄── (link heartbeats) ───────  queue, writer: msgapp     dialed by 1
//! ```

pub(crate) mod queue;
pub(crate) mod reader;
pub(crate) mod writer;

use types::MemberId;

/// The kind of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamKind {
    /// Carries all messages.
    Message,
    /// Carries `MsgApp` only.
    MsgApp,
}

/// The path prefix of streams.
pub(crate) const STREAM_PATH: &str = "/raft/stream/";

impl StreamKind {
    pub(crate) const ALL: [StreamKind; 2] = [StreamKind::MsgApp, StreamKind::Message];

    /// Returns the kind as a path segment.
    pub(crate) fn segment(self) -> &'static str {
        match self {
            StreamKind::Message => "message",
            StreamKind::MsgApp => "msgapp",
        }
    }

    /// Returns the name of the stream in logs. The text is etcd's.
    pub(crate) fn name(self) -> &'static str {
        match self {
            StreamKind::Message => "stream Message",
            StreamKind::MsgApp => "stream MsgApp v2",
        }
    }

    /// Returns the path that a member requests.
    pub(crate) fn path(self, from: MemberId) -> String {
        format!("{STREAM_PATH}{}/{from}", self.segment())
    }
}
