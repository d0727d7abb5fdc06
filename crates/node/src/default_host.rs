//! Finding the local address of the default route.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use config::NoDefaultHost;

/// Returns the local address that packets to the internet leave from. Prefers IPv4.
///
/// Connects a datagram socket, which sends nothing, to a documentation address and reads which
/// local address the kernel chose.
pub(crate) fn default_host() -> Result<IpAddr, NoDefaultHost> {
    let v4 = (IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1)));
    let v6 = (
        IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    );
    [v4, v6].into_iter().find_map(|(from, to)| source_address(from, to)).ok_or(NoDefaultHost)
}

fn source_address(from: IpAddr, to: IpAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind(SocketAddr::new(from, 0)).ok()?;
    socket.connect(SocketAddr::new(to, 9)).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::default_host;

    #[test]
    fn the_default_host_is_never_a_loopback_address() {
        if let Ok(address) = default_host() {
            assert!(!address.is_loopback() && !address.is_unspecified());
        }
    }
}
