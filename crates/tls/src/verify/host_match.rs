//! Matches certificates with host names, by Go's rules.
//!
//! ```text
//!   names in the certificate      matches                 does not match
//!   db.example                    DB.example, db.example. example
//!   *.example                     a.example               a.b.example, example
//!   10.0.0.7                      10.0.0.7, [10.0.0.7]    the name 10.0.0.7.example
//! ```
//!
//! The common name is not matched.

use std::net::IpAddr;

use crate::verify::peer_certificate::PeerCertificate;

/// Returns whether the certificate is for this name or address.
pub(crate) fn certificate_matches(certificate: &PeerCertificate, host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return certificate.has_address(address);
    }
    let host = host.to_ascii_lowercase();
    let is_valid = is_name(&host, false);
    certificate.dns_names.iter().any(|pattern| {
        let pattern = pattern.to_ascii_lowercase();
        if is_valid && is_name(&pattern, true) {
            matches(&pattern, &host)
        } else {
            !host.is_empty() && host != "." && host == pattern
        }
    })
}

/// Returns whether a text is a valid host name. A pattern may begin with `*.`.
fn is_name(text: &str, is_pattern: bool) -> bool {
    let text = if is_pattern { text } else { text.strip_suffix('.').unwrap_or(text) };
    if text.is_empty() || text == "*" {
        return false;
    }
    text.split('.').enumerate().all(|(at, label)| {
        (is_pattern && at == 0 && label == "*")
            || (!label.is_empty()
                && !label.starts_with('-')
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)))
    })
}

fn matches(pattern: &str, host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let (patterns, labels): (Vec<&str>, Vec<&str>) =
        (pattern.split('.').collect(), host.split('.').collect());
    patterns.len() == labels.len()
        && patterns
            .iter()
            .zip(&labels)
            .enumerate()
            .all(|(at, (pattern, label))| (at == 0 && *pattern == "*") || pattern == label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(dns_names: &[&str], addresses: &[&str]) -> PeerCertificate {
        PeerCertificate {
            dns_names: dns_names.iter().map(|name| (*name).to_owned()).collect(),
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
            ..PeerCertificate::default()
        }
    }

    #[test]
    fn names_match_as_in_go() {
        for (pattern, host, expected) in [
            ("db.example", "db.example", true),
            ("db.example", "DB.Example.", true),
            ("db.example", "example", false),
            ("*.example", "a.example", true),
            ("*.example", "a.b.example", false),
            ("*.example", "example", false),
            ("a.*.example", "a.b.example", false),
            ("*", "example", false),
            ("a_b", "A_b", true),
            ("-a", "-a", true),
            ("a b", "a b", true),
            ("", "", false),
        ] {
            assert_eq!(
                certificate_matches(&certificate(&[pattern], &[]), host),
                expected,
                "{pattern} {host}"
            );
        }
    }

    #[test]
    fn addresses_match_only_addresses() {
        let certificate = certificate(&["10.0.0.8"], &["10.0.0.7", "fd00::1"]);
        for (host, expected) in [
            ("10.0.0.7", true),
            ("[10.0.0.7]", true),
            ("::ffff:10.0.0.7", true),
            ("fd00:0::1", true),
            ("10.0.0.8", false),
        ] {
            assert_eq!(certificate_matches(&certificate, host), expected, "{host}");
        }
    }
}
