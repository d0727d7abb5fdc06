//! A member as a process runs it: each stage in a thread of its own.
//!
//! ```text
//!   raft      the raft loop              compact      compactions, step by step
//!   wal       the log writer             watch        the catch-up of unsynced watchers
//!   apply     the applier                background   the periodic tasks of a member
//!   commit    the committer              snapshot     snapshots
//!   scrub     the scrub of the database  timer        timers
//!   pool-…, long-…, password-…           the worker pools
//! ```
//!
//! A thread is a loop around the `turn` of its stage and sleeps until there is work. A thread that
//! fails or panics stops the whole member: otherwise requests would wait for it forever.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use backend::{
    Backend, CommitError, CommitThread, SCRUB_INTERVAL_DEFAULT, SCRUB_PAGES_DEFAULT, ScrubThread,
};
use env::{Clock, Disk, Random};
use mvcc::watch::HubTurn;
use parking_lot::Mutex;
use proto::nested::STACK_BYTES;
use sync::{Notify, Queue, Timers, WakeOn, WorkerPool};

use crate::background::{BackgroundTasks, Published};
use crate::bootstrap::StartError;
use crate::config::ServerConfig;
use crate::context::MemberContext;
use crate::lifecycle::{Lifecycle, StopReason};
use crate::pipeline::applier::{Applier, ApplyWork, BackendMaintenance};
use crate::pipeline::compactor::Compactor;
use crate::pipeline::log_writer::{LogWork, LogWriter};
use crate::pipeline::raft_handle::RaftHandle;
use crate::pipeline::raft_loop::RaftLoop;
use crate::pipeline::{Inboxes, Pipeline, worker_pools};
use crate::planted_bug::{self, PlantedBug};
use crate::server::{Server, ServerInner};
use crate::snapshot::{SnapshotStage, SnapshotWork};
use crate::state::StateHandle;
use crate::transport::Transport;

/// The stack of a thread that handles no transactions: Rust's default.
const STACK_BYTES_DEFAULT: usize = 2 << 20;
/// The operation of the commit thread, for its error text.
const COMMIT: &str = "commit to the database";

/// A running member. Dropping it without [`Member::stop`] leaves its threads running.
#[derive(Debug)]
pub struct Member {
    server: Server,
    published: Arc<Published>,
    notifies: Vec<Arc<Notify>>,
    inboxes: Inboxes,
    raft: JoinHandle<()>,
    stages: Vec<JoinHandle<()>>,
    backend_threads: BackendThreads,
}

/// The platform of a member: disk, clock and randomness.
#[derive(Debug)]
pub struct Platform {
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The source of random numbers.
    pub random: Box<dyn Random>,
}

impl Member {
    /// Restores the member from its data directory, or bootstraps a new one in an empty directory,
    /// and starts its threads.
    ///
    /// # Errors
    /// The member cannot start; no thread runs then.
    pub fn start(
        config: ServerConfig,
        platform: Platform,
        transport: Arc<dyn Transport>,
        registry: &prometheus::Registry,
    ) -> Result<Member, StartError> {
        let backend_threads = BackendThreads::default();
        let maintenance = |server: &ServerInner| BackendThreadsHandle {
            context: Arc::clone(&server.context),
            lifecycle: Arc::clone(&server.lifecycle),
            threads: backend_threads.clone(),
        };
        let mut pipeline = Pipeline::assemble(config, platform, transport, registry, maintenance)?;
        let (server, inboxes) = (pipeline.server.clone(), pipeline.inboxes.clone());
        let inner = Arc::clone(&server.inner);
        pipeline.writer.prepare_in_background().map_err(StartError::Thread)?;
        let (background, watch) = (Arc::new(Notify::default()), Arc::clone(&pipeline.watch));
        let published = pipeline.background.published();
        let backend = inner.state.get().backend.clone();
        let spawn_all = || -> io::Result<_> {
            let lifecycle = &inner.lifecycle;
            let stages = vec![
                spawn("wal", lifecycle, run_log(&inboxes.log, pipeline.writer))?,
                spawn_with_stack(
                    STACK_BYTES,
                    "apply",
                    lifecycle,
                    run_apply(&inboxes.apply, pipeline.applier),
                )?,
                spawn(
                    "snapshot",
                    lifecycle,
                    run_snapshots(&inboxes.snapshots, pipeline.snapshots),
                )?,
                spawn("compact", lifecycle, run_compaction(&inner.compaction, pipeline.compactor))?,
                spawn("watch", lifecycle, run_watch(&watch, &inner.context, &inner.state))?,
                spawn(
                    "background",
                    lifecycle,
                    run_background(&background, &inner.context, pipeline.background),
                )?,
                spawn("timer", lifecycle, run_timers(&inner.timers, &inner.context))?,
            ];
            let stages = stages.into_iter().chain(spawn_pools(&inner)?).collect();
            let raft = spawn("raft", lifecycle, run_raft(&inner.raft, pipeline.raft))?;
            backend_threads.replace(&inner.context, lifecycle, &backend)?;
            Ok((stages, raft))
        };
        let (stages, raft) = spawn_all().map_err(StartError::Thread)?;
        let notifies = vec![background, watch];
        Ok(Member { server, published, notifies, inboxes, raft, stages, backend_threads })
    }

