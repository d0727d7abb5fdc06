//! Failpoints: named places in the code where a test can make a member stop, wait or fail.
//!
//! They are compiled in with the feature `failpoints` alone. Without it [`failpoint!`] expands to a check of its name while compiling, and nothing else.
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
//! What a point does is said in gofail's words: a chain of terms, of which the first that may act does.
//!
//! ```text
//! panic                      the process is gone, at once: nothing is unwound, as in Go
//! sleep(100)                 waits for 100 ms; also sleep("1.5s")
//! return("text")             hands the text to the point, if that knows what to do with it; also return(5), return(true)
//! return                     the same, with nothing to hand: lets a point do what it is there for that needs no text; also return()
//! print                      prints the point's name
//! off                        nothing
//! 1*panic                    the first time only
//! 20.5%sleep(10)             one time in five or so
//! 3*off->1*panic             not the first three times, but the fourth
//! ```
//!
//! Who says so: the environment, `GOFAIL_FAILPOINTS="walBeforeSync=3*off->1*panic;beforeCommit=sleep(10)"`, and, with `GOFAIL_HTTP=127.0.0.1:7777`,
//! whoever asks there (`PUT /walBeforeSync` with terms, `DELETE /walBeforeSync`, `GET /walBeforeSync`, `GET /walBeforeSync/count`, `GET /`, and
//! `PUT /failpoints` with several, as in the environment). So etcd's own test tools can drive it. [`start`] reads the environment; the binary calls it first of all.
//!
//! Differences from gofail: `5%` is taken as `5.0%`; an argument must be closed; there is no `break`.
//!
//! # The points
//!
//! Where a point has the meaning of one of etcd's or bbolt's, it has its name ([`POINTS`]). The crates that have them in brackets:
//!
//! | point | where |
//! | --- | --- |
//! | `walBeforeSync`, `walAfterSync` | \[wal\] round the sync that makes entries durable |
//! | `raftBeforeWALSaveSnaphot` | \[wal\] before the log notes a snapshot (so spelled in etcd) |
//! | `beforeSyncDataPages`, `beforeSyncMetaPage` | \[bolt\] before each of the two syncs of a commit |
//! | `beforeWriteMetaError` (text) | \[bolt\] the meta page cannot be written |
//! | `lackOfDiskSpace` (text) | \[bolt\] a transaction cannot be committed for want of space |
//! | `resizeFileError` (text) | \[bolt\] the file cannot be made longer |
//! | `defragOpenFileError` (text), `defragBeforeCopy`, `defragdbFail` (text), `defragBeforeRename` | \[bolt\] the steps of a defragmentation |
//! | `beforeStartDBTxn`, `afterStartDBTxn` | \[backend\] round the beginning of a transaction of the file |
//! | `beforeCommit`, `afterCommit` | \[backend\] round its commit |
//! | `beforeWritebackBuf`, `afterWritebackBuf` | \[backend\] round a transaction's becoming visible in the batch |
//! | `compactBeforeCommitScheduledCompact` | \[mvcc\] a compaction is noted in a transaction that is not committed yet |
//! | `compactAfterAcquiredBatchTxLock`, `compactBeforeSetFinishedCompact`, `compactAfterSetFinishedCompact`, `compactBeforeCommitBatch`, `compactAfterCommitBatch` | \[mvcc\] a turn of compaction in the file |
//! | `compactAfterCommitScheduledCompact` | \[server\] the transaction that notes a compaction is in the batch |
//! | `raftBeforeSave`, `raftAfterSave` | \[server\] round the writing of entries and state to the log |
//! | `raftBeforeLeaderSend`, `raftBeforeFollowerSend` | \[server\] before messages leave, before and after the log is written |
//! | `raftBeforeSaveSnap`, `raftAfterSaveSnap`, `raftBeforeApplySnap`, `raftAfterApplySnap`, `raftAfterWALRelease` | \[server\] a snapshot from another member |
//! | `applyBeforeOpenSnapshot`, `applyAfterOpenSnapshot` | \[server\] the database of a snapshot takes the place of the old one |
//! | `raftBeforeAdvance` | \[server\] before the consensus core is told that a batch is done |
//! | `beforeApplyOneEntryNormal`, `beforeApplyOneConfChange` | \[server\] before an entry is applied |
//! | `beforePublishing` | \[server\] before a member tells its name |
//! | `raftDropHeartbeat` (nothing) | \[peer\] what arrives over a stream is dropped |
//! | `beforeSendWatchResponse`, `beforeRangeStreamChunk` | \[api\] before a response goes out |
//! | `beforeServeHTTPLeaseRenew`, `beforeLookupWhenForwardLeaseTimeToLive` | \[server\] a lease request from another member |
//! | `beforeLookupWhenLeaseTimeToLive` | \[server\] between asking for a lease and finding it |
//! | `beforeCheckpointInLeaseRenew` | \[server\] before a renewal clears a checkpoint |
//!
//! Not there: etcd's `afterIsMemberExist`, as nobody asks that way; `commitBeforePreCommitHook` and `commitAfterPreCommitHook`, as the applied index goes into each transaction, and bbolt's for locking and
//! unmapping memory, which is not done.

mod points;

#[cfg(feature = "failpoints")]
mod on;

#[cfg(feature = "failpoints")]
pub use on::{EnableError, Point, Registry, StartError, registry, start};
pub use points::{POINTS, is_point};

/// Does nothing: without the feature `failpoints` there are none.
#[cfg(not(feature = "failpoints"))]
pub fn start() -> Result<(), std::convert::Infallible> {
    Ok(())
}

/// A place where a test can make a member stop, wait or fail. With a second argument, `|text| expression`, the expression is evaluated there when
/// the point is told to return a text; with `|| expression`, when it is told to return, with nothing. A value of another kind is told on the standard
/// output and has no other effect, as gofail's `struct{}` takes no text and its `string` nothing else.
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

/// A place where a test can make a member stop, wait or fail, in a build without any.
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
