//! The compactor: the stage that executes compactions, one step per turn.
//!
//! The stage pauses between steps so that writes get their turn. The duration of each step and of
//! each compaction is recorded as in etcd:
//!
//! ```text
//!   step      index   index     file      (pause)  file      (pause)  file, the last
//!   recorded  index pause each  db pause           db pause           db pause
//!                               └──────────── db total ─────────────────────────┘  keys, at end
//! ```

use std::sync::Arc;
use std::time::Duration;

use mvcc::{CompactionTurn, Fault, KeyValueHash};

use crate::context::MemberContext;
use crate::server::ServerInner;
use crate::state::StateHandle;
use crate::units::unix_seconds;

/// The compactor.
pub(crate) struct Compactor {
    context: Arc<MemberContext>,
    state: Arc<StateHandle>,
    /// The compaction that is deleting revisions from the file.
    in_file: Option<FileCompaction>,
}

/// A compaction that has finished with the index and works on the file.
#[derive(Clone, Copy, Debug)]
struct FileCompaction {
    began: Duration,
    dropped: usize,
}

impl Compactor {
    pub(crate) fn new(server: &ServerInner) -> Compactor {
        let (context, state) = (Arc::clone(&server.context), Arc::clone(&server.state));
        Compactor { context, state, in_file: None }
    }

    /// Executes one step. Returns the pause before the next, or none if there is nothing to
    /// compact.
    ///
    /// # Errors
    /// The member has to stop.
    pub(crate) fn turn(&mut self) -> Result<Option<Duration>, Fault> {
        let began = self.context.now();
        let turn = self.state.get().store.turn_compaction()?;
        let took = self.context.now().saturating_sub(began);
        let metrics = &self.context.metrics;
        match turn {
            CompactionTurn::Idle => return Ok(None),
            CompactionTurn::Index => metrics.index_compaction_pause_ms.observe(milliseconds(took)),
            CompactionTurn::File { dropped } => self.on_file_step(began, took, dropped),
            CompactionTurn::Finished { dropped, hash } => {
                self.on_file_step(began, took, dropped);
                self.on_finished(hash);
            }
        }
        Ok(Some(self.context.config.compaction_sleep_interval))
    }

    fn on_file_step(&mut self, began: Duration, took: Duration, dropped: usize) {
        self.context.metrics.db_compaction_pause_ms.observe(milliseconds(took));
        self.in_file.get_or_insert(FileCompaction { began, dropped: 0 }).dropped += dropped;
    }

    fn on_finished(&mut self, hash: KeyValueHash) {
        let Some(FileCompaction { began, dropped }) = self.in_file.take() else { return };
        let metrics = &self.context.metrics;
        let took = self.context.now().saturating_sub(began);
        metrics.db_compaction_total_ms.observe(milliseconds(took));
        metrics.db_compaction_keys.inc_by(dropped as u64);
        metrics.db_compaction_last.set(unix_seconds(&*self.context.clock));
        let backend = &self.state.get().backend;
        tracing::info!(
            compact_revision = hash.revision,
            took = ?took,
            number_of_keys_compacted = dropped,
            hash = hash.hash,
            current_db_size_bytes = backend.size(),
            current_db_size_in_use_bytes = backend.size_in_use(),
            "finished scheduled compaction"
        );
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