    /// The handle of the member.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Returns once the cluster knows the name and client URLs of this member, so that clients may
    /// be served. None if that will not happen.
    pub fn published(&self) -> impl Future<Output = Option<()>> + Send + 'static {
        let published = Arc::clone(&self.published);
        async move { published.wait().await.ok() }
    }

    /// Shuts the member down: fails all waiters, commits the applied changes to the database and
    /// closes all files.
    ///
    /// Returns the reason for the stop: this call, an earlier one, or a failure of the shutdown.
    pub fn stop(self) -> StopReason {
        let Member { server, notifies, inboxes, raft, stages, backend_threads, .. } = self;
        let inner = server.inner;
        inner.lifecycle.stop(StopReason::Requested);
        join(raft);
        inboxes.close();
        inner.compaction.close();
        inner.pools.close();
        notifies.iter().for_each(|notify| notify.close());
        stages.into_iter().for_each(join);
        let committed = backend_threads.stop();
        let reason = inner.lifecycle.reason();
        close(inner);
        match committed {
            Err(error) if reason == StopReason::Requested => StopReason::fault(COMMIT, &error),
            _ => reason,
        }
    }
}

/// Joins a thread. A panic has been logged by then.
fn join(thread: JoinHandle<()>) {
    let _ = thread.join();
}

/// Closes the database if it is not in use any more. All its content is committed anyway.
fn close(inner: Arc<ServerInner>) {
    let Ok(inner) = Arc::try_unwrap(inner) else { return };
    let Ok(state) = Arc::try_unwrap(inner.state) else { return };
    let Some(state) = state.into_state() else { return };
    if let Err(error) = state.close() {
        tracing::warn!(%error, "failed to close the database");
    }
}

/// Runs a stage in a thread. If it panics, the member stops.
fn spawn(
    name: &str,
    lifecycle: &Arc<Lifecycle>,
    run: impl FnOnce(&Lifecycle) + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    spawn_with_stack(STACK_BYTES_DEFAULT, name, lifecycle, run)
}

fn spawn_with_stack(
    stack_bytes: usize,
    name: &str,
    lifecycle: &Arc<Lifecycle>,
    run: impl FnOnce(&Lifecycle) + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let lifecycle = Arc::clone(lifecycle);
    std::thread::Builder::new().name(name.to_owned()).stack_size(stack_bytes).spawn(move || {
        let guard = StopOnPanic(&lifecycle);
        run(&lifecycle);
        drop(guard);
    })
}

