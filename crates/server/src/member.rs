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
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use backend::{Backend, CommitThread, SCRUB_INTERVAL_DEFAULT, SCRUB_PAGES_DEFAULT, ScrubThread};
use env::{Clock, Disk, Random};
use mvcc::watch::Next;

use crate::applier::{Applier, Work};
use crate::bell::Bell;
use crate::bootstrap::{Bootstrapped, StartError, Surroundings, bootstrap};
use crate::chores::{Chores, Published};
use crate::compactor::Compactor;
use crate::config::ServerConfig;
use crate::inbox::{Inbox, Sleep};
use crate::log_writer::{LogWork, LogWriter};
use crate::metrics::{Metrics, ServerCollector};
use crate::pool::{self, Pool};
use crate::raft_loop::RaftLoop;
use crate::server::{Server, Shared, StopReason};
use crate::snapshots::{Snapshot, Snapshots};
use crate::state::StateMachine;
use crate::transport::Transport;

/// What the commit thread does, for when it cannot.
const COMMIT: &str = "commit to the database";

/// A running member. Dropping it without [`Member::stop`] leaves its threads to the end of the process.
#[derive(Debug)]
pub struct Member {
    server: Server,
    published: Arc<Published>,
    bells: Vec<Arc<Bell>>,
    log: Arc<Inbox<LogWork>>,
    apply: Arc<Inbox<Work>>,
    snapshots: Arc<Inbox<Snapshot>>,
    raft: JoinHandle<()>,
    stages: Vec<JoinHandle<()>>,
    commit: CommitThread,
    scrub: ScrubThread,
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
        let Machine { disk, clock, mut random } = machine;
        let mut around = Surroundings { disk: &disk, clock: &clock, random: &mut *random };
        let booted = bootstrap(&config, &mut around)?;
        check_reach(&booted, &*transport)?;
        let metrics = Metrics::new(registry)?;
        let Bootstrapped { cluster_id, local, state, mut wal, node, voters, .. } = booted;
        let backend = state.backend.clone();
        let commits = metrics.backend_commit_duration.clone();
        backend.observe_commits(Box::new(move |it| commits.observe(it.took.as_secs_f64())));
        transport.set_members(&state.cluster.now());
        let shared = Shared::new(config, disk, clock, cluster_id, local, state, transport, metrics);
        let shared = Arc::new(shared);
        shared.applied.advance(booted.applied);
        shared.progress.set_committed(booted.applied);
        let server = Server { shared: Arc::clone(&shared) };
        registry.register(Box::new(ServerCollector::new(&server)?))?;
        let (log, apply, snapshots): (Arc<Inbox<_>>, Arc<Inbox<_>>, Arc<Inbox<_>>) =
            Default::default();
        wal.prepare_in_background().map_err(StartError::Thread)?;
        let writer = LogWriter::new(Arc::clone(&shared), wal, Arc::clone(&log));
        let applier = Applier::new(
            Arc::clone(&shared),
            Arc::clone(&apply),
            Arc::clone(&snapshots),
            voters,
            booted.snapshot_index,
        );
        let raft = RaftLoop::new(Arc::clone(&shared), node, Arc::clone(&log), Arc::clone(&apply));
        let taker = Snapshots::new(Arc::clone(&shared), Arc::clone(&snapshots), Arc::clone(&log));
        let chores = Arc::new(Bell::default());
        let all_chores = Chores::new(server.clone());
        let published = all_chores.published();
        let spawn = || -> io::Result<_> {
            let stages = vec![
                spawn("wal", &shared, run_log(&log, writer))?,
                spawn("apply", &shared, run_apply(&apply, applier))?,
                spawn("snapshot", &shared, run_snapshots(&snapshots, taker))?,
                spawn("compact", &shared, run_compaction(Compactor::new(Arc::clone(&shared))))?,
                spawn("watch", &shared, run_watch(&booted.watch))?,
                spawn("chores", &shared, run_chores(&chores, all_chores))?,
            ];
            let stages = stages.into_iter().chain(spawn_pools(&shared)?).collect();
            let raft = spawn("raft", &shared, run_raft(raft))?;
            Ok((stages, raft, spawn_commit(&shared, &backend)?, spawn_scrub(&shared, &backend)?))
        };
        let (stages, raft, commit, scrub) = spawn().map_err(StartError::Thread)?;
        let bells = vec![chores, booted.watch];
        Ok(Member { server, published, bells, log, apply, snapshots, raft, stages, commit, scrub })
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
        let Member { server, bells, log, apply, snapshots, raft, stages, commit, scrub, .. } = self;
        let shared = server.shared;
        shared.end(StopReason::Asked);
        join(raft);
        log.close();
        apply.close();
        snapshots.close();
        shared.compaction.close();
        shared.pools.close();
        bells.iter().for_each(|bell| bell.close());
        stages.into_iter().for_each(join);
        scrub.stop();
        let committed = commit.stop();
        let reason = shared.reason();
        close(shared);
        match committed {
            Err(error) if reason == StopReason::Asked => StopReason::fault(COMMIT, &error),
            _ => reason,
        }
    }
}

/// Without a way to the others, whoever needs their votes would wait for ever.
fn check_reach(booted: &Bootstrapped, transport: &dyn Transport) -> Result<(), StartError> {
    match booted.voters.besides(booted.local) {
        Some(voters) if !transport.reaches_others() => Err(StartError::Alone { voters }),
        _ => Ok(()),
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

fn spawn_commit(shared: &Arc<Shared>, backend: &Backend) -> io::Result<CommitThread> {
    let shared = Arc::clone(shared);
    CommitThread::spawn_telling(backend, move |error| shared.fail(COMMIT, error))
}

fn spawn_scrub(shared: &Arc<Shared>, backend: &Backend) -> io::Result<ScrubThread> {
    let shared = Arc::clone(shared);
    let panicked = move |panic: &str| shared.fail("look for bit rot", &panic);
    ScrubThread::spawn_telling(backend, SCRUB_PAGES_DEFAULT, SCRUB_INTERVAL_DEFAULT, panicked)
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
    inbox: &Arc<Inbox<Snapshot>>,
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
            let state = shared.state();
            loop {
                match state.hub.turn(&state.store) {
                    Ok(Next::Again) => {}
                    Ok(Next::Idle) => break,
                    Err(error) => return shared.fail("read history for watchers", &error),
                }
            }
            let now = shared.now();
            wait = state.hub.tick_progress(now).map(|at| at.saturating_sub(now));
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
