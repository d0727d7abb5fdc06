//! A member without a network: the state machine over a simulated disk, and what consensus would tell it.

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
use types::{Index, MemberId, Term};

use server::Voters;

/// The file of every member.
const FILE: &str = "db";

/// How a member differs from others that must agree with it all the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    /// Bytes that the database may have; negative for any number.
    pub(crate) quota: i64,
    /// Revisions that a turn of compaction looks at.
    pub(crate) compaction_batch_limit: usize,
    /// Bytes that may be pending. If few, each transaction of the backend becomes one of the file.
    pub(crate) pending_bytes_max: usize,
    /// Whether somebody waits for answers here.
    pub(crate) waits: bool,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup::DEFAULT
    }
}

impl Setup {
    /// Space for anything, and commits only where a test makes them.
    pub(crate) const DEFAULT: Setup = Setup {
        quota: -1,
        compaction_batch_limit: 3,
        pending_bytes_max: backend::PENDING_BYTES_MAX_DEFAULT,
        waits: true,
    };
}

/// A member that is fed with entries by hand.
pub(crate) struct Member {
    pub(crate) disk: SimDisk,
    pub(crate) machine: StateMachine,
    pub(crate) voters: Heard,
    pub(crate) setup: Setup,
}

impl Member {
    /// A new member, on a disk of its own.
    pub(crate) fn new(setup: Setup) -> Member {
        Member::open(&SimDisk::new(0), setup).expect("a disk without faults")
    }

    /// Opens what is on a disk, or makes it.
    pub(crate) fn open(disk: &SimDisk, setup: Setup) -> anyhow::Result<Member> {
        let clock: Arc<dyn Clock> = Arc::new(SimClock::default());
        let shared = Arc::new(disk.clone());
        let backend =
            Backend::open(shared, Arc::clone(&clock), Path::new(FILE), small_pages(setup))
                .context("open the database")?;
        let auth = AuthStore::new(Tokens::simple(DEFAULT_TTL), Arc::clone(&clock), cheap());
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
        let conf = meta::conf_state(&machine.backend.view())?.unwrap_or_default();
        let voters = Heard { voters: conf.into(), heard: Vec::new() };
        Ok(Member { disk: disk.clone(), machine, voters, setup })
    }

    /// Ends without committing what is pending, and starts again.
    pub(crate) fn restart(self) -> anyhow::Result<Member> {
        let Member { disk, machine, setup, .. } = self;
        drop(machine);
        Member::open(&disk, setup)
    }

    /// What this member would be if it ended now and started again, beside it.
    pub(crate) fn reopened(&self) -> Member {
        self.machine.backend.force_commit().expect("a disk without faults");
        // All of it is durable, so a power cut makes a copy.
        Member::open(&self.disk.power_cut(0), self.setup).expect("what was just written")
    }

    /// Applies an entry.
    pub(crate) fn apply(&mut self, entry: &Entry) -> Result<Applied, Fault> {
        let waits = self.setup.waits;
        self.machine.apply(entry, &|_| waits, &mut self.voters)
    }

    /// Applies the next entry, which carries a request.
    pub(crate) fn apply_next(&mut self, request: &InternalRaftRequest) -> Outcome {
        match self.apply(&self.next(request)).expect("a request that makes sense") {
            Applied::Request(outcome) => outcome,
            other => panic!("a request was applied as {other:?}"),
        }
    }

    /// Likewise; what the request came to.
    pub(crate) fn answer(&mut self, request: &InternalRaftRequest) -> Result<Reply, Refusal> {
        self.apply_next(request).result.expect("somebody waits")
    }

    /// The entry after the last that was applied, with a request.
    pub(crate) fn next(&self, request: &InternalRaftRequest) -> Entry {
        self.next_raw(EntryType::Normal, request.encode_to_vec())
    }

    /// Likewise, of any kind and with any bytes.
    pub(crate) fn next_raw(&self, kind: EntryType, data: Vec<u8>) -> Entry {
        let (index, term) = self.applied();
        let (index, term) = (index.next(), term.max(Term(1)));
        Entry { term, index, kind, data: Bytes::from(data), ..Entry::default() }
    }

    /// The last entry that was applied.
    pub(crate) fn applied(&self) -> (Index, Term) {
        self.machine.applied().expect("a sound database")
    }

    /// Does all that compactions have left to do.
    pub(crate) fn finish_compactions(&self) {
        while self.turn_compaction() {}
    }

    /// Does a piece of it. Returns whether there was any.
    pub(crate) fn turn_compaction(&self) -> bool {
        let turn = self.machine.store.turn_compaction().expect("a disk without faults");
        turn != CompactionTurn::Idle
    }

    /// Commits to the file what is pending.
    pub(crate) fn commit(&self) {
        self.machine.backend.committer().turn().expect("a disk without faults");
    }
}

/// Small pages and little growth, so that a commit touches many pages and a cut has little to copy; and no waiting for a file that a test forgot
/// to let go of.
fn small_pages(setup: Setup) -> backend::Config {
    let pending_bytes_max = setup.pending_bytes_max;
    let mut config = backend::Config { pending_bytes_max, ..backend::Config::default() };
    config.bolt.page_size = 1024;
    config.bolt.grow_bytes = 8 << 10;
    config.bolt.lock_timeout = Some(std::time::Duration::from_secs(1));
    config
}

/// Of a token: zero stands for the default.
const DEFAULT_TTL: std::time::Duration = std::time::Duration::ZERO;

/// The cheapest hash of a password there is.
fn cheap() -> Cost {
    Cost::new(auth::COST_MIN)
}

/// A header for the user root as things are, so that a request is refused for no reason of rights.
pub(crate) fn as_root(member: &Member) -> Option<RequestHeader> {
    header(member, "root")
}

/// A header for a user as things are.
pub(crate) fn header(member: &Member, user: &str) -> Option<RequestHeader> {
    let auth_revision = member.machine.auth.revision();
    Some(RequestHeader { id: 1, username: user.to_owned(), auth_revision })
}

/// Who votes, and what was passed on.
#[derive(Default)]
pub(crate) struct Heard {
    voters: Voters,
    pub(crate) heard: Vec<(Index, ConfChange)>,
}

impl ConfChanges for Heard {
    fn apply(&mut self, index: Index, change: &ConfChange) -> ConfState {
        self.heard.push((index, change.clone()));
        self.voters.apply(index, change)
    }
}
