//! Snapshot transfers to peers. While one is in flight, and for a while after, the in-memory log
//! keeps the entries after it: the peer continues from there.

use std::collections::BTreeSet;
use std::time::Duration;

use types::MemberId;

/// The maximum number of transfers in flight.
pub(crate) const TRANSFERS_MAX: usize = 16;
/// The time that a peer has to ask for the entries after a snapshot that it received.
const CATCH_UP_TIME: Duration = Duration::from_secs(30);

/// The snapshot transfers in flight.
#[derive(Debug, Default)]
pub(crate) struct SnapshotTransfers {
    peers: BTreeSet<MemberId>,
    keep_log_until: Duration,
}

impl SnapshotTransfers {
    /// Starts a transfer. Returns false if one to this peer is in flight, or too many are.
    pub(crate) fn begin(&mut self, to: MemberId) -> bool {
        self.peers.len() < TRANSFERS_MAX && self.peers.insert(to)
    }

    /// Ends a transfer, successfully or not.
    pub(crate) fn end(&mut self, to: MemberId, arrived: bool, now: Duration) {
        if self.peers.remove(&to) && arrived {
            self.keep_log_until = now + CATCH_UP_TIME;
        }
    }

    /// Returns whether no transfer needs the log.
    pub(crate) fn may_compact(&self, now: Duration) -> bool {
        self.peers.is_empty() && now >= self.keep_log_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_log_is_kept_during_a_transfer_and_30_s_after() {
        let mut transfers = SnapshotTransfers::default();
        assert!(transfers.may_compact(Duration::ZERO));
        assert!(transfers.begin(MemberId(2)) && transfers.begin(MemberId(3)));
        assert!(!transfers.begin(MemberId(2)), "one to this peer is in flight");
        transfers.end(MemberId(2), false, SECOND);
        assert!(!transfers.may_compact(SECOND), "another is in flight");
        transfers.end(MemberId(3), true, SECOND);
        assert!(!transfers.may_compact(30 * SECOND));
        assert!(transfers.may_compact(31 * SECOND));
        transfers.end(MemberId(3), true, 32 * SECOND);
        assert!(transfers.may_compact(32 * SECOND), "an unknown transfer has no effect");
    }

    #[test]
    fn the_number_of_transfers_is_bounded() {
        let mut transfers = SnapshotTransfers::default();
        let begun = (0..20).filter(|member| transfers.begin(MemberId(*member))).count();
        assert_eq!(begun, TRANSFERS_MAX);
    }
}
