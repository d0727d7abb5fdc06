//! Tests of a whole member in one thread, on a simulated disk that loses unsynced data at a power
//! cut.
//!
//! The stages of the pipeline, which have threads in a process, take their turns here in an order
//! drawn from a seed. So is everything else: requests of clients, the passing of time, power cuts.
//! A seed gives the same run to the byte. `simkit` has the parts that all simulations share.
//!
//! ```text
//!   clients ─► raft loop ─► log writer ─► raft loop ─► applier ─► snapshot
//!      ▲                        │                        │           │       order of turns:
//!      └── results ◄────────────│────────────────────────┘           │       drawn from the seed
//!                             ──┴── SimDisk ───────── commit ────────┴── purge
//!                                                                            ✗ fails at any change
//! ```
//!
//! | file | contents |
//! | --- | --- |
//! | `single_member` | a member without threads and without peers |
//! | `op`, `model` | random requests, and a model of their effect on keys and leases |
//! | `clients` | the results that clients got, and so the states that a member may be found in |
//! | `scenario` | a run of a member, generated from a seed |
//! | `with_peers` | a member of a cluster, whose peers the test simulates |
//! | `disk_log` | the contents of the log on a disk |
//! | `power`, `faults`, `shutdown`, `leader`, `leader_term`, `follower`, `catch_up` | the tests |
//! | `robustness_record` | bugs that etcd's robustness tests found |

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod clients;
mod disk_log;
mod model;
mod op;
mod scenario;
mod single_member;
mod with_peers;

mod catch_up;
mod faults;
mod follower;
mod leader;
mod leader_term;
mod power;
mod robustness_record;
mod shutdown;

use simkit::{Seeds, number_from_env};

/// The segment size of the log. Small, so that a scenario uses several segments and a power cut has
/// little to copy.
const SEGMENT_BYTES: u64 = 4 << 10;

/// Returns the seeds of a test: `count` of them from 0 on, or as `BOWLINE_CRASH_SEEDS` and
/// `BOWLINE_CRASH_FROM` say.
fn seeds(count: u64) -> Seeds {
    let repeat = |seed| {
        let variables = format!("BOWLINE_CRASH_FROM={seed} BOWLINE_CRASH_SEEDS=1");
        format!("{variables} cargo test -p server --test stages")
    };
    let from = number_from_env("BOWLINE_CRASH_FROM", 0);
    let count = number_from_env("BOWLINE_CRASH_SEEDS", count);
    Seeds { from, count, keep_going: false, repeat }
}
