//! The keys of a configuration file that differ from the names of flags.

use crate::flags::{Flag, Flags, Slot, find};

/// The meaning of a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Key {
    /// The value of a flag.
    Flag(Flag),
    /// A section with keys of its own.
    Map(&'static Section),
    /// A list without a flag.
    List(fn(&mut Flags) -> &mut Vec<String>),
    /// A boolean without a flag.
    Bool(fn(&mut Flags) -> &mut bool),
    /// A text without a flag.
    Text(fn(&mut Flags) -> &mut String),
    /// A number without a flag.
    Int(fn(&mut Flags) -> &mut i64),
}

/// A section of the file.
#[derive(Debug)]
pub(super) struct Section {
    /// The Go type that etcd decodes it into.
    pub(super) go_type: &'static str,
    /// Keys, each with its flag.
    flags: &'static [(&'static str, &'static str)],
    /// Keys without a flag.
    fields: &'static [(&'static str, Key)],
    /// Nested sections.
    sections: &'static [(&'static str, &'static Section)],
}

impl Section {
    /// Returns the name of the Go type without its package.
    pub(super) fn go_name(&self) -> &'static str {
        self.go_type.rsplit('.').next().unwrap_or(self.go_type)
    }

    /// Finds a key by its exact name, then ignoring case.
    pub(super) fn find(&self, key: &str) -> Option<Key> {
        self.find_by(|known| known == key)
            .or_else(|| self.find_by(|known| known.eq_ignore_ascii_case(key)))
    }

    fn find_by(&self, is_key: impl Fn(&str) -> bool) -> Option<Key> {
        let flag =
            self.flags.iter().find(|(known, _)| is_key(known)).and_then(|(_, flag)| find(flag));
        let field = || self.fields.iter().find(|(known, _)| is_key(known)).map(|(_, key)| *key);
        let section = || self.sections.iter().find(|(known, _)| is_key(known));
        flag.map(Key::Flag)
            .or_else(field)
            .or_else(|| section().map(|(_, section)| Key::Map(section)))
    }
}

/// Finds a top-level key: a section, or the flag of that name if it has a top-level key.
pub(super) fn top(key: &str) -> Option<Key> {
    let lower = key.to_ascii_lowercase();
    if let Some((_, section)) = SECTIONS.iter().find(|(known, _)| *known == lower) {
        return Some(Key::Map(section));
    }
    let flag = find(&lower).filter(|flag| !matches!(flag.slot, Slot::Ignored))?;
    (!is_elsewhere(flag.name)).then_some(Key::Flag(flag))
}

/// Returns the Go type that holds a top-level key in etcd; error texts contain it.
pub(super) fn top_owner(key: &str) -> &'static str {
    const TEXTS: [&str; 8] = [
        "listen-peer-urls",
        "listen-client-urls",
        "listen-client-http-urls",
        "initial-advertise-peer-urls",
        "advertise-client-urls",
        "cors",
        "host-whitelist",
        "feature-gates",
    ];
    let is_text = TEXTS.contains(&key) || key.ends_with("-transport-security");
    if is_text { "configJSON" } else { "Config" }
}

/// Returns whether a flag has no top-level key.
fn is_elsewhere(flag: &str) -> bool {
    const NOWHERE: [&str; 7] = [
        "raft-read-timeout",
        "raft-write-timeout",
        "client-crl-file",
        "peer-crl-file",
        "discovery-fallback",
        "config-file",
        "version",
    ];
    let in_section = |section: &Section| section.flags.iter().any(|(_, name)| *name == flag);
    NOWHERE.contains(&flag)
        || [&CLIENT_SECURITY, &PEER_SECURITY, &SOCKET_OPTIONS, &DISCOVERY, &DISCOVERY_CLIENT]
            .into_iter()
            .any(in_section)
        || [&DISCOVERY_SECURE, &DISCOVERY_AUTH].into_iter().any(in_section)
}

