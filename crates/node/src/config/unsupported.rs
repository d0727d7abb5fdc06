//! What Bowline cannot do yet, and refuses rather than leaves undone.
//!
//! A flag in [`FLAGS`] may be given with its default, and with nothing else. A line here goes when what it is about has come.

use super::gates::Gate;
use super::refusal::Refusal;
use super::table::{Flags, Slot, find};
use super::url::list::{self, UniqueUrls, UrlsMap};

const PEER_TLS: &str = "TLS between members is still to come";
const DISCOVERY: &str = "discovery is still to come; give the members with --initial-cluster";
const CLUSTER: &str = "clusters of more than one member are still to come";
const PROFILES: &str = "its profiles are those of a Go program; docs/profiling.md tells how to look into Bowline with perf, metrics, traces and the log";

/// Flags that cannot act, and why.
const FLAGS: &[(&str, &str)] = &[
    ("peer-cert-file", PEER_TLS),
    ("peer-key-file", PEER_TLS),
    ("peer-client-cert-file", PEER_TLS),
    ("peer-client-key-file", PEER_TLS),
    ("peer-client-cert-auth", PEER_TLS),
    ("peer-trusted-ca-file", PEER_TLS),
    ("peer-cert-allowed-cn", PEER_TLS),
    ("peer-cert-allowed-hostname", PEER_TLS),
    ("peer-auto-tls", PEER_TLS),
    ("peer-crl-file", PEER_TLS),
    ("peer-skip-client-san-verification", PEER_TLS),
    ("discovery-token", DISCOVERY),
    ("discovery-endpoints", DISCOVERY),
    ("discovery-dial-timeout", DISCOVERY),
    ("discovery-request-timeout", DISCOVERY),
    ("discovery-keepalive-time", DISCOVERY),
    ("discovery-keepalive-timeout", DISCOVERY),
    ("discovery-insecure-transport", DISCOVERY),
    ("discovery-insecure-skip-tls-verify", DISCOVERY),
    ("discovery-cert", DISCOVERY),
    ("discovery-key", DISCOVERY),
    ("discovery-cacert", DISCOVERY),
    ("discovery-user", DISCOVERY),
    ("discovery-password", DISCOVERY),
    ("discovery-srv", DISCOVERY),
    ("discovery-srv-name", DISCOVERY),
    ("raft-read-timeout", CLUSTER),
    ("raft-write-timeout", CLUSTER),
    ("force-new-cluster", "there is no cluster yet that a member could be taken out of"),
    ("memory-mlock", "the pages of the database cannot be locked yet"),
];

/// Subcommands of etcd that are none of ours yet.
pub(crate) const SUBCOMMANDS: [&str; 2] = ["gateway", "grpc-proxy"];

/// What to say to a subcommand.
pub(crate) fn subcommand(name: &str) -> String {
    format!("{name} is not yet supported by Bowline\n")
}

/// Refuses whatever cannot act, all of it at once.
pub(crate) fn check(flags: &Flags) -> Result<(), Refusal> {
    let mut reasons: Vec<String> = Vec::new();
    let (mut given, mut fresh) = (flags.clone(), Flags::new());
    for (name, reason) in FLAGS.iter().filter(|(name, _)| !is_same(name, &mut given, &mut fresh)) {
        reasons.push(format!("--{name} is not yet supported by Bowline: {reason}"));
    }
    reasons.extend(secure_urls(flags));
    reasons.extend(more_members(flags));
    reasons.extend(freelist(flags));
    reasons.extend(profiles(flags));
    reasons.extend(gates(flags));
    for key in &flags.file_only {
        reasons.push(format!("{key} in the configuration file is not yet supported by Bowline"));
    }
    if reasons.is_empty() { Ok(()) } else { Err(Refusal::Unsupported(reasons)) }
}

/// URLs that ask for TLS between members.
fn secure_urls(flags: &Flags) -> Vec<String> {
    let lists: [(&str, &UniqueUrls, &str); 2] = [
        ("listen-peer-urls", &flags.listen_peer_urls, PEER_TLS),
        ("initial-advertise-peer-urls", &flags.initial_advertise_peer_urls, PEER_TLS),
    ];
    let secure = |urls: &UniqueUrls| urls.urls().iter().any(|url| url.scheme().is_secure());
    let refused = lists.into_iter().filter(|(_, urls, _)| secure(urls));
    refused
        .map(|(name, urls, reason)| {
            let urls = list::texts(urls.urls()).join(",");
            format!("--{name}={urls} is not yet supported by Bowline: {reason}")
        })
        .collect()
}

/// An initial cluster with others in it. One that cannot be read is not for here.
fn more_members(flags: &Flags) -> Option<String> {
    let members = UrlsMap::parse(&flags.initial_cluster).ok()?;
    (members.len() > 1).then(|| {
        format!(
            "--initial-cluster with {} members is not yet supported by Bowline: {CLUSTER}",
            members.len()
        )
    })
}

