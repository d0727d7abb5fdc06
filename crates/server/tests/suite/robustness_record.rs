//! The bugs of etcd's robustness record, each by the number of its report.
//!
//! | report | bug | test |
//! | --- | --- | --- |
//! | 13766 | crashes under load change the state | `crash` |
//! | 14370 | a single member acknowledges a write and loses it | `stages::robustness_record` |
//! | 14571 | a member that received a snapshot has no permissions | `stages::robustness_record` |
//! | 14685 | a crash during a defragmentation applies entries twice | here |
//! | 15220, 15271, 17529, 18089, 19179, 20221, 20655 | watch | `mvcc`, `tests/watch/named_bugs.rs` |
//! | 17247 | an event is delivered twice | `mvcc`, `tests/watchable_store.rs` |
//! | 17780 | the revision goes back after a crash | `named_bugs` |
//! | 18055 | two snapshots in a short time | `stages::robustness_record` |
//! | 18667 | a compacted revision in a transaction | `mvcc`, `tests/basics.rs` |
//! | 20271 | a defragmentation puts a replaced database back | `pipeline::applier::tests` |
//! | 20418 | a stale read after a pause | `stages::robustness_record` |

use backend::schema::{Bucket, meta};
use env::{Fault, SimDisk};
use types::Index;

use crate::support::observe::pairs;
use crate::support::{Member, Setup, requests as req};

/// A defragmentation committed pending changes without the applied index of their entries, which
/// were then applied again after a crash.
#[test]
fn a_crash_during_a_defragmentation_applies_no_entry_twice_14685() {
    let whole = SimDisk::new(0);
    put_and_defragment(&whole).unwrap();
    let changes = whole.calls().changes();
    assert!(changes > 50, "only {changes} changes of the disk");
    for change in 0..changes {
        let disk = SimDisk::new(0);
        disk.fail_change(change, Fault::Crash);
        // A crash at the removal of an old file ends no request.
        let _ = put_and_defragment(&disk);
        for cut in 0..4 {
            let member = Member::open(&disk.power_cut(cut), Setup::default()).unwrap();
            let view = member.machine.backend().view();
            let (Index(applied), _) = meta::applied(&view).unwrap();
            let revisions = pairs(&view, Bucket::Key).len() as u64;
            assert_eq!(applied, revisions, "change {change}, cut {cut}: each entry puts one key");
        }
    }
}

/// Puts keys, with a defragmentation now and then, which finds them in the pending batch.
fn put_and_defragment(disk: &SimDisk) -> anyhow::Result<()> {
    let mut member = Member::open(disk, Setup::default())?;
    for number in 0..9 {
        let entry = member.next(&req::put("k", &[number], 0));
        member.apply(&entry)?;
        if number % 3 == 2 {
            member.machine.backend().defragment()?;
        }
    }
    Ok(())
}
