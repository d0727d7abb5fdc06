//! Disk, clock and randomness: all that the rest of Bowline gets from the machine it runs on.
//!
//! Whatever stores or decides is handed one of each and asks nothing else of the outside. In production they are
//! [`OsDisk`], [`OsClock`] and [`OsRandom`]; a test hands over a [`SimDisk`], which loses at a crash what a power cut could
//! take, fails where it is told to and counts every call, a [`SimClock`] that moves when it is moved, and a
//! [`SeededRandom`] that repeats. The code between is the same.
//!
//! The traits are used as trait objects: every call behind them is a system call, which a virtual call does not
//! make slower, and the crates above stay free of type parameters. The one hot path, reading a mapped file, goes through
//! the plain struct [`Map`].

mod disk;
mod host;
mod map;
mod memory;
mod os;

mod clock;
mod random;

mod sim;

pub use clock::{Clock, OsClock, SimClock};
pub use disk::{Create, Disk, File, Kind, Lock, Locking, Open, parent};
pub use host::host_name_of;
pub use map::Map;
pub use memory::{free_memory_bytes, keep_little_memory, release_free_memory};
pub use os::OsDisk;
pub use random::{OsRandom, Random, SeededRandom};
pub use sim::{Calls, Fault, SimDisk};
