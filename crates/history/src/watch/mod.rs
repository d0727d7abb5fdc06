//! etcd's promises to watchers.
//!
//! | promise | broken by |
//! | --- | --- |
//! | ordered | an event of an older revision than one before it |
//! | unique | an event that comes twice |
//! | atomic | the events of a revision spread over two responses, or only some of them |
//! | reliable | an event left out between two others |
//! | resumable | a first event that is not the first at or after the revision asked for |
//! | bookmarkable | an event at or before a revision up to which all was said to have been sent |
//!
//! and an event is what happened, `prev_kv` what was there, filters hold, and a watch is cancelled for compaction only if it needs what is gone.
//!
//! [`stream`] checks what a watch shows by itself; [`log_check`] holds it against the log that explains the history:
//!
//! ```text
//! log           2: put a   3: put b, put c   4: delete a   5: put b
//! watch [b, c]             [put b]                         [put b]     fine: c is not asked for
//! watch a from 2  [put a]                                  progress 5  broken: the delete of a at 4 is missing
//! ```
//!
//! A watch promises nothing about when an event comes, so what had not come when it ended is not missed.

mod coverage;
mod log_check;
mod stream;

pub(crate) use coverage::Coverage;

use crate::log::Log;
use crate::options::Options;
use crate::record::{History, Watch};
use crate::violation::Violation;

/// What each watch shows by itself.
pub(crate) fn check_streams(history: &History, options: &Options) -> Vec<Violation> {
    let check = |watch: &Watch| stream::check(history, options, watch).err();
    history.watches.iter().filter_map(check).collect()
}

/// What each watch was told, held against the log.
pub(crate) fn check_against_log(history: &History, options: &Options, log: &Log) -> Vec<Violation> {
    let check = |watch: &Watch| log_check::check(history, options, log, watch).err();
    history.watches.iter().filter_map(check).collect()
}
