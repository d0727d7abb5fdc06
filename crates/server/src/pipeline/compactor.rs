//! The compaction thread: compactions, a step at a time.
//!
//! Between two steps others get their turn. How long each step and each compaction takes is counted, as etcd counts it:
//!
//! ```text
//!   step      index     index     file      (pause)  file      (pause)  file, the last
//!   counted   index pause each    db pause                              db pause
//!                                 └──────────── db total ─────────────────────────┘   keys, when it ended
//! ```

use std::sync::Arc;
use std::time::Duration;

use mvcc::{CompactionTurn, Fault, KeyValueHash};

use crate::server::Shared;
use crate::units::unix_seconds;

/// Who compacts.
pub(crate) struct Compactor {
    shared: Arc<Shared>,
    /// The compaction whose part in the file is under way.
    file: Option<InFile>,
}

/// A compaction that has come to the file.
#[derive(Clone, Copy, Debug)]
struct InFile {
    began: Duration,
    dropped: usize,
}

impl Compactor {
    pub(crate) fn new(shared: Arc<Shared>) -> Compactor {
        Compactor { shared, file: None }
    }

    /// Does one step. Returns how long to let others have their turn; none if there is nothing to do.
    ///
    /// # Errors
    /// This member has to stop.
    pub(crate) fn turn(&mut self) -> Result<Option<Duration>, Fault> {
        let shared = Arc::clone(&self.shared);
        let began = shared.now();
        let turn = shared.state().store.turn_compaction()?;
        let took = shared.now().saturating_sub(began);
        let metrics = &shared.metrics;
        match turn {
            CompactionTurn::Idle => return Ok(None),
            CompactionTurn::Index => metrics.index_compaction_pause_ms.observe(milliseconds(took)),
            CompactionTurn::File { dropped } => self.in_file(began, took, dropped),
            CompactionTurn::Finished { dropped, hash } => {
                self.in_file(began, took, dropped);
                self.finished(hash);
            }
        }
        Ok(Some(shared.config.compaction_sleep_interval))
    }

    fn in_file(&mut self, began: Duration, took: Duration, dropped: usize) {
        self.shared.metrics.db_compaction_pause_ms.observe(milliseconds(took));
        self.file.get_or_insert(InFile { began, dropped: 0 }).dropped += dropped;
    }

    fn finished(&mut self, hash: KeyValueHash) {
        let Some(InFile { began, dropped }) = self.file.take() else { return };
        let (shared, metrics) = (&self.shared, &self.shared.metrics);
        let took = shared.now().saturating_sub(began);
        metrics.db_compaction_total_ms.observe(milliseconds(took));
        metrics.db_compaction_keys.inc_by(dropped as u64);
        metrics.db_compaction_last.set(unix_seconds(&*shared.clock));
        let backend = &shared.state().backend;
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
