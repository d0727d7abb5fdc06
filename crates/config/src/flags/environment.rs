//! The environment: `ETCD_` and the name of a flag in capitals.
//!
//! ```text
//!     ETCD_LISTEN_PEER_URLS=http://10.0.0.1:2380     is   --listen-peer-urls http://10.0.0.1:2380
//!     ETCD_NAME=                                     is nothing, and told of as unknown
//!     ETCD_NAME=m1 with --name m2                    cannot be meant: the process ends
//! ```
//!
//! With a configuration file nothing here is asked, except `ETCD_CONFIG_FILE` for where that file is. A value that is no text is refused where
//! it is asked for, and shown as well as it can be where it is only told of.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};

use crate::error::{ConfigError, NO_TEXT};
use crate::flags::{Flag, Flags, by_name};
use crate::notice::Notice;
use gocompat::{quote, quote_bytes};

const PREFIX: &str = "ETCD_";
/// Where a configuration file is.
const CONFIG_FILE: &str = "ETCD_CONFIG_FILE";
/// Would be `--version`, which nobody can mean.
const VERSION: &str = "ETCD_VERSION";
/// The architecture that is known not to be supported, and wanted all the same.
const UNSUPPORTED_ARCH: &str = "ETCD_UNSUPPORTED_ARCH";

/// The variables of the process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    /// A name that is no text is none of ours, so it is kept as something like it.
    variables: Vec<(String, OsString)>,
}

impl Environment {
    pub(crate) fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let named = |(name, value): (OsString, OsString)| (shown(&name), value);
        Self { variables: variables.into_iter().map(named).collect() }
    }

    /// The configuration file that it names.
    pub(crate) fn config_file(&self) -> Result<Option<String>, ConfigError> {
        let path = self.get(CONFIG_FILE).filter(|path| !path.is_empty());
        path.map(|path| text(CONFIG_FILE, path).map(str::to_owned)).transpose()
    }

    /// The architecture that one wants to run on in spite of all; asked once.
    pub(crate) fn take_unsupported_arch(&mut self) -> Option<String> {
        let arch = self.get(UNSUPPORTED_ARCH).map(shown);
        self.remove(UNSUPPORTED_ARCH);
        arch
    }

    /// Puts into `flags` what the command line left open.
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
            // Compat: as in etcd, of several bad values the last is told of.
            if let Err(refusal) = take(flags, &flag, &variable, value, notices) {
                outcome = Err(refusal);
            }
            used.insert(variable);
        }
        self.verify(&typed, &used, notices)?;
        outcome
    }

    /// Tells of variables that look like flags and are none, and stops at one whose flag was typed.
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

/// A value that is a text, as every flag wants it.
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

/// `listen-peer-urls` is `ETCD_LISTEN_PEER_URLS`.
fn variable_of(flag: &str) -> String {
    format!("{PREFIX}{}", flag.replace('-', "_").to_uppercase())
}
