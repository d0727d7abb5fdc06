//! Checks etcd's guarantees for watches.
//!
//! | guarantee | broken by |
//! | --- | --- |
//! | ordered | an event with a lower revision than an earlier one |
//! | unique | an event that arrives twice |
//! | atomic | the events of a revision split over two responses, or only some of them |
//! | reliable | a missing event between two others |
//! | resumable | a first event that is not the first at or after the requested revision |
//! | bookmarkable | an event at or below the revision of an earlier progress notification |
//!
//! Also checked: events equal the changes, `prev_kv` equals the value before, filters hold, and a
//! watch is canceled for compaction only if it needs compacted revisions.
//!
//! [`stream`] checks the responses of a watch on their own; [`log_check`] compares them with the
//! log that explains the history:
//!
//! ```text
//! log             2: put a   3: put b, put c   4: delete a   5: put b
//! watch [b, c)               [put b]                         [put b]     correct
//! watch a from 2  [put a]                                    progress 5  wrong: no delete at 4
//! ```
//!
//! There is no guarantee about delivery time, so events that had not arrived when the recording
//! ended are not missing.

mod coverage;
mod log_check;
mod stream;

pub(crate) use coverage::Coverage;

use crate::log::Log;
use crate::options::Options;
use crate::record::{History, Watch};
use crate::violation::Violation;

/// Checks each watch on its own.
pub(crate) fn check_streams(history: &History, options: &Options) -> Vec<Violation> {
    let check = |watch: &Watch| stream::check(history, options, watch).err();
    history.watches.iter().filter_map(check).collect()
}

/// Compares each watch with the log.
pub(crate) fn check_against_log(history: &History, options: &Options, log: &Log) -> Vec<Violation> {
    let check = |watch: &Watch| log_check::check(history, options, log, watch).err();
    history.watches.iter().filter_map(check).collect()
}
