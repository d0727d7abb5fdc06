//! Failpoints: named places in the code where a test can inject a fault.
//!
//! Points are compiled in only with the feature `failpoints`. Without it, [`failpoint!`] checks its
//! name at compile time and expands to nothing.
//!
//! ```
//! fn sync() -> Result<(), String> {
//!     failpoint::failpoint!("walBeforeSync");
//!     failpoint::failpoint!("beforeWriteMetaError", |text| return Err(text));
//!     failpoint::failpoint!("raftDropHeartbeat", || return Ok(()));
//!     Ok(())
//! }
//! assert_eq!(sync(), Ok(()));
//! ```
//!
//! A point of an asynchronous function is a [`failpoint_async!`], which suspends its task alone.
//!
//! The action of a point is written in gofail's syntax: a chain of terms, of which the first
//! eligible one acts.
//!
//! ```text
//! panic                      aborts the process at once, without unwinding, as in Go
//! sleep(100)                 sleeps for 100 ms; also sleep("1.5s")
//! return("text")             passes the text to the point; also return(5), return(true)
//! return                     passes no value, for points that take none; also return()
//! print                      prints the name of the point
//! off                        does nothing
//! 1*panic                    once
//! 20.5%sleep(10)             with a probability of 20.5 %
//! 3*off->1*panic             nothing three times, then once
//! ```
//!
//! Points are set by the environment,
//! `GOFAIL_FAILPOINTS="walBeforeSync=3*off->1*panic;beforeCommit=sleep(10)"`, and, with
//! `GOFAIL_HTTP=127.0.0.1:7777`, over HTTP (`PUT /walBeforeSync` with terms, `DELETE
//! /walBeforeSync`, `GET /walBeforeSync`, `GET /walBeforeSync/count`, `GET /`, and `PUT
//! /failpoints` with several, as in the environment). So etcd's own test tools can control them.
//! [`start`] reads the environment; the binary calls it first.
//!
//! Differences from gofail: `5%` is accepted as `5.0%`; an argument must be closed; there is no
//! `break`.
//!
//! # The points
//!
//! A point with the meaning of one of etcd's or bbolt's has the same name ([`POINTS`]). By crate:
//!
//! - wal
//!   - `walBeforeSync`, `walAfterSync`: around the sync that makes entries durable
//!   - `raftBeforeWALSaveSnaphot`: before a snapshot record is written (etcd's spelling)
//!   - `snapDBRenameBeforeDirSync`: a received database has its name, and its directory is not
//!     synced
//!   - `snapDBDirSyncError` (text): that sync fails
//! - bolt
//!   - `beforeSyncDataPages`, `beforeSyncMetaPage`: before each of the two syncs of a commit
//!   - `beforeWriteMetaError` (text): writing the meta page fails
//!   - `lackOfDiskSpace` (text): a commit fails for lack of space
//!   - `resizeFileError` (text): growing the file fails
//!   - `defragOpenFileError` (text), `defragBeforeCopy`, `defragdbFail` (text),
//!     `defragBeforeRename`: steps of a defragmentation
//! - backend
//!   - `commitBeforePreCommitHook`, `commitAfterPreCommitHook`: around the choice of the batch that
//!     is committed. In etcd, a hook adds the applied index there
//!   - `beforeStartDBTxn`, `afterStartDBTxn`: around the start of a bolt transaction
//!   - `beforeCommit`, `afterCommit`: around the commit of a bolt transaction
//!   - `beforeWritebackBuf`, `afterWritebackBuf`: around the merge of a transaction into the batch
//! - mvcc
//!   - `compactBeforeCommitScheduledCompact`: the scheduled compaction is set and not yet committed
//!   - `compactAfterAcquiredBatchTxLock`, `compactBeforeSetFinishedCompact`,
//!     `compactAfterSetFinishedCompact`, `compactBeforeCommitBatch`, `compactAfterCommitBatch`: a
//!     turn of the compactor
//! - server
//!   - `compactAfterCommitScheduledCompact`: the scheduled compaction is in the batch
//!   - `raftBeforeSave`: in the raft loop, before anything of a `Ready` is handed over, also of one
//!     with nothing to save
//!   - `raftAfterSave`: after the write of entries and state to the log
//!   - `raftBeforeLeaderSend`, `raftBeforeFollowerSend`: before messages are sent, before and after
//!     the log is written
//!   - `raftBeforeSaveSnap`, `raftAfterSaveSnap`, `raftBeforeApplySnap`, `raftAfterApplySnap`,
//!     `raftAfterWALRelease`: a snapshot from the leader
//!   - `applyBeforeOpenSnapshot`, `applyAfterOpenSnapshot`: the database of a snapshot replaces the
//!     old one
//!   - `raftBeforeAdvance`: before the consensus core is advanced
//!   - `beforeApplyOneEntryNormal`, `beforeApplyOneConfChange`: before an entry is applied
//!   - `beforePublishing`: before a member publishes its name and client URLs
//! - peer
//!   - `raftDropHeartbeat` (no value): a stream message is dropped
//! - api
//!   - `beforeSendWatchResponse`, `beforeRangeStreamChunk`: before a response is sent
//! - server
//!   - `beforeServeHTTPLeaseRenew`, `beforeLookupWhenForwardLeaseTimeToLive`: a lease request from
//!     a peer
//!   - `beforeLookupWhenLeaseTimeToLive`: before a lease is looked up
//!   - `beforeCheckpointInLeaseRenew`: a renewal has found its lease, and has not renewed it
//!
//! Not provided:
//!
//! - etcd's `afterIsMemberExist`: membership is read as a whole, and never between two locks
//! - bbolt's `beforeBucketPut`: it is reached for every pair of a batch, between `afterStartDBTxn`
//!   and `beforeCommit`, when nothing of the batch is on disk
//! - bbolt's `mapError` and `unmapError`: a file is mapped when it is opened and never remapped;
//!   readers keep the old map until they end
//! - bbolt's `mlockError` and `munlockError`: a failed lock is not fatal once the file is open

