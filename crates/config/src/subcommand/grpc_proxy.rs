//! The flags of `grpc-proxy start`, and the checks before it starts.

use std::path::PathBuf;

use tls::{CipherSuites, Info, Versions};

use super::Subcommand;
use super::table::verb;
use crate::parse::Exit;
use crate::resolve::tls::version;
use gocompat::quote;

verb! {
    /// The flags of `grpc-proxy start`.
    ProxyFlags = "grpc-proxy" start, "start the grpc proxy" {
        "advertise-client-url" advertise_client_url: Text = "127.0.0.1:23790",
            "Address that clients reach this proxy by; empty passes requests about members through.";
        "auto-tls" auto_tls: Bool = "false",
            "Serve TLS with a generated certificate.";
        "cacert" cacert: Text = "",
            "CAs of the certificates of members.";
        "cert" cert: Text = "",
            "Certificate to present to members. Its common name must be empty.";
        "cert-file" cert_file: Text = "",
            "Certificate to present to clients.";
        "client-crl-file" client_crl_file: Text = "",
            "Revocation list for certificates of clients.";
        "data-dir" data_dir: Text = "default.proxy",
            "Directory for generated certificates.";
        "debug" debug: Bool = "false",
            "Log at level debug.";
        "dial-keepalive-time" dial_keepalive_time: Duration = "0",
            "Silence after which a member is pinged (0 disables pings).";
        "dial-keepalive-timeout" dial_keepalive_timeout: Duration = "20s",
            "Time for a member to answer a ping.";
        "discovery-srv" discovery_srv: Text = "",
            "Domain with SRV records of the endpoints.";
        "discovery-srv-name" discovery_srv_name: Text = "",
            "Suffix of the service names in the SRV records.";
        "enable-pprof" enable_pprof: Bool = "false",
            "Serve CPU, heap and thread profiles under /debug/pprof/.";
        "endpoints" endpoints: Strings = "127.0.0.1:2379",
            "Endpoints of the cluster, unless SRV records name some.";
        "endpoints-auto-sync-interval" endpoints_auto_sync_interval: Duration = "0",
            "Interval of updates of the endpoints from the member list (0 disables them).";
        "experimental-enable-grpc-logging" experimental_enable_grpc_logging: Bool = "false",
            "Log every call.";
        "experimental-leasing-prefix" experimental_leasing_prefix: Text = "",
            "Prefix of leasing keys, by which this proxy owns keys and answers reads from memory.";
        "experimental-serializable-ordering" experimental_serializable_ordering: Bool = "false",
            "Never answer from an older revision than before.";
        "grpc-keepalive-interval" grpc_keepalive_interval: Duration = "2h",
            "Silence after which a client is pinged (0 is the default).";
        "grpc-keepalive-min-time" grpc_keepalive_min_time: Duration = "5s",
            "Least time between two pings of a client.";
        "grpc-keepalive-timeout" grpc_keepalive_timeout: Duration = "20s",
            "Time for a client to answer a ping (0 is the default).";
        "insecure-discovery" insecure_discovery: Bool = "false",
            "Accept endpoints from SRV records without TLS.";
        "insecure-skip-tls-verify" insecure_skip_tls_verify: Bool = "false",
            "Do not verify the certificates of members. For tests only.";
        "key" key: Text = "",
            "Private key of --cert.";
        "key-file" key_file: Text = "",
            "Private key of --cert-file.";
        "listen-addr" listen_addr: Text = "127.0.0.1:23790",
            "Address to listen on.";
        "listen-cipher-suites" listen_cipher_suites: Strings = "",
            "Cipher suites for clients, by Go's names (empty leaves the choice open).";
        "max-concurrent-streams" max_concurrent_streams: Uint32 = "4294967295",
            "Streams that a client may have open at a time.";
        "max-recv-bytes" max_recv_bytes: Int = "2147483647",
            "Limit on responses of members, in bytes.";
        "max-send-bytes" max_send_bytes: Int = "1572864",
            "Limit on requests to members, in bytes.";
        "metrics-addr" metrics_addr: Text = "",
            "Additional URL to listen on for metrics and health.";
        "namespace" namespace: Text = "",
            "Prefix of all keys of the clients of this proxy.";
        "permit-without-stream" permit_without_stream: Bool = "false",
            "Ping members even without a call in flight.";
        "resolver-prefix" resolver_prefix: Text = "",
            "Prefix of the keys under which proxies register; the same for all of them.";
        "resolver-ttl" resolver_ttl: Int = "0",
            "Time to live of the registration, in seconds.";
        "self-signed-cert-validity" self_signed_cert_validity: Uint = "1",
            "Validity of the generated certificate, in years.";
        "tls-max-version" tls_max_version: Text = "",
            "Newest TLS version for clients: TLS1.2 or TLS1.3 (empty leaves the choice open).";
        "tls-min-version" tls_min_version: Text = "TLS1.2",
            "Oldest TLS version for clients: TLS1.2 or TLS1.3.";
        "trusted-ca-file" trusted_ca_file: Text = "",
            "CAs of the certificates of clients. If set, clients must present one.";
    }
}

