//! A member as a process has it: the stages, each in a thread of its own.
//!
//! ```text
//!   raft      the raft loop                      compact   compactions, a step at a time
//!   wal       the log                            watch     watchers that are behind
//!   apply     the state machine                  chores    what a member does by itself
//!   commit    the database file                  snapshot  snapshots
//!   scrub     looks for bit rot                  pool-…, long-…, password-…   what takes long
//! ```
//!
//! A thread is a loop round the `turn` of its stage: it sleeps until there is something to do. One that fails or panics ends the member, whichever it is: nothing would be
//! noticed missing until somebody waits for it in vain.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use backend::{
    Backend, CommitError, CommitThread, SCRUB_INTERVAL_DEFAULT, SCRUB_PAGES_DEFAULT, ScrubThread,
};
use env::{Clock, Disk, Random};
use mvcc::watch::Next;

use crate::background::{Chores, Published};
use crate::bootstrap::StartError;
use crate::config::ServerConfig;
use crate::pipeline::applier::{Applier, Keeper, Work};
use crate::pipeline::compactor::Compactor;
use crate::pipeline::log_writer::{LogWork, LogWriter};
use crate::pipeline::raft_loop::RaftLoop;
use crate::pipeline::{Inboxes, Parts};
use crate::planted_bug::{self, PlantedBug};
use crate::server::{Server, Shared, StopReason};
use crate::snapshot::{SnapshotWork, Snapshots};
use crate::state::StateMachine;
use crate::sync::notify::Bell;
use crate::sync::pool::{self, Pool};
use crate::sync::queue::{Inbox, Sleep};
use crate::transport::Transport;

/// What the commit thread does, for when it cannot.
const COMMIT: &str = "commit to the database";

/// A running member. Dropping it without [`Member::stop`] leaves its threads to the end of the process.
#[derive(Debug)]
pub struct Member {
    server: Server,
    published: Arc<Published>,
    bells: Vec<Arc<Bell>>,
    inboxes: Inboxes,
    raft: JoinHandle<()>,
    stages: Vec<JoinHandle<()>>,
    keepers: Keepers,
}

/// What a member gets from the machine.
#[derive(Debug)]
pub struct Machine {
    /// Its disk.
    pub disk: Arc<dyn Disk>,
    /// Its clock.
    pub clock: Arc<dyn Clock>,
    /// Its randomness.
    pub random: Box<dyn Random>,
}

impl Member {
    /// Takes up what is in the folder, or begins a cluster in an empty one, and runs.
    ///
    /// # Errors
    /// Nothing runs then.
    pub fn start(
        config: ServerConfig,
        machine: Machine,
        transport: Arc<dyn Transport>,
        registry: &prometheus::Registry,
    ) -> Result<Member, StartError> {
        let keepers = Keepers::default();
        let keeper = |shared: &Arc<Shared>| Kept {
            shared: Arc::downgrade(shared),
            keepers: keepers.clone(),
        };
        let mut parts = Parts::assemble(config, machine, transport, registry, keeper)?;
        let Parts { server, inboxes, .. } = &parts;
        let (server, inboxes) = (server.clone(), inboxes.clone());
        let shared = Arc::clone(&server.shared);
        parts.writer.prepare_in_background().map_err(StartError::Thread)?;
        let (chores, watch) = (Arc::new(Bell::default()), Arc::clone(&parts.watch));
        let published = parts.chores.published();
        let backend = shared.state().backend.clone();
        let spawn = || -> io::Result<_> {
            let stages = vec![
                spawn("wal", &shared, run_log(&inboxes.log, parts.writer))?,
                spawn("apply", &shared, run_apply(&inboxes.apply, parts.applier))?,
                spawn("snapshot", &shared, run_snapshots(&inboxes.snapshots, parts.snapshots))?,
                spawn("compact", &shared, run_compaction(parts.compactor))?,
                spawn("watch", &shared, run_watch(&watch))?,
                spawn("chores", &shared, run_chores(&chores, parts.chores))?,
            ];
            let stages = stages.into_iter().chain(spawn_pools(&shared)?).collect();
            let raft = spawn("raft", &shared, run_raft(parts.raft))?;
            keepers.replace(&shared, &backend)?;
            Ok((stages, raft))
        };
        let (stages, raft) = spawn().map_err(StartError::Thread)?;
        let bells = vec![chores, watch];
        Ok(Member { server, published, bells, inboxes, raft, stages, keepers })
    }

