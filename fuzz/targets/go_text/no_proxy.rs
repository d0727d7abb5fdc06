//! A second implementation of `NO_PROXY`, by the rules of Go's `httpproxy`.

use std::net::IpAddr;

use crate::bypass::Bypass;

const PORT: u16 = 2380;
/// The value of `net::dial::proxy::bypass::ENTRIES_MAX`, which is private.
const ENTRIES_MAX: usize = 4096;

/// The first line is a host, the rest a list.
pub(crate) fn check(text: &str) {
    let (host, list) = text.split_once('\n').unwrap_or((text, ""));
    let expected = is_direct(&host.trim().to_lowercase(), &list.to_lowercase());
    assert_eq!(Bypass::parse(list).contains(host, PORT), expected, "{host:?} {list:?}");
}

fn is_direct(host: &str, list: &str) -> bool {
    let address = parse_address(host.split('%').next().unwrap_or(host));
    let is_local = host == "localhost" || address.is_some_and(|address| address.is_loopback());
    let entries = list.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    let matches = |entry: &str| match address {
        Some(address) => matches_address(entry, address),
        None => matches_name(entry, host),
    };
    is_local || entries.take(ENTRIES_MAX).any(|entry| entry == "*" || matches(entry))
}

fn parse_address(text: &str) -> Option<IpAddr> {
    text.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

fn matches_address(entry: &str, address: IpAddr) -> bool {
    if let Some((network, bits)) = split_network(entry) {
        return network.is_ipv4() == address.is_ipv4()
            && binary(network).starts_with(&binary(address)[..bits]);
    }
    let host = without_port(entry);
    host.is_some_and(|host| parse_address(host) == Some(address))
}

fn matches_name(entry: &str, name: &str) -> bool {
    if split_network(entry).is_some() {
        return false;
    }
    let host = without_port(entry).filter(|host| host.parse::<IpAddr>().is_err());
    let Some(host) = host.filter(|host| !host.is_empty()) else { return false };
    match host.strip_prefix("*.").or(host.strip_prefix('.')) {
        Some(domain) => name.ends_with(&format!(".{domain}")),
        None => name == host || name.ends_with(&format!(".{host}")),
    }
}

/// Returns the host of an entry, unless it has another port.
fn without_port(entry: &str) -> Option<&str> {
    match gocompat::split_host_port(entry) {
        None => Some(entry),
        Some((host, port)) => (port.parse() == Ok(PORT)).then_some(host),
    }
}

fn split_network(entry: &str) -> Option<(IpAddr, usize)> {
    let (address, bits) = entry.split_once('/')?;
    let (address, bits) = (address.parse::<IpAddr>().ok()?, bits.parse::<u8>().ok()?.into());
    (bits <= binary(address).len()).then_some((address, bits))
}

/// Returns the binary digits of an address.
fn binary(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => format!("{:032b}", address.to_bits()),
        IpAddr::V6(address) => format!("{:0128b}", address.to_bits()),
    }
}
