//! The constants of a running member: its identity, configuration, platform and metrics.

use std::sync::Arc;
use std::time::Duration;

use env::{Clock, Disk};
use membership::ClusterId;
use types::MemberId;

use crate::config::ServerConfig;
use crate::metrics::Metrics;

/// The constants of a running member, which every stage holds.
#[derive(Debug)]
pub(crate) struct MemberContext {
    pub(crate) local: MemberId,
    pub(crate) cluster_id: ClusterId,
    pub(crate) config: ServerConfig,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Metrics,
}

impl MemberContext {
    /// The time on the monotonic clock.
    pub(crate) fn now(&self) -> Duration {
        self.clock.monotonic()
    }
}
