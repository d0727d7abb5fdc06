//! Compacts old revisions automatically, as set by `--auto-compaction-mode` and
//! `--auto-compaction-retention`. Only the leader compacts.
//!
//! *Periodic*, with a period of one hour: every member samples the revision every six minutes and
//! keeps the samples of the last hour. The leader compacts to the oldest sample, first after an
//! hour, then every hour. A longer period delays the first compaction and keeps more samples; the
//! interval remains one hour:
//!
//! ```text
//!   minutes       0    6   12  …   54   60  …   114   120
//!   sampled       1   90  150     700  820     1500  1650
//!   compacts to                          1            700   the oldest sample then
//! ```
//!
//! *By revision*: every five minutes, to the given number of revisions before the current one.
//!
//! A failed compaction is retried with the next sample, or after five minutes. A revision that is
//! already compacted counts as success.

use std::collections::VecDeque;
use std::time::Duration;

use proto::etcdserverpb::CompactionRequest;

use super::BackgroundTask;
use super::pending_task::{Interval, POLL, PendingTask, propose_and_wait};
use crate::apply::Refusal;
use crate::config::AutoCompaction;
use crate::error::Error;
use crate::server::Server;

/// The longest time between two compactions, also for longer periods.
const COMPACT_INTERVAL_MAX: Duration = Duration::from_secs(60 * 60);
/// The revisions sampled between two compactions.
const SAMPLES_PER_PERIOD: u32 = 10;
/// The shortest time between samples, also for very short periods.
const SAMPLE_INTERVAL_MIN: Duration = Duration::from_millis(1);
/// The time between compactions by revision.
const REVISION_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// Creates the task for the configured mode, or `None` if compaction is off.
pub(super) fn auto_compaction(server: &Server) -> Option<Box<dyn BackgroundTask>> {
    match server.config().auto_compaction {
        AutoCompaction::Off => None,
        AutoCompaction::Periodic(period) if period.is_zero() => None,
        AutoCompaction::Revision(..=0) => None,
        AutoCompaction::Periodic(period) => Some(Box::new(Periodic::new(server.clone(), period))),
        AutoCompaction::Revision(keep) => Some(Box::new(ByRevision::new(server.clone(), keep))),
    }
}

/// A pending compaction.
#[derive(Debug)]
struct Compacting {
    server: Server,
    revision: i64,
    began: Duration,
    task: PendingTask<Result<(), Error>>,
}

/// The result of a compaction.
struct Compacted {
    revision: i64,
    took: Duration,
    result: Result<(), Error>,
}

impl Compacting {
    fn new(server: Server) -> Compacting {
        Compacting { server, revision: 0, began: Duration::ZERO, task: PendingTask::default() }
    }

    fn begin(&mut self, revision: i64, now: Duration) {
        (self.revision, self.began) = (revision, now);
        let request = CompactionRequest { revision, physical: false };
        let server = self.server.clone();
        self.task.begin(async move {
            ok_if_compacted(propose_and_wait(server, request).await.map(drop))
        });
    }

    fn poll(&mut self, now: Duration) -> Option<Compacted> {
        let result = self.task.poll()?;
        let took = now.saturating_sub(self.began);
        Some(Compacted { revision: self.revision, took, result })
    }
}

/// Treats a revision that is already compacted as success.
fn ok_if_compacted(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(Error::Refused(Refusal::Keys(mvcc::Error::Compacted))) => Ok(()),
        other => other,
    }
}

/// Compacts to the revision that was current one period ago.
#[derive(Debug)]
struct Periodic {
    server: Server,
    period: Duration,
    every: Interval,
    /// The revisions sampled during the last period, oldest first.
    samples: VecDeque<i64>,
    samples_max: usize,
    last_revision: i64,
    last_success: Duration,
    /// The minimum time since the last success: the whole period before the first compaction.
    wait: Duration,
    compacting: Compacting,
}

impl Periodic {
    fn new(server: Server, period: Duration) -> Periodic {
        let now = server.now();
        let interval = sample_interval(period);
        let samples = period.as_nanos() / interval.as_nanos() + 1;
        let mut periodic = Periodic {
            period,
            every: Interval::after(interval, now),
            samples: VecDeque::new(),
            samples_max: usize::try_from(samples).unwrap_or(usize::MAX),
            last_revision: 0,
            last_success: now,
            wait: period,
            compacting: Compacting::new(server.clone()),
            server,
        };
        periodic.sample();
        periodic
    }