/// Spawns the threads of all worker pools. A job that panics ends its thread, so it stops the
/// member too.
fn spawn_pools(inner: &ServerInner) -> io::Result<Vec<JoinHandle<()>>> {
    let pools = inner.pools.all();
    let threads =
        pools.into_iter().flat_map(|pool| (0..worker_pools::THREADS).map(move |n| (pool, n)));
    let one = |((name, pool), number): ((&str, &Arc<WorkerPool>), usize)| {
        let pool = Arc::clone(pool);
        spawn(&format!("{name}-{number}"), &inner.lifecycle, move |_| pool.work())
    };
    threads.map(one).collect()
}

/// The threads that maintain the open database: they commit and scrub it.
#[derive(Clone, Debug, Default)]
struct BackendThreads(Arc<Mutex<Option<(CommitThread, ScrubThread)>>>);

impl BackendThreads {
    /// Spawns the threads of a database and ends those of the previous one, without waiting for
    /// them.
    fn replace(
        &self,
        context: &MemberContext,
        lifecycle: &Arc<Lifecycle>,
        backend: &Backend,
    ) -> io::Result<()> {
        let metrics = &context.metrics;
        let commits = metrics.backend_commit_duration.clone();
        let rebalance = metrics.backend_commit_rebalance_duration.clone();
        let spill = metrics.backend_commit_spill_duration.clone();
        let write = metrics.backend_commit_write_duration.clone();
        backend.observe_commits(Box::new(move |commit| {
            commits.observe(commit.took.as_secs_f64());
            rebalance.observe(commit.phases.rebalance.as_secs_f64());
            spill.observe(commit.phases.spill.as_secs_f64());
            write.observe(commit.phases.write.as_secs_f64());
        }));
        let threads = (spawn_commit(lifecycle, backend)?, spawn_scrub(lifecycle, backend)?);
        let before = self.0.lock().replace(threads);
        if let Some(before) = before {
            std::thread::Builder::new()
                .name("stop-backend".to_owned())
                .spawn(move || stop(before))?;
        }
        Ok(())
    }

    /// Commits the pending batch and ends the threads.
    fn stop(&self) -> Result<(), CommitError> {
        let threads = self.0.lock().take();
        threads.map_or(Ok(()), stop)
    }
}

fn stop((commit, scrub): (CommitThread, ScrubThread)) -> Result<(), CommitError> {
    scrub.stop();
    commit.stop()
}

/// The access of the applier to the backend threads.
struct BackendThreadsHandle {
    context: Arc<MemberContext>,
    lifecycle: Arc<Lifecycle>,
    threads: BackendThreads,
}

impl BackendMaintenance for BackendThreadsHandle {
    fn switch_to(&mut self, backend: &Backend) -> io::Result<()> {
        self.threads.replace(&self.context, &self.lifecycle, backend)
    }
}

fn spawn_commit(lifecycle: &Arc<Lifecycle>, backend: &Backend) -> io::Result<CommitThread> {
    let lifecycle = Arc::clone(lifecycle);
    CommitThread::spawn_with_callback(backend, move |error| lifecycle.fail(COMMIT, error))
}

fn spawn_scrub(lifecycle: &Arc<Lifecycle>, backend: &Backend) -> io::Result<ScrubThread> {
    let lifecycle = Arc::clone(lifecycle);
    let panicked = move |panic: &str| lifecycle.fail("scrub the database", &panic);
    ScrubThread::spawn_with_callback(backend, SCRUB_PAGES_DEFAULT, SCRUB_INTERVAL_DEFAULT, panicked)
}

/// Stops the member if the thread panics.
struct StopOnPanic<'a>(&'a Lifecycle);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let thread = std::thread::current();
            let name = thread.name().unwrap_or_default().to_owned();
            self.0.fail("a thread panicked", &name);
        }
    }
}

fn run_raft(
    handle: &Arc<RaftHandle>,
    mut raft: RaftLoop,
) -> impl FnOnce(&Lifecycle) + Send + use<> {
    let handle = Arc::clone(handle);
    move |_| {
        while let Some(time) = raft.turn() {
            handle.queue.wait_for(raft.wake_on(), Some(time));
        }
    }
}

