//! The configuration file: YAML, and therefore also JSON.
//!
//! ```text
//!     name: m1
//!     heartbeat-interval: 100                     milliseconds, as the flag
//!     grpc-keepalive-interval: 7200000000000      durations are whole nanoseconds
//!     listen-client-urls: http://10.0.0.7:2379    lists of URLs are one comma-separated text
//!     log-outputs: [stderr, b.log]                other lists are lists
//!     client-transport-security:
//!       cert-file: server.crt                     --cert-file
//! ```
//!
//! A key is the name of a flag, ignoring case; [`keys`] has the exceptions. The file replaces
//! command line and environment. A value of the wrong type is rejected with the text of Go's JSON
//! decoder, which reports the first error in the order of keys. An unknown key is logged and
//! otherwise ignored.

mod decode;
mod keys;
mod scalar;
mod tag;
mod yaml;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};

use serde_json::{Map, Value};

use crate::error::ConfigError;
use crate::flags::Flags;
use crate::flags::value::unique_words;
use crate::json::mismatch;
use crate::notice::Notice;
use crate::url::list::{self, UniqueUrls};
use decode::Decoder;
use gocompat::os_error_text;

/// The maximum size of a configuration file.
const FILE_BYTES_MAX: u64 = 256 * 1024;

/// A rejected configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileError {
    /// Reported like any rejected configuration.
    Rejected(ConfigError),
    /// Printed on standard error only, as in etcd.
    Printed(String),
}

impl From<ConfigError> for FileError {
    fn from(rejection: ConfigError) -> Self {
        Self::Rejected(rejection)
    }
}

/// Reads the flags from a file.
pub(crate) fn read(path: &str, notices: &mut Vec<Notice>) -> Result<Flags, FileError> {
    let keys = parse(&load(path)?)?;
    let mut decoder = Decoder::new(Flags::new());
    decoder.decode(&keys);
    let Decoder { mut flags, error, unknown, texts, .. } = decoder;
    if let Some(text) = error {
        return Err(ConfigError::Type(text).into());
    }
    notices.extend(unknown.into_iter().map(|key| Notice::UnknownKey { key }));
    take_texts(&mut flags, &keys, &texts)?;
    adjust(&mut flags);
    Ok(flags)
}

/// Reads the file, up to [`FILE_BYTES_MAX`].
fn load(path: &str) -> Result<Vec<u8>, ConfigError> {
    let reject = |doing: &str, error: &io::Error| {
        ConfigError::File(format!("{doing} {path}: {}", os_error_text(error)))
    };
    let file = File::open(path).map_err(|error| reject("open", &error))?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| reject("read", &error))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(ConfigError::File(format!("read {path}: larger than {FILE_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

/// Returns the top-level keys; none for an empty file.
fn parse(bytes: &[u8]) -> Result<Map<String, Value>, ConfigError> {
    match yaml::parse(bytes).map_err(ConfigError::Yaml)? {
        Value::Object(keys) => Ok(keys),
        Value::Null => Ok(Map::new()),
        other => Err(ConfigError::Type(mismatch(&other, "value", "embed.configYAML", false))),
    }
}

/// Parses the texts that are lists of URLs or gates, in etcd's order.
fn take_texts(
    flags: &mut Flags,
    keys: &Map<String, Value>,
    texts: &BTreeMap<&'static str, String>,
) -> Result<(), FileError> {
    let text = |key: &str| texts.get(key).filter(|text| !text.is_empty());
    if let Some(text) = text("feature-gates") {
        flags.feature_gates.set(text).map_err(ConfigError::from)?;
    }
    if keys.get("peer-transport-security").is_some_and(Value::is_null) {
        return Err(ConfigError::PeerSecurity.into());
    }
    let lists: [(&str, &str, &mut UniqueUrls); 6] = [
        ("listen-peer-urls", "listen-peer-urls", &mut flags.listen_peer_urls),
        ("listen-client-urls", "listen-client-urls", &mut flags.listen_client_urls),
        ("listen-client-http-urls", "listen-client-http-urls", &mut flags.listen_client_http_urls),
        (
            "initial-advertise-peer-urls",
            "initial-advertise-peer-urls",
            &mut flags.initial_advertise_peer_urls,
        ),
        // Compat: etcd's error text names another key.
        ("advertise-client-urls", "advertise-peer-urls", &mut flags.advertise_client_urls),
        ("listen-metrics-urls", "listen-metrics-urls", &mut flags.listen_metrics_urls),
    ];
    for (key, key_in_error, urls) in lists {
        if let Some(text) = text(key) {
            urls.replace(list::parse(text).map_err(|error| unexpected(key_in_error, &error))?);
        }
    }
    if let Some(text) = text("cors") {
        flags.cors = UniqueUrls::default();
        flags.cors.set(text, "*").map_err(|error| unexpected("cors", &error))?;
    }
    if let Some(text) = text("host-whitelist") {
        flags.host_whitelist = unique_words(text);
    }
    Ok(())
}

fn unexpected(key: &str, error: &crate::url::UrlError) -> FileError {
    FileError::Printed(format!("unexpected error setting up {key}: {error}\n"))
}

/// Applies the defaults that depend on other keys.
fn adjust(flags: &mut Flags) {
    let discovers = !flags.discovery_srv.is_empty() || !flags.discovery_endpoints.is_empty();
    if discovers && flags.initial_cluster == Flags::new().initial_cluster {
        flags.initial_cluster.clear();
    }
    if flags.initial_cluster_state.is_empty() {
        "new".clone_into(&mut flags.initial_cluster_state);
    }
    flags.self_signed_cert_validity = flags.self_signed_cert_validity.max(1);
}
