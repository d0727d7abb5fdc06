//! Worker pools for blocking work, each with its own threads.
//!
//! ```text
//!   pool-0, pool-1           short       commits for a waiting request, purging, storage version
//!   long-0, long-1           long        hashes of all keys or of the file, defragmentation
//!   password-0, password-1   passwords   password hashes
//! ```
//!
//! Separate threads keep short jobs from waiting for long ones. Passwords have their own because
//! an unauthenticated client can submit them: they must neither delay other work nor be delayed.

use std::sync::Arc;

use sync::WorkerPool;

/// The threads of each pool.
pub(crate) const THREADS: usize = 2;
/// The maximum number of queued jobs of each pool.
const JOBS_MAX: usize = 1024;

/// The worker pools of a member.
#[derive(Clone, Debug)]
pub(crate) struct WorkerPools {
    pub(crate) short: Arc<WorkerPool>,
    pub(crate) long: Arc<WorkerPool>,
    pub(crate) passwords: Arc<WorkerPool>,
}

impl Default for WorkerPools {
    fn default() -> WorkerPools {
        let pool = || Arc::new(WorkerPool::new(JOBS_MAX));
        WorkerPools { short: pool(), long: pool(), passwords: pool() }
    }
}

impl WorkerPools {
    /// All pools, with the names of their threads.
    pub(crate) fn all(&self) -> [(&'static str, &Arc<WorkerPool>); 3] {
        [("pool", &self.short), ("long", &self.long), ("password", &self.passwords)]
    }

    /// Cancels queued jobs and ends the threads.
    pub(crate) fn close(&self) {
        self.all().into_iter().for_each(|(_, pool)| pool.close());
    }
}