    /// The handle for everybody else.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Returns once the cluster knows this member's name and where clients reach it: then they may be served. None if that will not be.
    pub fn published(&self) -> impl Future<Output = Option<()>> + Send + 'static {
        let published = Arc::clone(&self.published);
        async move { published.wait().await }
    }

    /// Ends everything: whoever waits is told, what was applied is committed to the database, and all files are closed.
    ///
    /// Returns why it stopped: because of this, of something before, or of the end itself if that failed.
    pub fn stop(self) -> StopReason {
        let Member { server, bells, inboxes, raft, stages, keepers, .. } = self;
        let shared = server.shared;
        shared.end(StopReason::Asked);
        join(raft);
        inboxes.close();
        shared.compaction.close();
        shared.pools.close();
        bells.iter().for_each(|bell| bell.close());
        stages.into_iter().for_each(join);
        let committed = keepers.stop();
        let reason = shared.reason();
        close(shared);
        match committed {
            Err(error) if reason == StopReason::Asked => StopReason::fault(COMMIT, &error),
            _ => reason,
        }
    }
}

/// A panic has been logged by then.
fn join(thread: JoinHandle<()>) {
    let _ = thread.join();
}

/// Closes the database, if nobody uses it any more. Everything in it is committed anyway.
fn close(shared: Arc<Shared>) {
    let Ok(shared) = Arc::try_unwrap(shared) else { return };
    let Some(StateMachine { backend, store, .. }) = shared.into_state() else { return };
    drop(store);
    if let Err(error) = Backend::close(backend) {
        tracing::warn!(%error, "close the database");
    }
}

/// Runs a stage. If it panics, the member ends.
fn spawn(
    name: &str,
    shared: &Arc<Shared>,
    run: impl FnOnce(&Shared) + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        let guard = EndOnPanic(&shared);
        run(&shared);
        drop(guard);
    })
}

/// The threads of all pools. A job that panics takes its thread along, so it ends the member too.
fn spawn_pools(shared: &Arc<Shared>) -> io::Result<Vec<JoinHandle<()>>> {
    let pools = shared.pools.all();
    let threads = pools.into_iter().flat_map(|pool| (0..pool::THREADS).map(move |n| (pool, n)));
    let one = |((name, pool), number): ((&str, &Arc<Pool>), usize)| {
        let pool = Arc::clone(pool);
        spawn(&format!("{name}-{number}"), shared, move |_| pool.work())
    };
    threads.map(one).collect()
}

/// The threads that look after the database that there is: they commit it, and look for bit rot in it.
#[derive(Clone, Debug, Default)]
struct Keepers(Arc<Mutex<Option<(CommitThread, ScrubThread)>>>);

impl Keepers {
    /// Looks after another database. Whoever looked after the one before ends by himself: nobody waits for it any more.
    fn replace(&self, shared: &Arc<Shared>, backend: &Backend) -> io::Result<()> {
        let commits = shared.metrics.backend_commit_duration.clone();
        backend.observe_commits(Box::new(move |it| commits.observe(it.took.as_secs_f64())));
        let threads = (spawn_commit(shared, backend)?, spawn_scrub(shared, backend)?);
        if let Some(before) = self.lock().replace(threads) {
            std::thread::Builder::new().name("let-go".to_owned()).spawn(move || stop(before))?;
        }
        Ok(())
    }

    /// Commits what is pending.
    fn stop(&self) -> Result<(), CommitError> {
        let threads = self.lock().take();
        threads.map_or(Ok(()), stop)
    }

    fn lock(&self) -> MutexGuard<'_, Option<(CommitThread, ScrubThread)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stop((commit, scrub): (CommitThread, ScrubThread)) -> Result<(), CommitError> {
    scrub.stop();
    commit.stop()
}

/// What the apply thread has of them.
struct Kept {
    shared: Weak<Shared>,
    keepers: Keepers,
}

impl Keeper for Kept {
    fn take_over(&mut self, backend: &Backend) -> io::Result<()> {
        // If there is nobody left, the member has ended.
        self.shared.upgrade().map_or(Ok(()), |shared| self.keepers.replace(&shared, backend))
    }
}