    /// Samples the current revision and discards the sample from before the period.
    fn sample(&mut self) {
        self.samples.push_back(self.server.state().store.current());
        if self.samples.len() > self.samples_max {
            self.samples.pop_front();
        }
    }

    /// Returns the revision to compact to now, if a compaction is due.
    fn due(&self, now: Duration) -> Option<i64> {
        let revision = *self.samples.front()?;
        let has_passed = now.saturating_sub(self.last_success) >= self.wait;
        let is_due = self.server.is_leader() && has_passed && revision != self.last_revision;
        is_due.then_some(revision)
    }

    fn begin(&mut self, revision: i64, now: Duration) {
        self.wait = self.period.min(COMPACT_INTERVAL_MAX);
        tracing::info!(revision, compact_period = ?self.period, "starting auto periodic compaction");
        self.compacting.begin(revision, now);
    }

    fn end(&mut self, compacted: Compacted, now: Duration) {
        let Compacted { revision, took, result } = compacted;
        let compact_period = self.period;
        match result {
            Ok(()) => {
                tracing::info!(
                    revision,
                    ?compact_period,
                    ?took,
                    "completed auto periodic compaction"
                );
                (self.last_revision, self.last_success) = (revision, now);
            }
            Err(error) => {
                let retry_interval = sample_interval(self.period);
                tracing::warn!(revision, ?compact_period, ?retry_interval, %error, "failed auto periodic compaction");
            }
        }
    }
}

impl BackgroundTask for Periodic {
    fn turn(&mut self, now: Duration) -> Duration {
        if !self.compacting.task.is_pending() {
            if !self.every.is_due(now) {
                return self.every.next();
            }
            match self.due(now) {
                Some(revision) => self.begin(revision, now),
                None => self.sample(),
            }
        }
        if let Some(compacted) = self.compacting.poll(now) {
            self.end(compacted, now);
            self.sample();
            self.every.restart(now);
        }
        if self.compacting.task.is_pending() { now + POLL } else { self.every.next() }
    }
}

/// Returns the time between samples.
fn sample_interval(period: Duration) -> Duration {
    (period.min(COMPACT_INTERVAL_MAX) / SAMPLES_PER_PERIOD).max(SAMPLE_INTERVAL_MIN)
}

/// Compacts to a fixed number of revisions before the current one.
#[derive(Debug)]
struct ByRevision {
    server: Server,
    keep: i64,
    every: Interval,
    last_revision: i64,
    compacting: Compacting,
}

impl ByRevision {
    fn new(server: Server, keep: i64) -> ByRevision {
        let every = Interval::after(REVISION_INTERVAL, server.now());
        let compacting = Compacting::new(server.clone());
        ByRevision { server, keep, every, last_revision: 0, compacting }
    }

    fn due(&self) -> Option<i64> {
        let revision = self.server.state().store.current() - self.keep;
        let is_due = self.server.is_leader() && revision > 0 && revision != self.last_revision;
        is_due.then_some(revision)
    }

    fn begin(&mut self, revision: i64, now: Duration) {
        let revision_compaction_retention = self.keep;
        tracing::info!(
            revision,
            revision_compaction_retention,
            "starting auto revision compaction"
        );
        self.compacting.begin(revision, now);
    }

    fn end(&mut self, compacted: Compacted) {
        let Compacted { revision, took, result } = compacted;
        let revision_compaction_retention = self.keep;
        match result {
            Ok(()) => {
                tracing::info!(
                    revision,
                    revision_compaction_retention,
                    ?took,
                    "completed auto revision compaction"
                );
                self.last_revision = revision;
            }
            Err(error) => {
                let retry_interval = REVISION_INTERVAL;
                tracing::warn!(revision, revision_compaction_retention, ?retry_interval, %error, "failed auto revision compaction");
            }
        }
    }
}

impl BackgroundTask for ByRevision {
    fn turn(&mut self, now: Duration) -> Duration {
        if !self.compacting.task.is_pending()
            && self.every.is_due(now)
            && let Some(revision) = self.due()
        {
            self.begin(revision, now);
        }
        if let Some(compacted) = self.compacting.poll(now) {
            self.end(compacted);
            self.every.restart(now);
        }
        if self.compacting.task.is_pending() { now + POLL } else { self.every.next() }
    }
}
