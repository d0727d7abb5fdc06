//! The machine: which address of it others would see, and what its processor is called.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// What the configuration depends on besides what it is given.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// The architecture, by Go's name.
    pub arch: &'static str,
    /// The address that the default route goes out from.
    pub default_host: fn() -> Result<IpAddr, NoDefaultHost>,
}

/// There is no default route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("could not find default route")]
pub struct NoDefaultHost;

impl Machine {
    /// This one.
    pub fn here() -> Self {
        Self { arch: go_arch(std::env::consts::ARCH), default_host }
    }

    /// Whether etcd promises to run on it.
    pub(crate) fn is_supported(&self) -> bool {
        ["amd64", "arm64", "ppc64le", "s390x"].contains(&self.arch)
    }
}

/// Rust's name of an architecture, as Go has it.
fn go_arch(arch: &'static str) -> &'static str {
    match arch {
        "x86_64" => "amd64",
        "x86" => "386",
        "aarch64" => "arm64",
        "powerpc64" if cfg!(target_endian = "little") => "ppc64le",
        "powerpc64" => "ppc64",
        other => other,
    }
}

/// Asks the routing table by connecting a datagram socket, which sends nothing, to an address that is for documentation.
/// An address of version 4 is preferred.
fn default_host() -> Result<IpAddr, NoDefaultHost> {
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
    use super::{Machine, go_arch};

    #[test]
    fn architectures_have_gos_names() {
        assert_eq!(go_arch("x86_64"), "amd64");
        assert_eq!(go_arch("aarch64"), "arm64");
        assert_eq!(go_arch("s390x"), "s390x");
    }

    #[test]
    fn a_default_host_is_never_a_loopback_address() {
        if let Ok(address) = (Machine::here().default_host)() {
            assert!(!address.is_loopback() && !address.is_unspecified());
        }
    }
}