mod points;

#[cfg(feature = "failpoints")]
mod on;

#[cfg(feature = "failpoints")]
pub use on::{EnableError, Point, PointEvaluation, Registry, StartError, registry, start};
pub use points::{POINTS, is_point};

/// Does nothing without the feature `failpoints`.
#[cfg(not(feature = "failpoints"))]
pub fn start() -> Result<(), std::convert::Infallible> {
    Ok(())
}

/// A place where a test can inject a fault. With a second argument `|text| expression`, the
/// expression is evaluated when the point returns a text; with `|| expression`, when it returns
/// without a value. A value of another type is reported on the standard output and ignored, as in
/// gofail, whose `struct{}` takes no value and whose `string` no other type.
#[cfg(feature = "failpoints")]
#[macro_export]
macro_rules! failpoint {
    ($name:literal) => {{
        const { assert!($crate::is_point($name), "there is no such failpoint") };
        static POINT: $crate::Point = $crate::Point::new($name);
        POINT.hit();
    }};
    ($name:literal, |$text:ident| $then:expr) => {{
        const { assert!($crate::is_point($name), "there is no such failpoint") };
        static POINT: $crate::Point = $crate::Point::new($name);
        if let Some($text) = POINT.text() {
            $then
        }
    }};
    ($name:literal, || $then:expr) => {{
        const { assert!($crate::is_point($name), "there is no such failpoint") };
        static POINT: $crate::Point = $crate::Point::new($name);
        if POINT.hit() {
            $then
        }
    }};
}

/// A [`failpoint!`] of an asynchronous function. A sleeping point suspends the task, as in Go,
/// where it suspends a goroutine: other tasks on the thread go on.
#[cfg(feature = "failpoints")]
#[macro_export]
macro_rules! failpoint_async {
    ($name:literal) => {{
        const { assert!($crate::is_point($name), "there is no such failpoint") };
        static POINT: $crate::Point = $crate::Point::new($name);
        POINT.hit_on_thread().await;
    }};
}

/// A failpoint of an asynchronous function in a build without the feature: only checks the name.
#[cfg(not(feature = "failpoints"))]
#[macro_export]
macro_rules! failpoint_async {
    ($name:literal) => {
        const _: () = assert!($crate::is_point($name), "there is no such failpoint");
    };
}

/// A failpoint in a build without the feature: only checks the name.
#[cfg(not(feature = "failpoints"))]
#[macro_export]
macro_rules! failpoint {
    ($name:literal $(, |$text:ident| $then:expr)?) => {
        const _: () = assert!($crate::is_point($name), "there is no such failpoint");
    };
    ($name:literal, || $then:expr) => {
        const _: () = assert!($crate::is_point($name), "there is no such failpoint");
    };
}