fn spawn_commit(shared: &Arc<Shared>, backend: &Backend) -> io::Result<CommitThread> {
    let shared = Arc::downgrade(shared);
    CommitThread::spawn_with_callback(backend, move |error| fail(&shared, COMMIT, error))
}

fn spawn_scrub(shared: &Arc<Shared>, backend: &Backend) -> io::Result<ScrubThread> {
    let shared = Arc::downgrade(shared);
    let panicked = move |panic: &str| fail(&shared, "look for bit rot", &panic);
    ScrubThread::spawn_with_callback(backend, SCRUB_PAGES_DEFAULT, SCRUB_INTERVAL_DEFAULT, panicked)
}

fn fail(shared: &Weak<Shared>, what: &str, error: &dyn std::fmt::Display) {
    shared.upgrade().into_iter().for_each(|shared| shared.fail(what, error));
}

struct EndOnPanic<'a>(&'a Shared);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let thread = std::thread::current();
            let name = thread.name().unwrap_or_default().to_owned();
            self.0.fail("a thread panicked", &name);
        }
    }
}

fn run_raft(mut raft: RaftLoop) -> impl FnOnce(&Shared) + Send + use<> {
    move |shared| {
        while let Some(time) = raft.turn() {
            shared.raft.wait_so(Some(time), raft.sleep());
        }
    }
}

fn run_log(
    inbox: &Arc<Inbox<LogWork>>,
    mut writer: LogWriter,
) -> impl FnOnce(&Shared) + Send + use<> {
    let inbox = Arc::clone(inbox);
    move |shared| {
        while !inbox.is_over() {
            inbox.wait_so(None, Sleep::Soundly);
            if let Err(error) = writer.turn() {
                return shared.fail("write the log", &error);
            }
        }
        if let Err(error) = writer.close() {
            shared.fail("close the log", &error);
        }
    }
}

fn run_apply(
    inbox: &Arc<Inbox<Work>>,
    mut applier: Applier,
) -> impl FnOnce(&Shared) + Send + use<> {
    let inbox = Arc::clone(inbox);
    move |shared| {
        while !inbox.is_over() {
            inbox.wait(None);
            if let Err(error) = applier.turn() {
                return shared.fail("apply the log", &error);
            }
        }
    }
}

fn run_snapshots(
    inbox: &Arc<Inbox<SnapshotWork>>,
    mut snapshots: Snapshots,
) -> impl FnOnce(&Shared) + Send + use<> {
    let inbox = Arc::clone(inbox);
    move |shared| {
        while !inbox.is_over() {
            inbox.wait(None);
            if let Err(error) = snapshots.turn() {
                return shared.fail("take a snapshot", &error);
            }
        }
    }
}

fn run_compaction(mut compactor: Compactor) -> impl FnOnce(&Shared) + Send + use<> {
    move |shared| loop {
        match compactor.turn() {
            Ok(wait) if shared.compaction.wait(wait) => {}
            Ok(_) => return,
            Err(error) => return shared.fail("compact", &error),
        }
    }
}

fn run_watch(bell: &Arc<Bell>) -> impl FnOnce(&Shared) + Send + use<> {
    let bell = Arc::clone(bell);
    move |shared| {
        let mut wait = None;
        while bell.wait(wait) {
            match serve_watchers(shared) {
                Some(next) => wait = next,
                None => return,
            }
        }
    }
}

/// Does all there is to do for watchers. Returns when there will be more; none at all if that is never.
pub(crate) fn serve_watchers(shared: &Shared) -> Option<Option<Duration>> {
    if planted_bug::is_planted(PlantedBug::NeverCatchUp) {
        return Some(None);
    }
    loop {
        // A snapshot may have put another in its place meanwhile.
        let state = shared.state();
        match state.store.sync_watchers() {
            Ok(Next::Again) => {}
            Ok(Next::Idle) => {
                let now = shared.now();
                return Some(state.store.tick_progress(now).map(|at| at.saturating_sub(now)));
            }
            Err(error) => {
                shared.fail("read history for watchers", &error);
                return None;
            }
        }
    }
}

fn run_chores(bell: &Arc<Bell>, mut chores: Chores) -> impl FnOnce(&Shared) + Send + use<> {
    let bell = Arc::clone(bell);
    move |shared| {
        let mut wait = Duration::ZERO;
        while bell.wait(Some(wait)) {
            wait = chores.turn(shared.now());
        }
    }
}
