//! Reads bytes as the answers of a discovery service and as DNS records.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};

use crate::member_list::{MemberList, RegistryEntry, parse_size};
use crate::registry_keys::{RegistryKeys, prefix_end};
use crate::srv::{Lookup, MEMBERS_MAX, OwnUrl, SrvQuery, SrvRecord, find};

/// The input has the token, the size and the entries.
pub(crate) fn check_registry(mut input: &[u8]) {
    let token = String::from_utf8_lossy(&take(&mut input)).into_owned();
    let keys = RegistryKeys::of(&token);
    let prefix = keys.members();
    assert!(keys.member(7).starts_with(&prefix) && prefix_end(&prefix)[..] > *prefix.as_bytes());
    let size = parse_size(&take(&mut input));
    assert_ne!(size, Some(0));

    let mut members = MemberList::new(keys);
    let mut valid: Vec<(i64, String)> = Vec::new();
    let mut seen = BTreeSet::new();
    while let Some((&kind, rest)) = input.split_first() {
        input = rest;
        let (key, value) = (take(&mut input), take(&mut input));
        // Most keys are in the right place, so that the values matter.
        let key = if kind % 8 == 0 { key } else { [prefix.as_bytes(), b"/", &key].concat() };
        let entry = RegistryEntry::new(&key, &value, i64::from(kind / 8));
        let is_valid = entry.key.starts_with(&prefix) && entry.info.contains('=');
        if is_valid && seen.insert(entry.key.clone()) {
            valid.push((entry.revision, entry.info.clone()));
        }
        members.add(entry);
    }
    valid.sort_by_key(|(revision, _)| *revision);
    assert_eq!(members.len(), valid.len());
    let size = size.unwrap_or(usize::MAX);
    let infos: Vec<&str> = valid.iter().take(size).map(|(_, info)| info.as_str()).collect();
    assert_eq!(members.initial_cluster(size), infos.join(","));
}

fn take(input: &mut &[u8]) -> Vec<u8> {
    let Some((&length, rest)) = input.split_first() else { return Vec::new() };
    let (bytes, rest) = rest.split_at(usize::from(length).min(rest.len()));
    *input = rest;
    bytes.to_vec()
}

/// Records with a target and a port, of which every other one can be resolved.
struct Records(Vec<SrvRecord>);

impl Lookup for Records {
    fn srv(&self, _: &str, _: &str) -> Result<Vec<SrvRecord>, String> {
        if self.0.is_empty() { Err("no such host".to_owned()) } else { Ok(self.0.clone()) }
    }

    fn address(&self, host: &str, port: u16) -> Result<SocketAddr, String> {
        match host.bytes().fold(0_u8, u8::wrapping_add) {
            sum if sum % 2 == 0 => Ok((Ipv4Addr::new(10, 0, 0, sum), port).into()),
            _ => Err("no such host".to_owned()),
        }
    }
}

pub(crate) fn check_srv(mut input: &[u8]) {
    let mut records = Vec::new();
    while let Some((&[priority, high, low], rest)) = input.split_first_chunk() {
        input = rest;
        let target = String::from_utf8_lossy(&take(&mut input)).into_owned();
        let port = u16::from_be_bytes([high, low]);
        records.push(SrvRecord { priority: priority.into(), target, port, weight: 0 });
    }
    let own = [OwnUrl { scheme: "https".to_owned(), host: "bb".to_owned(), port: 2380 }];
    let query = SrvQuery { name: "m", domain: "example.com", service_name: "", own_urls: &own };
    let found = find(&query, &Records(records.clone()));
    assert!(found.errors.len() <= 2 && found.members.len() <= 2 * MEMBERS_MAX.min(records.len()));
    for member in &found.members {
        let (name, url) = member.split_once('=').expect("a name and a URL");
        assert!(!name.is_empty() && url.starts_with("http"), "{member:?}");
    }
}
