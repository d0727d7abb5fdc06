//! Listening sockets: bind, accept, drain.

pub(crate) mod accept;
mod address;
mod handle;
mod listener;
mod server_stream;

pub use address::{Address, ResolveError};
pub use handle::ListenerHandle;
pub(crate) use handle::ListenerPhase;
pub(crate) use listener::set_tcp_options;
pub use listener::{BACKLOG, BindError, Listener, LocalAddr, SocketOptions};
pub(crate) use server_stream::ServerStream;
