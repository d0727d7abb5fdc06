//! Decoding the values of a configuration file into flags.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::keys::{Key, Section, top, top_owner};
use crate::flags::{Flag, Flags, Slot};
use crate::json::{as_integer, mismatch};
use gocompat::GoDuration;

/// Collects decoded flags, and the first error.
#[derive(Debug)]
pub(super) struct Decoder {
    /// The flags.
    pub(super) flags: Flags,
    /// The first value of a wrong type.
    pub(super) error: Option<String>,
    /// Unknown keys.
    pub(super) unknown: Vec<String>,
    /// Texts that are parsed later: lists of URLs, gates.
    pub(super) texts: BTreeMap<&'static str, String>,
}

/// The path of a value, as Go's decoder prints it.
#[derive(Clone, Debug)]
struct GoPath {
    /// The innermost Go type.
    owner: &'static str,
    /// The keys on the path.
    path: String,
}

impl GoPath {
    fn under(&self, owner: &'static str, key: &str) -> Self {
        Self { owner, path: format!("{}.{key}", self.path) }
    }

    fn mismatch(&self, value: &Value, expected_type: &str, wants_number: bool) -> String {
        let target = format!("struct field {}.{}", self.owner, self.path);
        mismatch(value, &target, expected_type, wants_number)
    }
}

impl Decoder {
    pub(super) fn new(flags: Flags) -> Self {
        Self { flags, error: None, unknown: Vec::new(), texts: BTreeMap::new() }
    }

    /// Decodes the top-level keys in order.
    pub(super) fn decode(&mut self, keys: &Map<String, Value>) {
        for (key, value) in keys {
            let lower = key.to_ascii_lowercase();
            let go_path =
                GoPath { owner: "configYAML", path: format!("{}.{lower}", top_owner(&lower)) };
            match top(key) {
                Some(found) => self.take(found, value, &go_path, key),
                None => self.unknown.push(key.clone()),
            }
        }
    }

    fn take(&mut self, key: Key, value: &Value, go_path: &GoPath, path: &str) {
        let decoded = match key {
            // Compat: as in etcd, a null value leaves a flag alone, and empties a list.
            Key::Flag(flag) if value.is_null() && !is_list(&flag) => Ok(()),
            Key::Flag(flag) => self.set(&flag, value, go_path),
            Key::Map(_) if value.is_null() => Ok(()),
            Key::Map(section) => self.section(section, value, go_path, path),
            Key::List(field) => list(value, go_path).map(|texts| *field(&mut self.flags) = texts),
            Key::Bool(_) if value.is_null() => Ok(()),
            Key::Bool(field) => boolean(value, go_path).map(|set| *field(&mut self.flags) = set),
            Key::Text(_) | Key::Int(_) if value.is_null() => Ok(()),
            Key::Text(field) => {
                text(value, go_path, "string").map(|text| *field(&mut self.flags) = text)
            }
            Key::Int(field) => {
                number(value, go_path, "int").map(|number| *field(&mut self.flags) = number)
            }
        };
        if let Err(text) = decoded {
            self.error.get_or_insert(text);
        }
    }

    fn section(
        &mut self,
        section: &'static Section,
        value: &Value,
        go_path: &GoPath,
        path: &str,
    ) -> Result<(), String> {
        let Value::Object(keys) = value else {
            return Err(go_path.mismatch(value, section.go_type, false));
        };
        for (key, value) in keys {
            let go_path = go_path.under(section.go_name(), &key.to_ascii_lowercase());
            let path = format!("{path}.{key}");
            match section.find(key) {
                Some(found) => self.take(found, value, &go_path, &path),
                None => self.unknown.push(path),
            }
        }
        Ok(())
    }

    fn set(&mut self, flag: &Flag, value: &Value, go_path: &GoPath) -> Result<(), String> {
        let flags = &mut self.flags;
        match flag.slot {
            Slot::Text(field) | Slot::Choice(_, field) => {
                *field(flags) = text(value, go_path, "string")?;
            }
            Slot::Stages(_, field) => {
                *field(flags) = vec![text(value, go_path, "config.V2DeprecationEnum")?];
            }
            Slot::Bool(field) => *field(flags) = boolean(value, go_path)?,
            Slot::Uint(field) => *field(flags) = number(value, go_path, "uint")?,
            Slot::Uint64(field) => *field(flags) = number(value, go_path, "uint64")?,
            Slot::Uint32(field) => *field(flags) = number(value, go_path, "uint32")?,
            Slot::Int(field) => *field(flags) = number(value, go_path, "int")?,
            Slot::Int64(field) => *field(flags) = number(value, go_path, "int64")?,
            Slot::Duration(field) => {
                *field(flags) = GoDuration::from_nanos(number(value, go_path, "time.Duration")?);
            }
            Slot::Words(field) | Slot::List(field) if is_list(flag) => {
                *field(flags) = list(value, go_path)?;
            }
            Slot::Words(_) | Slot::List(_) | Slot::Urls(..) | Slot::Gates(_) => {
                self.texts.insert(flag.name, text(value, go_path, "string")?);
            }
            Slot::Ignored => {}
        }
        self.flags.given.insert(flag.name);
        Ok(())
    }
}

/// Returns whether the file has a list for the flag. One list flag is a comma-separated text
/// instead.
fn is_list(flag: &Flag) -> bool {
    matches!(flag.slot, Slot::Words(_) | Slot::List(_)) && flag.name != "host-whitelist"
}

fn text(value: &Value, go_path: &GoPath, expected_type: &str) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        other => Err(go_path.mismatch(other, expected_type, false)),
    }
}

fn boolean(value: &Value, go_path: &GoPath) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| go_path.mismatch(value, "bool", false))
}

fn number<T: TryFrom<i128>>(
    value: &Value,
    go_path: &GoPath,
    expected_type: &str,
) -> Result<T, String> {
    let number = as_integer(value).and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| go_path.mismatch(value, expected_type, true))
}

fn list(value: &Value, go_path: &GoPath) -> Result<Vec<String>, String> {
    let element = |value: &Value| match value {
        Value::Null => Ok(String::new()),
        other => text(other, go_path, "string"),
    };
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(values) => values.iter().map(element).collect(),
        other => Err(go_path.mismatch(other, "[]string", false)),
    }
}
