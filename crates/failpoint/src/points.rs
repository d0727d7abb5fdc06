//! The names of all points.

/// All points, sorted by name. The crate documentation lists their places.
///
/// A static list, so that a point can be enabled before its code has ever run.
pub const POINTS: &[&str] = &[
    "afterCommit",
    "afterStartDBTxn",
    "afterWritebackBuf",
    "applyAfterOpenSnapshot",
    "applyBeforeOpenSnapshot",
    "beforeApplyOneConfChange",
    "beforeApplyOneEntryNormal",
    "beforeCheckpointInLeaseRenew",
    "beforeCommit",
    "beforeLookupWhenForwardLeaseTimeToLive",
    "beforeLookupWhenLeaseTimeToLive",
    "beforePublishing",
    "beforeRangeStreamChunk",
    "beforeSendWatchResponse",
    "beforeServeHTTPLeaseRenew",
    "beforeStartDBTxn",
    "beforeSyncDataPages",
    "beforeSyncMetaPage",
    "beforeWriteMetaError",
    "beforeWritebackBuf",
    "commitAfterPreCommitHook",
    "commitBeforePreCommitHook",
    "compactAfterAcquiredBatchTxLock",
    "compactAfterCommitBatch",
    "compactAfterCommitScheduledCompact",
    "compactAfterSetFinishedCompact",
    "compactBeforeCommitBatch",
    "compactBeforeCommitScheduledCompact",
    "compactBeforeSetFinishedCompact",
    "defragBeforeCopy",
    "defragBeforeRename",
    "defragOpenFileError",
    "defragdbFail",
    "lackOfDiskSpace",
    "raftAfterApplySnap",
    "raftAfterSave",
    "raftAfterSaveSnap",
    "raftAfterWALRelease",
    "raftBeforeAdvance",
    "raftBeforeApplySnap",
    "raftBeforeFollowerSend",
    "raftBeforeLeaderSend",
    "raftBeforeSave",
    "raftBeforeSaveSnap",
    "raftBeforeWALSaveSnaphot",
    "raftDropHeartbeat",
    "resizeFileError",
    "snapDBDirSyncError",
    "snapDBRenameBeforeDirSync",
    "walAfterSync",
    "walBeforeSync",
];

/// Reports whether a point of this name exists. Evaluated at compile time: an unlisted point does
/// not compile.
#[must_use]
pub const fn is_point(name: &str) -> bool {
    let mut i = 0;
    while i < POINTS.len() {
        if same(POINTS[i].as_bytes(), name.as_bytes()) {
            return true;
        }
        i += 1;
    }
    false
}

const fn same(one: &[u8], two: &[u8]) -> bool {
    if one.len() != two.len() {
        return false;
    }
    let mut i = 0;
    while i < one.len() {
        if one[i] != two[i] {
            return false;
        }
        i += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_found() {
        assert!(POINTS.is_sorted(), "POINTS is not sorted");
        assert!(POINTS.iter().all(|name| is_point(name)));
        assert!(!is_point("walBefore") && !is_point("walBeforeSyncs"));
    }
}
