//! A whole member in one thread, on a disk that loses what a power cut may take.
//!
//! The stages of the pipeline, which have threads in a process, take their turns here in an order that follows from a seed; so does all else: what clients
//! ask for, when time passes, when the power goes. The same seed gives the same run to the byte.
//!
//! ```text
//!   clients ──► raft loop ──► log ──► raft loop ──► apply ──► snapshot          whose turn it is: a seed
//!      ▲                       │                      │           │
//!      └── told ◄──────────────│──────────────────────┘           │
//!                            ──┴── SimDisk ──────── commit ───────┴── purge     ✗ at any change
//! ```
//!
//! | file | what it is |
//! | --- | --- |
//! | `stages` | a member without threads |
//! | `op`, `model` | what is asked for, and what it makes of the keys and leases |
//! | `clients` | what they were told, and so what must be found for ever after |
//! | `story` | what a member goes through |
//! | `among` | a member among others, whose part the test plays |
//! | `power`, `faults`, `log`, `ends`, `leader`, `follower` | the tests |

mod among;
mod clients;
mod model;
mod op;
mod stages;
mod story;

mod ends;
mod faults;
mod follower;
mod leader;
mod leader_term;
mod log;
mod power;

/// How long a segment of the log is in the tests of this crate: a story goes through several, and a cut has little to copy.
pub(crate) const SEGMENT_BYTES: u64 = 4 << 10;

/// How many stories are told: so many, unless `BOWLINE_RIG_SEEDS` asks for another number.
fn seeds(ordinary: u64) -> u64 {
    std::env::var("BOWLINE_RIG_SEEDS").map_or(ordinary, |seeds| seeds.parse().unwrap())
}
