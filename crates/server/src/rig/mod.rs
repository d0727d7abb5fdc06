//! Tests of a whole member in one thread, on a simulated disk that loses unsynced data at a power
//! cut.
//!
//! The stages of the pipeline, which have threads in a process, take their turns here in an order
//! drawn from a seed. So is everything else: requests of clients, the passing of time, power cuts.
//! A seed gives the same run to the byte.
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
//! | `stages` | a member without threads and without peers |
//! | `op`, `model` | random requests, and a model of their effect on keys and leases |
//! | `clients` | the results that clients got, and so the states that a member may be found in |
//! | `scenario` | a run of a member, generated from a seed |
//! | `with_peers` | a member of a cluster, whose peers the test plays |
//! | `power`, `faults`, `log`, `shutdown`, `leader`, `leader_term`, `follower` | the tests |

mod clients;
mod model;
mod op;
mod scenario;
mod stages;
mod with_peers;

mod faults;
mod follower;
mod leader;
mod leader_term;
mod log;
mod power;
mod shutdown;

/// The segment size in the tests of this crate. Small, so that a scenario uses several segments and
/// a power cut has little to copy.
pub(crate) const SEGMENT_BYTES: u64 = 4 << 10;

/// Returns the number of scenarios to run: the default, or the value of `BOWLINE_RIG_SEEDS`.
fn seeds(default: u64) -> u64 {
    std::env::var("BOWLINE_RIG_SEEDS").map_or(default, |seeds| seeds.parse().unwrap())
}