/// Free pages are kept by size, which is also etcd's default. For another way to keep them there is no use here.
fn freelist(flags: &Flags) -> Option<String> {
    (flags.backend_bbolt_freelist_type == "array").then(|| {
        "--backend-bbolt-freelist-type=array is not supported by Bowline: free pages are always kept by size (map)"
            .to_owned()
    })
}

/// What etcd serves then is made by the runtime of Go, and by no other.
fn profiles(flags: &Flags) -> Option<String> {
    flags.enable_pprof.then(|| format!("--enable-pprof is not supported by Bowline: {PROFILES}"))
}

/// A gate that is about dialling other members.
fn gates(flags: &Flags) -> Option<String> {
    flags.feature_gates.enabled(Gate::SetMemberLocalAddr).then(|| {
        format!(
            "--feature-gates with SetMemberLocalAddr=true is not yet supported by Bowline: {CLUSTER}"
        )
    })
}

/// Whether a flag has the same value in both. Neither is changed: a slot knows only how to reach a field to change it.
fn is_same(name: &str, given: &mut Flags, fresh: &mut Flags) -> bool {
    let Some(flag) = find(name) else { return false };
    match flag.slot {
        Slot::Text(field) | Slot::Choice(_, field) => field(given) == field(fresh),
        Slot::Bool(field) => field(given) == field(fresh),
        Slot::Uint(field) | Slot::Uint64(field) => field(given) == field(fresh),
        Slot::Uint32(field) => field(given) == field(fresh),
        Slot::Int(field) | Slot::Int64(field) => field(given) == field(fresh),
        Slot::Duration(field) => field(given) == field(fresh),
        Slot::Urls(_, field) => field(given).urls() == field(fresh).urls(),
        Slot::Words(field) | Slot::List(field) | Slot::Stages(_, field) => {
            field(given) == field(fresh)
        }
        Slot::Gates(field) => field(given) == field(fresh),
        Slot::Ignored => true,
    }
}

#[cfg(test)]
mod tests {
    use super::{FLAGS, PROFILES, check};
    use crate::config::Flags;
    use crate::config::table::{Slot, find};

    fn refusal(flags: &Flags) -> String {
        check(flags).expect_err("refused").to_string()
    }

    #[test]
    fn every_flag_of_the_list_is_a_flag_and_is_refused() {
        for (name, reason) in FLAGS {
            let flag = find(name).expect(name);
            let mut flags = Flags::new();
            let value = match flag.slot {
                Slot::Bool(_) if flag.default == "true" => "false",
                Slot::Bool(_) => "true",
                Slot::Duration(_) => "77s",
                Slot::Choice(..) => "existing",
                _ => "77",
            };
            flags.set(&flag, value).expect(name);
            assert_eq!(
                refusal(&flags),
                format!("--{name} is not yet supported by Bowline: {reason}")
            );
        }
    }

    #[test]
    fn defaults_are_not_refused() {
        assert_eq!(check(&Flags::new()), Ok(()));
    }

    #[test]
    fn urls_with_tls_are_refused_for_members_alone() {
        let mut flags = Flags::new();
        flags.advertise_client_urls.set("https://a:1", "").expect("sound");
        flags.listen_client_urls.set("https://1.2.3.4:1", "").expect("sound");
        assert_eq!(check(&flags), Ok(()));
        flags.listen_peer_urls.set("https://1.2.3.4:1", "").expect("sound");
        assert_eq!(
            refusal(&flags),
            "--listen-peer-urls=https://1.2.3.4:1 is not yet supported by Bowline: TLS between members is still to come"
        );
    }

    #[test]
    fn a_gate_without_anything_behind_it_is_refused_however_it_is_opened() {
        for (gates, is_refused) in [
            ("SetMemberLocalAddr=true", true),
            ("AllAlpha=true", true),
            ("AllAlpha=true,SetMemberLocalAddr=false", false),
            ("SetMemberLocalAddr=false,AllBeta=true", false),
        ] {
            let mut flags = Flags::new();
            flags.feature_gates.set(gates).expect("sound");
            assert_eq!(check(&flags).is_err(), is_refused, "{gates}");
        }
    }

    #[test]
    fn other_members_are_refused_with_all_else() {
        let mut flags = Flags::new();
        flags.initial_cluster = "a=http://1:1,b=http://2:1".to_owned();
        flags.enable_pprof = true;
        assert_eq!(
            refusal(&flags),
            format!(
                "--initial-cluster with 2 members is not yet supported by Bowline: \
                 clusters of more than one member are still to come; \
                 --enable-pprof is not supported by Bowline: {PROFILES}"
            )
        );
    }
}