fn run_log(
    inbox: &Arc<Queue<LogWork>>,
    mut writer: LogWriter,
) -> impl FnOnce(&Lifecycle) + Send + use<> {
    let inbox = Arc::clone(inbox);
    move |lifecycle| {
        while !inbox.is_finished() {
            inbox.wait_for(WakeOn::Urgent, None);
            if let Err(error) = writer.turn() {
                return lifecycle.fail("write the log", &error);
            }
        }
        if let Err(error) = writer.close() {
            lifecycle.fail("close the log", &error);
        }
    }
}

fn run_apply(
    inbox: &Arc<Queue<ApplyWork>>,
    mut applier: Applier,
) -> impl FnOnce(&Lifecycle) + Send + use<> {
    let inbox = Arc::clone(inbox);
    move |lifecycle| {
        while !inbox.is_finished() {
            inbox.wait(None);
            if let Err(error) = applier.turn() {
                return lifecycle.fail("apply the log", &error);
            }
        }
    }
}

fn run_snapshots(
    inbox: &Arc<Queue<SnapshotWork>>,
    mut snapshots: SnapshotStage,
) -> impl FnOnce(&Lifecycle) + Send + use<> {
    let inbox = Arc::clone(inbox);
    move |lifecycle| {
        while !inbox.is_finished() {
            inbox.wait(None);
            if let Err(error) = snapshots.turn() {
                return lifecycle.fail("take a snapshot", &error);
            }
        }
    }
}

fn run_compaction(
    notify: &Arc<Notify>,
    mut compactor: Compactor,
) -> impl FnOnce(&Lifecycle) + Send + use<> {
    let notify = Arc::clone(notify);
    move |lifecycle| loop {
        match compactor.turn() {
            Ok(pause) if notify.wait(pause) => {}
            Ok(_) => return,
            Err(error) => return lifecycle.fail("compact", &error),
        }
    }
}

fn run_watch(
    notify: &Arc<Notify>,
    context: &Arc<MemberContext>,
    state: &Arc<StateHandle>,
) -> impl FnOnce(&Lifecycle) + Send + use<> {
    let (notify, context, state) = (Arc::clone(notify), Arc::clone(context), Arc::clone(state));
    move |lifecycle| {
        let mut timeout = None;
        while notify.wait(timeout) {
            match serve_watchers(&context, &state, lifecycle) {
                Some(next) => timeout = next,
                None => return,
            }
        }
    }
}

/// Catches up all unsynced watchers. Returns the time until the next progress notification is due,
/// if any; none at all after a failure.
pub(crate) fn serve_watchers(
    context: &MemberContext,
    state: &StateHandle,
    lifecycle: &Lifecycle,
) -> Option<Option<Duration>> {
    if planted_bug::is_planted(PlantedBug::NeverCatchUp) {
        return Some(None);
    }
    loop {
        // A snapshot may have replaced the state since the last turn.
        let state = state.get();
        match state.store.sync_watchers() {
            Ok(HubTurn::Again) => {}
            Ok(HubTurn::Idle) => {
                let now = context.now();
                return Some(state.store.tick_progress(now).map(|at| at.saturating_sub(now)));
            }
            Err(error) => {
                lifecycle.fail("read history for watchers", &error);
                return None;
            }
        }
    }
}

fn run_background(
    notify: &Arc<Notify>,
    context: &Arc<MemberContext>,
    mut background: BackgroundTasks,
) -> impl FnOnce(&Lifecycle) + Send + use<> {
    let (notify, context) = (Arc::clone(notify), Arc::clone(context));
    move |_| {
        let mut timeout = Duration::ZERO;
        while notify.wait(Some(timeout)) {
            timeout = background.turn(context.now());
        }
    }
}

fn run_timers(
    timers: &Arc<Timers>,
    context: &Arc<MemberContext>,
) -> impl FnOnce(&Lifecycle) + Send + use<> {
    let (timers, context) = (Arc::clone(timers), Arc::clone(context));
    move |_| timers.run(|| context.now())
}
