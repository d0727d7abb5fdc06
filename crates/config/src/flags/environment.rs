//! Environment variables: `ETCD_` and the name of a flag in capitals.
//!
//! ```text
//!     ETCD_LISTEN_PEER_URLS=http://10.0.0.1:2380     --listen-peer-urls http://10.0.0.1:2380
//!     ETCD_NAME=                                     ignored, and logged as unrecognized
//!     ETCD_NAME=m1 with --name m2                    a conflict: the process ends
//! ```
//!
//! With a configuration file, only `ETCD_CONFIG_FILE` is read. A value that is not UTF-8 is
//! rejected if a flag needs it, and printed lossily in log lines.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};

use crate::error::{ConfigError, NO_TEXT};
use crate::flags::{Flag, Flags, by_name};
use crate::notice::Notice;
use gocompat::{quote, quote_bytes};

const PREFIX: &str = "ETCD_";
/// The path of the configuration file.
const CONFIG_FILE: &str = "ETCD_CONFIG_FILE";
/// Would be `--version`; ignored with a warning.
const VERSION: &str = "ETCD_VERSION";
/// The unsupported architecture that the operator wants to run on anyway.
const UNSUPPORTED_ARCH: &str = "ETCD_UNSUPPORTED_ARCH";

/// The environment variables of the process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    /// Names are converted lossily: one that is not UTF-8 is never a flag.
    variables: Vec<(String, OsString)>,
}

impl Environment {
    pub(crate) fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let named = |(name, value): (OsString, OsString)| (shown(&name), value);
        Self { variables: variables.into_iter().map(named).collect() }
    }

    /// Returns the path of the configuration file.
    pub(crate) fn config_file(&self) -> Result<Option<String>, ConfigError> {
        let path = self.get(CONFIG_FILE).filter(|path| !path.is_empty());
        path.map(|path| text(CONFIG_FILE, path).map(str::to_owned)).transpose()
    }

    /// Returns and removes the unsupported architecture to run on.
    pub(crate) fn take_unsupported_arch(&mut self) -> Option<String> {
        let arch = self.get(UNSUPPORTED_ARCH).map(shown);
        self.remove(UNSUPPORTED_ARCH);
        arch
    }

    /// Sets the flags that the command line did not.
    pub(crate) fn read(
        mut self,
        flags: &mut Flags,
        notices: &mut Vec<Notice>,
    ) -> Result<(), ConfigError> {
        self.drop_version(notices);
        let typed: BTreeSet<String> = flags.given.iter().map(|name| variable_of(name)).collect();
        let mut used = BTreeSet::new();
        let mut outcome = Ok(());
        for flag in by_name() {
            let variable = variable_of(flag.name);
            let value =
                self.get(&variable).filter(|value| !value.is_empty() && !typed.contains(&variable));
            let Some(value) = value else { continue };
            // Compat: as in etcd, the last of several errors is reported.
            if let Err(rejection) = take(flags, &flag, &variable, value, notices) {
                outcome = Err(rejection);
            }
            used.insert(variable);
        }
        self.verify(&typed, &used, notices)?;
        outcome
    }

    /// Notes unknown variables with the prefix, and rejects a variable whose flag was given.
    fn verify(
        &self,
        typed: &BTreeSet<String>,
        used: &BTreeSet<String>,
        notices: &mut Vec<Notice>,
    ) -> Result<(), ConfigError> {
        for (name, value) in self.variables.iter().filter(|(name, _)| !used.contains(name)) {
            if typed.contains(name) {
                return Err(ConfigError::Shadowed(name.clone()));
            }
            if name.starts_with(PREFIX) {
                notices.push(Notice::UnknownVariable {
                    variable: format!("{name}={}", value.display()),
                });
            }
        }
        Ok(())
    }

    fn drop_version(&mut self, notices: &mut Vec<Notice>) {
        if let Some(value) = self.get(VERSION).filter(|value| !value.is_empty()) {
            notices.push(Notice::SpecialVariable { key: VERSION.to_owned(), value: shown(value) });
            self.remove(VERSION);
        }
    }

    fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_os_str())
    }

    fn remove(&mut self, name: &str) {
        self.variables.retain(|(known, _)| known != name);
    }
}

fn take(
    flags: &mut Flags,
    flag: &Flag,
    variable: &str,
    value: &OsStr,
    notices: &mut Vec<Notice>,
) -> Result<(), ConfigError> {
    let value = text(variable, value)?;
    flags.set(flag, value).map_err(|reason| ConfigError::Variable {
        value: quote(value),
        variable: variable.to_owned(),
        reason,
    })?;
    notices.push(Notice::VariableUsed { name: variable.to_owned(), value: value.to_owned() });
    Ok(())
}

/// Returns a value as text, or an error if it is not UTF-8.
fn text<'a>(variable: &str, value: &'a OsStr) -> Result<&'a str, ConfigError> {
    value.to_str().ok_or_else(|| ConfigError::Variable {
        value: quote_bytes(value.as_encoded_bytes()),
        variable: variable.to_owned(),
        reason: NO_TEXT.to_owned(),
    })
}

fn shown(name: impl AsRef<OsStr>) -> String {
    name.as_ref().to_string_lossy().into_owned()
}

/// Returns the variable of a flag: `ETCD_LISTEN_PEER_URLS` for `listen-peer-urls`.
fn variable_of(flag: &str) -> String {
    format!("{PREFIX}{}", flag.replace('-', "_").to_uppercase())
}
