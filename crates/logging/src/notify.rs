//! Notifying systemd that the member serves.
//!
//! `NOTIFY_SOCKET` names a datagram socket: a path, or `@name` for an abstract socket. The message
//! is `READY=1`. Without the variable nothing is sent. A failure is only logged.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use tracing::{error, info};

const READY: &[u8] = b"READY=1";

/// Sends `READY=1` to the service manager, if it asks for it.
pub fn notify_ready() {
    notify(std::env::var_os("NOTIFY_SOCKET"));
}

// Compat: as in etcd, the lines are logged even without a service manager.
fn notify(socket: Option<OsString>) {
    info!("notifying init daemon");
    let named = socket.filter(|name| !name.is_empty());
    match named.map_or(Ok(()), |name| send(&name)) {
        Ok(()) => info!("successfully notified init daemon"),
        Err(error) => error!(%error, "failed to notify systemd for readiness"),
    }
}

fn send(name: &OsStr) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    socket.send_to_addr(READY, &address(name)?)?;
    Ok(())
}

fn address(name: &OsStr) -> io::Result<SocketAddr> {
    match name.as_bytes().strip_prefix(b"@") {
        Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name),
        None => SocketAddr::from_pathname(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> Vec<u8> {
        let mut bytes = [0; 64];
        let len = socket.recv(&mut bytes).unwrap();
        bytes[..len].to_vec()
    }

    #[test]
    fn a_socket_with_a_path_is_notified() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        notify(Some(path.into_os_string()));
        assert_eq!(received(&socket), b"READY=1");
    }

    #[test]
    fn an_abstract_socket_is_notified() {
        let name = format!("bowline-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        notify(Some(format!("@{name}").into()));
        assert_eq!(received(&socket), b"READY=1");
    }

    #[test]
    fn a_missing_socket_is_logged_as_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let gone = send(dir.path().join("gone").as_os_str()).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
    }
}
