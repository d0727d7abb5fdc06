//! Transports over real sockets, with fake members.

mod garbage;
mod messages;
mod port;
mod rig;
mod rpc;
mod secure;
mod snapshots;
