//! Transports over real sockets, with fake members.

mod black_hole;
mod fixture;
mod garbage;
mod messages;
mod port;
mod rpc;
mod secure;
mod snapshots;
