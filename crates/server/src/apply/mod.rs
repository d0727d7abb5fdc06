//! Applying the log: one entry after the other, each once.
//!
//! Everything that an entry changes goes into one transaction of the backend, and with it the index of the entry. What is in memory (the index of keys,
//! leases, users, members) is changed along the way; so if the transaction cannot be committed, or anything else goes wrong that does not on
//! other members, this one must not go on.

mod conf_change;
mod decode;
mod layers;
mod outcome;
mod request;

use std::sync::atomic::Ordering;

use backend::Tx;
use mvcc::Changes;
use proto::etcdserverpb::InternalRaftRequest;
use raft::{Entry, EntryType};
use types::Index;

pub use conf_change::ConfChanges;
pub use outcome::{Applied, Fault, Outcome, Refusal, Reply};

use crate::describe::Loggable;
use crate::metrics::{Executed, Op};
use crate::planted_bug::{self, PlantedBug};
use crate::state::StateMachine;

impl StateMachine {
    /// Applies an entry. Entries come in the order of the log, without gaps; those that were applied before a restart may come again.
    ///
    /// `waits` says whether somebody waits for the answer to a request. If nobody does, what only reads is left out. Changes of members are
    /// handed to consensus through `conf_changes`.
    ///
    /// # Errors
    /// This member has to stop.
    pub fn apply(
        &self,
        entry: &Entry,
        waits: &dyn Fn(u64) -> bool,
        conf_changes: &mut dyn ConfChanges,
    ) -> Result<Applied, Fault> {
        let mut tx = self.backend.begin();
        self.check_order(entry.index)?;
        if entry.index <= tx.applied().0 {
            return Ok(Applied::Already);
        }
        if !planted_bug::is_planted(PlantedBug::SkipAppliedIndex) {
            tx.set_applied(entry.index, entry.term);
        }
        match entry.kind {
            EntryType::Normal if entry.data.is_empty() => {
                self.commit(tx, None)?;
                Ok(Applied::Empty)
            }
            EntryType::Normal => self.apply_normal(tx, entry, waits).map(Applied::Request),
            EntryType::ConfChange => self.apply_conf_change(tx, entry, conf_changes),
            EntryType::ConfChangeV2 => Err(Fault::UnknownKind(entry.index)),
        }
    }

    /// Nothing may be missing between the last entry that came and this one.
    fn check_order(&self, index: Index) -> Result<(), Fault> {
        // Whoever has the transaction open is the only one here.
        let last = self.last.load(Ordering::Relaxed);
        if last != 0 && index.0 > last + 1 {
            return Err(Fault::Gap { wanted: Index(last + 1), found: index });
        }
        self.last.store(index.0, Ordering::Relaxed);
        Ok(())
    }

    fn apply_normal(
        &self,
        mut tx: Tx<'_>,
        entry: &Entry,
        waits: &dyn Fn(u64) -> bool,
    ) -> Result<Outcome, Fault> {
        let request = decode::decode(entry)?;
        let (id, op) = (id_of(&request), Op::of(&request));
        let waits = waits(id);
        let (mut done, mut result) = (Done::default(), None);
        if waits || !only_reads(&request) {
            let context = Context { index: entry.index, waits };
            result = Some(self.carry_out(&mut tx, &request, context, &mut done)?);
        }
        let Done { changes, lowered, executed } = done;
        self.commit(tx, changes)?;
        let revision = self.store.current();
        Ok(Outcome { id, revision, result, lowered, op, executed })
    }
}

/// The request in an entry, in words. It is decoded a second time, rather than kept for the rare case that somebody is to be told of it.
pub(crate) fn describe(entry: &Entry) -> String {
    decode::decode(entry).map_or(String::new(), |request| Loggable(&request).to_string())
}

/// What carrying out a request has to know beside the request.
#[derive(Clone, Copy, Debug)]
struct Context {
    index: Index,
    waits: bool,
}

/// What carrying out a request leaves to be done.
#[derive(Debug, Default)]
struct Done {
    /// What happened to keys: to be shown once it is committed.
    changes: Option<Changes>,
    /// The cluster's version was lowered.
    lowered: bool,
    /// What was carried out, to be counted.
    executed: Executed,
}

fn id_of(request: &InternalRaftRequest) -> u64 {
    match (request.id, &request.header) {
        (0, Some(header)) => header.id,
        (id, _) => id,
    }
}

/// What need not be done unless somebody waits for the answer.
fn only_reads(request: &InternalRaftRequest) -> bool {
    request.range.is_some()
        || request.auth_user_get.is_some()
        || request.auth_role_get.is_some()
        || request.auth_status.is_some()
}