const SECTIONS: &[(&str, &Section)] = &[
    ("client-transport-security", &CLIENT_SECURITY),
    ("peer-transport-security", &PEER_SECURITY),
    ("socket-options", &SOCKET_OPTIONS),
    ("discovery-config", &DISCOVERY),
];

static CLIENT_SECURITY: Section = Section {
    go_type: "embed.securityConfig",
    flags: &[
        ("cert-file", "cert-file"),
        ("key-file", "key-file"),
        ("client-cert-file", "client-cert-file"),
        ("client-key-file", "client-key-file"),
        ("client-cert-auth", "client-cert-auth"),
        ("trusted-ca-file", "trusted-ca-file"),
        ("auto-tls", "auto-tls"),
        ("allowed-hostname", "client-cert-allowed-hostname"),
    ],
    fields: &[
        ("allowed-cn", Key::List(|flags| &mut flags.client_cert_allowed_cn)),
        (
            "skip-client-san-verification",
            Key::Bool(|flags| &mut flags.client_skip_client_san_verification),
        ),
    ],
    sections: &[],
};

static PEER_SECURITY: Section = Section {
    go_type: "embed.securityConfig",
    flags: &[
        ("cert-file", "peer-cert-file"),
        ("key-file", "peer-key-file"),
        ("client-cert-file", "peer-client-cert-file"),
        ("client-key-file", "peer-client-key-file"),
        ("client-cert-auth", "peer-client-cert-auth"),
        ("trusted-ca-file", "peer-trusted-ca-file"),
        ("auto-tls", "peer-auto-tls"),
        ("allowed-cn", "peer-cert-allowed-cn"),
        ("allowed-hostname", "peer-cert-allowed-hostname"),
        ("skip-client-san-verification", "peer-skip-client-san-verification"),
    ],
    fields: &[],
    sections: &[],
};

static SOCKET_OPTIONS: Section = Section {
    go_type: "transport.SocketOpts",
    flags: &[("reuse-port", "socket-reuse-port"), ("reuse-address", "socket-reuse-address")],
    fields: &[],
    sections: &[],
};

static DISCOVERY: Section = Section {
    go_type: "v3discovery.DiscoveryConfig",
    flags: &[("token", "discovery-token")],
    fields: &[],
    sections: &[("client", &DISCOVERY_CLIENT)],
};

static DISCOVERY_CLIENT: Section = Section {
    go_type: "clientv3.ConfigSpec",
    flags: &[
        ("endpoints", "discovery-endpoints"),
        ("dial-timeout", "discovery-dial-timeout"),
        ("request-timeout", "discovery-request-timeout"),
        ("keepalive-time", "discovery-keepalive-time"),
        ("keepalive-timeout", "discovery-keepalive-timeout"),
    ],
    fields: &[
        ("max-request-bytes", Key::Int(|flags| &mut flags.discovery_request_bytes_max)),
        ("max-recv-bytes", Key::Int(|flags| &mut flags.discovery_answer_bytes_max)),
    ],
    sections: &[("secure", &DISCOVERY_SECURE), ("auth", &DISCOVERY_AUTH)],
};

static DISCOVERY_SECURE: Section = Section {
    go_type: "clientv3.SecureConfig",
    flags: &[
        ("cert", "discovery-cert"),
        ("key", "discovery-key"),
        ("cacert", "discovery-cacert"),
        ("insecure-transport", "discovery-insecure-transport"),
        ("insecure-skip-tls-verify", "discovery-insecure-skip-tls-verify"),
    ],
    fields: &[("server-name", Key::Text(|flags| &mut flags.discovery_server_name))],
    sections: &[],
};

static DISCOVERY_AUTH: Section = Section {
    go_type: "clientv3.AuthConfig",
    flags: &[("username", "discovery-user"), ("password", "discovery-password")],
    fields: &[("token", Key::Text(|flags| &mut flags.discovery_user_token))],
    sections: &[],
};
