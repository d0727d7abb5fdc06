//! Transports that speak over real sockets, for members that do as they are told.

mod garbage;
mod messages;
mod port;
mod questions;
mod rig;
mod secure;
mod snapshots;
