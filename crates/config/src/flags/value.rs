//! Parsing the values of flags.

use crate::flags::{Flag, Flags, Slot};
use gocompat::{GoDuration, NumberError, parse_bool, parse_int, parse_uint, quote};

impl Slot {
    /// Returns whether the flag may be given without a value.
    pub(crate) fn is_bool(self) -> bool {
        matches!(self, Self::Bool(_) | Self::Ignored)
    }
}

impl Flags {
    /// Sets a flag. Errors have Go's or etcd's text.
    pub(crate) fn set(&mut self, flag: &Flag, text: &str) -> Result<(), String> {
        self.assign(flag.slot, text)?;
        self.given.insert(flag.name);
        Ok(())
    }

    fn assign(&mut self, slot: Slot, text: &str) -> Result<(), String> {
        match slot {
            Slot::Text(field) => text.clone_into(field(self)),
            Slot::Bool(field) => *field(self) = parse_bool(text).ok_or("parse error")?,
            Slot::Uint(field) | Slot::Uint64(field) => {
                *field(self) = parse_uint(text, 64).map_err(flag_text)?;
            }
            Slot::Uint32(field) => *field(self) = parse_uint32(text)?,
            Slot::Int(field) | Slot::Int64(field) => {
                *field(self) = parse_int(text).map_err(flag_text)?;
            }
            Slot::Duration(field) => {
                *field(self) = GoDuration::parse(text).map_err(|_| "parse error")?;
            }
            Slot::Urls(allowed, field) => {
                field(self).set(text, allowed).map_err(|error| error.to_string())?;
            }
            Slot::Words(field) => *field(self) = unique_words(text),
            Slot::List(field) => *field(self) = words(text),
            Slot::Choice(choices, field) => *field(self) = choose(text, choices)?,
            Slot::Stages(stages, field) => add_stages(field(self), text, stages)?,
            Slot::Gates(field) => field(self).set(text).map_err(|error| error.to_string())?,
            Slot::Ignored => {}
        }
        Ok(())
    }
}

/// Splits a text at commas.
fn words(text: &str) -> Vec<String> {
    text.split(',').map(str::to_owned).collect()
}

/// Splits a text at commas, sorts the parts and removes duplicates.
pub(crate) fn unique_words(text: &str) -> Vec<String> {
    let mut words = words(text);
    words.sort();
    words.dedup();
    words
}

fn parse_uint32(text: &str) -> Result<u32, String> {
    let reject = |error: NumberError| {
        format!("strconv.ParseUint: parsing {}: {}", quote(text), error.strconv_text())
    };
    let value = parse_uint(text, 32).map_err(reject)?;
    u32::try_from(value).map_err(|_| reject(NumberError::Range))
}

fn choose(text: &str, choices: &[&str]) -> Result<String, String> {
    if choices.contains(&text) { Ok(text.to_owned()) } else { Err("invalid value".to_owned()) }
}

fn add_stages(stages: &mut Vec<String>, text: &str, known: &[&str]) -> Result<(), String> {
    for stage in text.split(',') {
        if !known.contains(&stage) {
            return Err(format!("invalid value {}", quote(stage)));
        }
        stages.push(stage.to_owned());
    }
    stages.sort();
    Ok(())
}

fn flag_text(error: NumberError) -> &'static str {
    error.flag_text()
}