/// The TLS settings of both sides of a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyTls {
    /// The settings for clients, without a generated certificate; `None` for plain text.
    pub serving: Option<Info>,
    /// The settings for members; `None` for plain text with endpoints without a scheme.
    pub members: Option<Info>,
}

impl ProxyFlags {
    /// Resolves the TLS flags.
    ///
    /// # Errors
    /// A TLS version or cipher suite is unknown.
    pub fn tls(&self) -> Result<ProxyTls, String> {
        Ok(ProxyTls { serving: self.serving()?, members: self.members() })
    }

    fn serving(&self) -> Result<Option<Info>, String> {
        let given = [&self.cert_file, &self.key_file, &self.trusted_ca_file];
        if !self.auto_tls && given.iter().all(|file| file.is_empty()) {
            return Ok(None);
        }
        Ok(Some(Info {
            cert_file: path(&self.cert_file),
            key_file: path(&self.key_file),
            trusted_ca_file: path(&self.trusted_ca_file),
            crl_file: path(&self.client_crl_file),
            suites: CipherSuites::from_names(&self.listen_cipher_suites)
                .map_err(|error| error.to_string())?,
            versions: self.versions()?,
            ..Info::default()
        }))
    }

    fn members(&self) -> Option<Info> {
        let given = [&self.cert, &self.key, &self.cacert];
        if !self.insecure_skip_tls_verify && given.iter().all(|file| file.is_empty()) {
            return None;
        }
        Some(Info {
            cert_file: path(&self.cert),
            key_file: path(&self.key),
            trusted_ca_file: path(&self.cacert),
            insecure_skip_verify: self.insecure_skip_tls_verify,
            ..Info::default()
        })
    }

    fn versions(&self) -> Result<Versions, String> {
        let default = Versions::default();
        let parse = |flag: &str, text: &str| {
            version(text).map_err(|error| format!("{flag} is invalid: {error}"))
        };
        Ok(Versions {
            min: parse("tls-min-version", &self.tls_min_version)?.unwrap_or(default.min),
            max: parse("tls-max-version", &self.tls_max_version)?.unwrap_or(default.max),
        })
    }
}

fn path(text: &str) -> Option<PathBuf> {
    (!text.is_empty()).then(|| PathBuf::from(text))
}

/// Checks the flags, in etcd's order and with its texts.
pub(super) fn check(flags: ProxyFlags) -> Result<Subcommand, Exit> {
    match check_resolver(&flags).and_then(|()| check_tls(&flags)) {
        Ok(()) => Ok(Subcommand::GrpcProxy(Box::new(flags))),
        Err(text) => {
            Err(Exit::Printed { stdout: String::new(), stderr: format!("{text}\n"), code: 1 })
        }
    }
}

fn check_resolver(flags: &ProxyFlags) -> Result<(), String> {
    let (prefix, ttl) = (&flags.resolver_prefix, flags.resolver_ttl);
    if !prefix.is_empty() && ttl < 1 {
        return Err(format!("invalid resolver-ttl {ttl}"));
    }
    if prefix.is_empty() && ttl > 0 {
        return Err(format!("invalid resolver-prefix {}", quote(prefix)));
    }
    if !prefix.is_empty() && flags.advertise_client_url.is_empty() {
        return Err(format!("invalid advertise-client-url {}", quote("")));
    }
    Ok(())
}

fn check_tls(flags: &ProxyFlags) -> Result<(), String> {
    if flags.auto_tls && flags.self_signed_cert_validity == 0 {
        return Err("selfSignedCertValidity is invalid,it should be greater than 0".to_owned());
    }
    let versions = flags.versions()?;
    let (min, max) = (&flags.tls_min_version, &flags.tls_max_version);
    if versions.min > versions.max {
        return Err(format!("min version ({min}) is greater than max version ({max})"));
    }
    if versions.min == tls::Version::Tls13 && !flags.listen_cipher_suites.is_empty() {
        return Err("cipher suites cannot be configured when only TLS1.3 is enabled".to_owned());
    }
    flags.tls().map(|_| ())
}
