//! The members that a gateway forwards to, and the selection of one for the next connection.
//!
//! ```text
//!   priority 1   weight 3  a     active      three of four connections go to a, one to b;
//!                weight 1  b     active      one in a hundred goes to c
//!                weight 0  c     active
//!   priority 2   weight 0  d     active      used when a, b and c are inactive
//! ```
//!
//! Remotes without weights, as `--endpoints` has them, take turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use discovery::srv::SrvRecord;

/// One in this many connections goes to a remote without a weight if there are remotes with one.
/// As in etcd.
const UNWEIGHTED_ONE_IN: u32 = 100;

/// A member that the gateway forwards to.
#[derive(Debug)]
pub(super) struct Remote {
    record: SrvRecord,
    address: String,
    inactive: AtomicBool,
}

impl Remote {
    fn new(record: SrvRecord) -> Remote {
        Remote { address: super::address(&record), record, inactive: AtomicBool::new(false) }
    }

    /// Returns the address, `host:port`.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Excludes the remote from selection.
    pub(super) fn deactivate(&self) {
        self.inactive.store(true, Ordering::Relaxed);
    }

    /// Makes the remote selectable again.
    pub(super) fn activate(&self) {
        self.inactive.store(false, Ordering::Relaxed);
    }

    fn is_active(&self) -> bool {
        !self.inactive.load(Ordering::Relaxed)
    }
}

/// All members that the gateway forwards to.
#[derive(Debug)]
pub(super) struct Remotes {
    all: Vec<Arc<Remote>>,
    /// Counts selections, for taking turns.
    turn: AtomicUsize,
}

impl Remotes {
    pub(super) fn new(records: Vec<SrvRecord>) -> Remotes {
        let all = records.into_iter().map(|record| Arc::new(Remote::new(record))).collect();
        Remotes { all, turn: AtomicUsize::new(0) }
    }

    /// Returns the remotes that are excluded from selection.
    pub(super) fn inactive(&self) -> Vec<Arc<Remote>> {
        self.all.iter().filter(|remote| !remote.is_active()).cloned().collect()
    }

    /// Chooses an active remote of the best priority; none if all are inactive. `random` returns a
    /// random number below its argument.
    pub(super) fn pick(&self, random: impl Fn(u32) -> u32) -> Option<Arc<Remote>> {
        let active: Vec<&Arc<Remote>> =
            self.all.iter().filter(|remote| remote.is_active()).collect();
        let best = active.iter().map(|remote| remote.record.priority).min()?;
        let (weighted, unweighted): (Vec<_>, Vec<_>) = active
            .into_iter()
            .filter(|remote| remote.record.priority == best)
            .partition(|remote| remote.record.weight > 0);
        let takes_turns =
            weighted.is_empty() || (!unweighted.is_empty() && random(UNWEIGHTED_ONE_IN) == 0);
        if takes_turns {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed);
            return unweighted.get(turn % unweighted.len()).map(|remote| Arc::clone(remote));
        }
        let total = weighted.iter().map(|remote| u32::from(remote.record.weight)).sum();
        let mut chosen = random(total);
        for remote in &weighted {
            let weight = u32::from(remote.record.weight);
            if chosen < weight {
                return Some(Arc::clone(remote));
            }
            chosen -= weight;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remotes(records: &[(&str, u16, u16)]) -> Remotes {
        let record = |(target, priority, weight): &(&str, u16, u16)| SrvRecord {
            priority: *priority,
            weight: *weight,
            target: (*target).to_owned(),
            port: 1,
        };
        Remotes::new(records.iter().map(record).collect())
    }

    fn picked(remotes: &Remotes, random: u32) -> Option<String> {
        remotes.pick(|below| random % below).map(|remote| remote.address().to_owned())
    }

    #[test]
    fn remotes_without_weights_take_turns() {
        let remotes = remotes(&[("a", 0, 0), ("b", 0, 0), ("c", 0, 0)]);
        let turns: Vec<String> = (0..4).filter_map(|_| picked(&remotes, 7)).collect();
        assert_eq!(turns, ["a:1", "b:1", "c:1", "a:1"]);
    }

    #[test]
    fn an_inactive_remote_is_not_picked_until_it_is_active_again() {
        let remotes = remotes(&[("a", 0, 0), ("b", 0, 0)]);
        let first = remotes.pick(|_| 0).unwrap();
        first.deactivate();
        assert_eq!(remotes.inactive().len(), 1);
        for _ in 0..3 {
            assert_eq!(picked(&remotes, 0).as_deref(), Some("b:1"));
        }
        remotes.pick(|_| 0).unwrap().deactivate();
        assert_eq!(picked(&remotes, 0), None);
        first.activate();
        assert_eq!(picked(&remotes, 0).as_deref(), Some("a:1"));
    }

    #[test]
    fn weights_are_shares_within_the_best_priority() {
        let remotes = remotes(&[("a", 1, 3), ("b", 1, 1), ("d", 2, 9)]);
        let picks: Vec<String> = (0..4).filter_map(|random| picked(&remotes, random)).collect();
        assert_eq!(picks, ["a:1", "a:1", "a:1", "b:1"]);
        remotes.all[0].deactivate();
        remotes.all[1].deactivate();
        assert_eq!(picked(&remotes, 5).as_deref(), Some("d:1"));
    }

    #[test]
    fn a_remote_without_weight_is_rare_beside_weighted_ones() {
        let remotes = remotes(&[("a", 1, 3), ("c", 1, 0)]);
        assert_eq!(picked(&remotes, 0).as_deref(), Some("c:1"), "one in a hundred");
        assert_eq!(picked(&remotes, 1).as_deref(), Some("a:1"));
    }
}
