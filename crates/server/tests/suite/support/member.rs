//! A state machine on a simulated disk. The tests feed it entries, as consensus would.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use auth::{AuthStore, Cost, Tokens};
use backend::Backend;
use backend::schema::meta;
use bytes::Bytes;
use env::{Clock, SimClock, SimDisk};
use membership::{Cluster, ClusterId, LEARNERS_MAX_DEFAULT, Membership};
use mvcc::CompactionTurn;
use prost::Message as _;
use proto::etcdserverpb::{InternalRaftRequest, RequestHeader};
use proto::raftpb::{ConfChange, ConfState};
use raft::{Entry, EntryType};
use server::quota::Quota;
use server::{Applied, ConfChanges, Config, Fault, Outcome, Refusal, Reply, StateMachine};
use testkit::waiting::step_until;
use types::{Index, MemberId, Term};

use server::Voters;

/// Name of the database file.
const FILE: &str = "db";

/// Local settings of a member, which must not affect its replicated state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    /// Quota of the database in bytes; negative for none.
    pub(crate) quota: i64,
    /// Revisions that one turn of compaction visits.
    pub(crate) compaction_batch_limit: usize,
    /// Maximum bytes in the pending batch. With 0, each backend transaction is a file transaction.
    pub(crate) pending_bytes_max: usize,
    /// Whether each request has a waiter on this member.
    pub(crate) waits: bool,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup::DEFAULT
    }
}

impl Setup {
    /// No quota, and commits only where a test makes them.
    pub(crate) const DEFAULT: Setup = Setup {
        quota: -1,
        compaction_batch_limit: 3,
        pending_bytes_max: backend::PENDING_BYTES_MAX_DEFAULT,
        waits: true,
    };
}

/// A member to which tests apply entries directly.
pub(crate) struct Member {
    pub(crate) disk: SimDisk,
    pub(crate) machine: StateMachine,
    pub(crate) voters: RecordedConfChanges,
    pub(crate) setup: Setup,
}

impl Member {
    /// Creates a member on a new disk.
    pub(crate) fn new(setup: Setup) -> Member {
        Member::open(&SimDisk::new(0), setup).expect("a disk without faults")
    }

    /// Opens the member on a disk, or creates it.
    pub(crate) fn open(disk: &SimDisk, setup: Setup) -> anyhow::Result<Member> {
        let clock: Arc<dyn Clock> = Arc::new(SimClock::default());
        let shared = Arc::new(disk.clone());
        let backend =
            Backend::open(shared, Arc::clone(&clock), Path::new(FILE), small_pages(setup))
                .context("open database")?;
        let auth = AuthStore::new(Tokens::simple(DEFAULT_TTL), Arc::clone(&clock), lowest_cost());
        let (id, local) = (ClusterId(1), MemberId(1));
        let cluster = Cluster::new(id, local, LEARNERS_MAX_DEFAULT, Membership::default());
        let store = mvcc::Config { compaction_batch_limit: setup.compaction_batch_limit };
        let config = Config {
            store,
            lease: lease::Config::default(),
            watch: mvcc::watch::Config::default(),
            wake_watch: Arc::new(|| {}),
            quota: Quota::new(setup.quota),
        };
        let machine = StateMachine::open(backend, clock, auth, cluster, config)?;
        let conf = meta::conf_state(&machine.backend().view())?.unwrap_or_default();
        let voters = RecordedConfChanges { voters: conf.into(), changes: Vec::new() };
        Ok(Member { disk: disk.clone(), machine, voters, setup })
    }

    /// Drops the member without committing the pending batch, and opens it again.
    pub(crate) fn restart(self) -> anyhow::Result<Member> {
        let Member { disk, machine, setup, .. } = self;
        drop(machine);
        Member::open(&disk, setup)
    }

    /// Commits, and opens a copy of the disk as a second member.
    pub(crate) fn reopened(&self) -> Member {
        self.machine.backend().force_commit().expect("a disk without faults");
        // Everything is durable, so a power cut yields an exact copy.
        Member::open(&self.disk.power_cut(0), self.setup).expect("a database that was just written")
    }

