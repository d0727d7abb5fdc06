//! Host names.

use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;

/// Maximum length of a host name in libc, with its terminator.
const NAME_BYTES_MAX: usize = 1025;

/// Looks up the host name of an address, in the hosts file, DNS, or whatever the system uses. May
/// take long.
pub fn host_name(address: IpAddr) -> Option<String> {
    match address.to_canonical() {
        IpAddr::V4(address) => name_of(&socket_address_v4(address)),
        IpAddr::V6(address) => name_of(&socket_address_v6(address)),
    }
}

/// A libc socket address.
///
/// # Safety
///
/// A value must begin like a `sockaddr`, with a matching address family.
#[expect(unsafe_code, reason = "a contract with libc")]
unsafe trait SocketAddress: Sized {}

#[expect(unsafe_code, reason = "the layout is that of libc")]
// SAFETY: created only here, with the family of IPv4.
unsafe impl SocketAddress for libc::sockaddr_in {}

#[expect(unsafe_code, reason = "the layout is that of libc")]
// SAFETY: created only here, with the family of IPv6.
unsafe impl SocketAddress for libc::sockaddr_in6 {}

fn socket_address_v4(address: Ipv4Addr) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: family(libc::AF_INET),
        sin_port: 0,
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.octets()) },
        sin_zero: [0; 8],
    }
}

fn socket_address_v6(address: Ipv6Addr) -> libc::sockaddr_in6 {
    libc::sockaddr_in6 {
        sin6_family: family(libc::AF_INET6),
        sin6_port: 0,
        sin6_flowinfo: 0,
        sin6_addr: libc::in6_addr { s6_addr: address.octets() },
        sin6_scope_id: 0,
    }
}

fn family(family: libc::c_int) -> libc::sa_family_t {
    libc::sa_family_t::try_from(family).unwrap_or_default()
}

fn name_of<A: SocketAddress>(address: &A) -> Option<String> {
    let mut name = [0_u8; NAME_BYTES_MAX];
    let length = libc::socklen_t::try_from(size_of::<A>()).ok()?;
    #[expect(unsafe_code, reason = "neither std nor rustix offers this call")]
    // SAFETY: both pointers are valid for the given lengths during the call; no service name is
    // requested, so that pointer may be null.
    let answer = unsafe {
        libc::getnameinfo(
            ptr::from_ref(address).cast(),
            length,
            name.as_mut_ptr().cast(),
            libc::socklen_t::try_from(name.len()).ok()?,
            ptr::null_mut(),
            0,
            libc::NI_NAMEREQD,
        )
    };
    let name = CStr::from_bytes_until_nul(&name).ok()?;
    (answer == 0).then(|| name.to_str().ok().map(str::to_owned)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_address_has_a_name() {
        let name = host_name(Ipv4Addr::LOCALHOST.into()).unwrap();
        assert!(!name.is_empty());
        assert_eq!(host_name("::ffff:127.0.0.1".parse().unwrap()), Some(name));
    }
}
