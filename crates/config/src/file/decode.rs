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
struct Place {
    /// The innermost Go type.
    owner: &'static str,
    /// The keys on the path.
    path: String,
}

impl Place {
    fn under(&self, owner: &'static str, key: &str) -> Self {
        Self { owner, path: format!("{}.{key}", self.path) }
    }

    fn mismatch(&self, value: &Value, wanted: &str, wants_number: bool) -> String {
        let place = format!("struct field {}.{}", self.owner, self.path);
        mismatch(value, &place, wanted, wants_number)
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
            let place =
                Place { owner: "configYAML", path: format!("{}.{lower}", top_owner(&lower)) };
            match top(key) {
                Some(found) => self.take(found, value, &place, key),
                None => self.unknown.push(key.clone()),
            }
        }
    }

    fn take(&mut self, key: Key, value: &Value, place: &Place, path: &str) {
        let taken = match key {
            // Compat: as in etcd, a null value leaves a flag alone, and empties a list.
            Key::Flag(flag) if value.is_null() && !is_list(&flag) => Ok(()),
            Key::Flag(flag) => self.set(&flag, value, place),
            Key::Map(_) if value.is_null() => Ok(()),
            Key::Map(section) => self.section(section, value, place, path),
            Key::List(field) => list(value, place).map(|texts| *field(&mut self.flags) = texts),
            Key::Bool(_) if value.is_null() => Ok(()),
            Key::Bool(field) => boolean(value, place).map(|set| *field(&mut self.flags) = set),
            Key::Text(_) | Key::Int(_) if value.is_null() => Ok(()),
            Key::Text(field) => {
                text(value, place, "string").map(|text| *field(&mut self.flags) = text)
            }
            Key::Int(field) => {
                number(value, place, "int").map(|number| *field(&mut self.flags) = number)
            }
        };
        if let Err(text) = taken {
            self.error.get_or_insert(text);
        }
    }

    fn section(
        &mut self,
        section: &'static Section,
        value: &Value,
        place: &Place,
        path: &str,
    ) -> Result<(), String> {
        let Value::Object(keys) = value else {
            return Err(place.mismatch(value, section.go_type, false));
        };
        for (key, value) in keys {
            let place = place.under(section.go_name(), &key.to_ascii_lowercase());
            let path = format!("{path}.{key}");
            match section.find(key) {
                Some(found) => self.take(found, value, &place, &path),
                None => self.unknown.push(path),
            }
        }
        Ok(())
    }

    fn set(&mut self, flag: &Flag, value: &Value, place: &Place) -> Result<(), String> {
        let flags = &mut self.flags;
        match flag.slot {
            Slot::Text(field) | Slot::Choice(_, field) => {
                *field(flags) = text(value, place, "string")?;
            }
            Slot::Stages(_, field) => {
                *field(flags) = vec![text(value, place, "config.V2DeprecationEnum")?];
            }
            Slot::Bool(field) => *field(flags) = boolean(value, place)?,
            Slot::Uint(field) => *field(flags) = number(value, place, "uint")?,
            Slot::Uint64(field) => *field(flags) = number(value, place, "uint64")?,
            Slot::Uint32(field) => *field(flags) = number(value, place, "uint32")?,
            Slot::Int(field) => *field(flags) = number(value, place, "int")?,
            Slot::Int64(field) => *field(flags) = number(value, place, "int64")?,
            Slot::Duration(field) => {
                *field(flags) = GoDuration::from_nanos(number(value, place, "time.Duration")?);
            }
            Slot::Words(field) | Slot::List(field) if is_list(flag) => {
                *field(flags) = list(value, place)?;
            }
            Slot::Words(_) | Slot::List(_) | Slot::Urls(..) | Slot::Gates(_) => {
                self.texts.insert(flag.name, text(value, place, "string")?);
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

fn text(value: &Value, place: &Place, wanted: &str) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        other => Err(place.mismatch(other, wanted, false)),
    }
}

fn boolean(value: &Value, place: &Place) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| place.mismatch(value, "bool", false))
}

fn number<T: TryFrom<i128>>(value: &Value, place: &Place, wanted: &str) -> Result<T, String> {
    let number = as_integer(value).and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| place.mismatch(value, wanted, true))
}

fn list(value: &Value, place: &Place) -> Result<Vec<String>, String> {
    let element = |value: &Value| match value {
        Value::Null => Ok(String::new()),
        other => text(other, place, "string"),
    };
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(values) => values.iter().map(element).collect(),
        other => Err(place.mismatch(other, "[]string", false)),
    }
}