    /// Applies an entry.
    pub(crate) fn apply(&mut self, entry: &Entry) -> Result<Applied, Fault> {
        let waits = self.setup.waits;
        self.machine.apply(entry, &|_| waits, &mut self.voters)
    }

    /// Applies a request as the next entry. Returns its outcome.
    pub(crate) fn apply_next(&mut self, request: &InternalRaftRequest) -> Outcome {
        match self.apply(&self.next(request)).expect("a valid request") {
            Applied::Request(outcome) => outcome,
            other => panic!("a request was applied as {other:?}"),
        }
    }

    /// Applies a request as the next entry. Returns its reply or refusal.
    pub(crate) fn answer(&mut self, request: &InternalRaftRequest) -> Result<Reply, Refusal> {
        self.apply_next(request).result.expect("a request with a waiter")
    }

    /// Builds the entry after the last applied one, with a request.
    pub(crate) fn next(&self, request: &InternalRaftRequest) -> Entry {
        self.next_raw(EntryType::Normal, request.encode_to_vec())
    }

    /// Builds the entry after the last applied one, of any kind and with any bytes.
    pub(crate) fn next_raw(&self, kind: EntryType, data: Vec<u8>) -> Entry {
        let (index, term) = self.applied();
        let (index, term) = (index.next(), term.max(Term(1)));
        Entry { term, index, kind, data: Bytes::from(data), ..Entry::default() }
    }

    /// Index and term of the last applied entry.
    pub(crate) fn applied(&self) -> (Index, Term) {
        self.machine.applied().expect("a sound database")
    }

    /// Runs turns of compaction until none is left.
    pub(crate) fn finish_compactions(&self) {
        step_until("the compactions are finished", || !self.turn_compaction());
    }

    /// Runs one turn of compaction. Returns whether there was work.
    pub(crate) fn turn_compaction(&self) -> bool {
        let turn = self.machine.store().turn_compaction().expect("a disk without faults");
        turn != CompactionTurn::Idle
    }

    /// Commits the pending batch.
    pub(crate) fn commit(&self) {
        self.machine.backend().committer().turn().expect("a disk without faults");
    }
}

/// Configures small pages and little growth, so that a commit touches many pages and a power cut
/// copies little. The short lock timeout fails a test that forgot to close the file.
fn small_pages(setup: Setup) -> backend::Config {
    let pending_bytes_max = setup.pending_bytes_max;
    let mut config = backend::Config { pending_bytes_max, ..backend::Config::default() };
    config.bolt.page_size = 1024;
    config.bolt.grow_bytes = 8 << 10;
    config.bolt.lock_timeout = Some(std::time::Duration::from_secs(1));
    config
}

/// TTL of a simple token: zero selects the default.
const DEFAULT_TTL: std::time::Duration = std::time::Duration::ZERO;

/// The lowest bcrypt cost.
fn lowest_cost() -> Cost {
    Cost::new(auth::COST_MIN)
}

/// A header of the user root at the current auth revision, which passes all permission checks.
pub(crate) fn as_root(member: &Member) -> Option<RequestHeader> {
    header(member, "root")
}

/// A header of a user at the current auth revision.
pub(crate) fn header(member: &Member, user: &str) -> Option<RequestHeader> {
    let auth_revision = member.machine.auth().revision();
    Some(RequestHeader { id: 1, username: user.to_owned(), auth_revision })
}

/// The voters, and the conf changes that reached consensus.
#[derive(Default)]
pub(crate) struct RecordedConfChanges {
    voters: Voters,
    pub(crate) changes: Vec<(Index, ConfChange)>,
}

impl ConfChanges for RecordedConfChanges {
    fn apply(&mut self, index: Index, change: &ConfChange) -> ConfState {
        self.changes.push((index, change.clone()));
        self.voters.apply(index, change)
    }
}
