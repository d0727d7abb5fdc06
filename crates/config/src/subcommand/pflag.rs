//! Parsing of a command line as cobra and pflag do.
//!
//! ```text
//!     --endpoints a:1 --endpoints=b:1     a value follows a space or `=`; lists add up
//!     --insecure-discovery                a boolean takes a value only with `=`
//!     -h                                  the only short flag
//!     --                                  ends the flags
//! ```
//!
//! Arguments that are not flags are ignored: cobra passes them to the verb, which has no use for
//! them.

use gocompat::{GoDuration, NumberError, parse_bool, parse_int, parse_uint, quote, quote_char};

use super::table::{Flag, Slot, Verb};

/// The name of the only verb.
const VERB: &str = "start";

/// The result of parsing a command line.
pub(crate) enum Read<F> {
    Flags(F),
    Help,
}

/// Removes the verb from the arguments; none if they do not contain it.
///
/// Compat: as in cobra, a flag without `=` before the verb takes the next argument along, whatever
/// its type.
pub(crate) fn take_verb(args: &[String]) -> Option<Vec<String>> {
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        let takes_next = !arg.contains('=') && (arg.starts_with("--") || arg.len() == 2);
        match arg.as_str() {
            "--" => return None,
            arg if arg.starts_with('-') => at += if takes_next { 2 } else { 1 },
            "" => at += 1,
            VERB => {
                let mut rest = args.to_vec();
                rest.remove(at);
                return Some(rest);
            }
            _ => return None,
        }
    }
    None
}

/// Parses the flags of a verb. An error is cobra's text.
pub(crate) fn read<F: Verb>(args: &[String]) -> Result<Read<F>, String> {
    let mut parser = Parser { flags: defaults::<F>(), changed: Vec::new(), help: false };
    parser.run(args)?;
    Ok(if parser.help { Read::Help } else { Read::Flags(parser.flags) })
}

/// Parses the flags of a group, which only has `help`.
pub(crate) fn read_help(args: &[String]) -> Result<(), String> {
    let mut parser = Parser { flags: GroupFlags, changed: Vec::new(), help: false };
    parser.run(args)
}

/// Returns flags with their defaults.
fn defaults<F: Verb>() -> F {
    let mut flags = F::default();
    for flag in F::FLAGS.iter().filter(|flag| !flag.default.is_empty()) {
        assign(&mut flags, flag, flag.default, true).expect("the defaults in the table parse");
    }
    flags
}

/// The flags of a group.
#[derive(Default)]
struct GroupFlags;

impl Verb for GroupFlags {
    const GROUP: &'static str = "";
    const SHORT: &'static str = "";
    const FLAGS: &'static [Flag<GroupFlags>] = &[];
}

struct Parser<F> {
    flags: F,
    /// The lists that were given, whose defaults are replaced.
    changed: Vec<&'static str>,
    help: bool,
}

impl<F: Verb> Parser<F> {
    fn run(&mut self, args: &[String]) -> Result<(), String> {
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            match arg.strip_prefix("--") {
                Some("") => return Ok(()),
                Some(long) => self.long(arg, long, &mut rest)?,
                None if arg.len() > 1 && arg.starts_with('-') => self.short(&arg[1..])?,
                None => {}
            }
        }
        Ok(())
    }

    fn long<'a>(
        &mut self,
        arg: &str,
        long: &'a str,
        rest: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), String> {
        if long.starts_with(['-', '=']) {
            return Err(format!("bad flag syntax: {arg}"));
        }
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        };
        if name == "help" {
            return self.set_help(value.unwrap_or("true"));
        }
        let flag = F::FLAGS.iter().find(|flag| flag.name == name);
        let flag = flag.ok_or_else(|| format!("unknown flag: --{name}"))?;
        let value = match (&flag.slot, value) {
            (_, Some(value)) => value,
            (Slot::Bool(_), None) => "true",
            (_, None) => rest.next().ok_or_else(|| format!("flag needs an argument: --{name}"))?,
        };
        self.set(flag, value)
    }

    /// Parses short flags: `-h`, `-hh` or `-h=true`.
    fn short(&mut self, letters: &str) -> Result<(), String> {
        let mut rest = letters;
        while let Some(letter) = rest.chars().next() {
            if letter != 'h' {
                let letter = quote_char(letter);
                return Err(format!("unknown shorthand flag: {letter} in -{rest}"));
            }
            rest = &rest[1..];
            if let Some(value) = rest.strip_prefix('=').filter(|value| !value.is_empty()) {
                return self.set_help(value);
            }
            self.help = true;
        }
        Ok(())
    }

    fn set_help(&mut self, value: &str) -> Result<(), String> {
        self.help = boolean(value).map_err(|reason| invalid(value, "-h, --help", &reason))?;
        Ok(())
    }

    fn set(&mut self, flag: &'static Flag<F>, value: &str) -> Result<(), String> {
        let first = !self.changed.contains(&flag.name);
        assign(&mut self.flags, flag, value, first)
            .map_err(|reason| invalid(value, &format!("--{}", flag.name), &reason))?;
        self.changed.push(flag.name);
        Ok(())
    }
}

fn invalid(value: &str, name: &str, reason: &str) -> String {
    format!("invalid argument {} for \"{name}\" flag: {reason}", quote(value))
}

/// Sets a flag. `first`: a list is replaced instead of extended.
fn assign<F>(flags: &mut F, flag: &Flag<F>, text: &str, first: bool) -> Result<(), String> {
    match flag.slot {
        Slot::Text(field) => text.clone_into(field(flags)),
        Slot::Bool(field) => *field(flags) = boolean(text)?,
        Slot::Int(field) => *field(flags) = parse_int(text).map_err(number("ParseInt", text))?,
        Slot::Uint(field) => {
            *field(flags) = parse_uint(text, 64).map_err(number("ParseUint", text))?;
        }
        Slot::Uint32(field) => {
            let value = parse_uint(text, 32).map_err(number("ParseUint", text))?;
            *field(flags) =
                u32::try_from(value).map_err(|_| number("ParseUint", text)(NumberError::Range))?;
        }
        Slot::Duration(field) => {
            *field(flags) = GoDuration::parse(text).map_err(|error| error.to_string())?;
        }
        Slot::Strings(field) => {
            let list = values(text)?;
            let field = field(flags);
            if first {
                field.clear();
            }
            field.extend(list);
        }
    }
    Ok(())
}

fn boolean(text: &str) -> Result<bool, String> {
    let failed = || format!("strconv.ParseBool: parsing {}: invalid syntax", quote(text));
    parse_bool(text).ok_or_else(failed)
}

fn number(function: &str, text: &str) -> impl Fn(NumberError) -> String {
    move |error| format!("strconv.{function}: parsing {}: {}", quote(text), error.strconv_text())
}

/// Splits a line of comma-separated values, as Go's `encoding/csv` reads it.
fn values(line: &str) -> Result<Vec<String>, String> {
    if line.is_empty() {
        return Ok(Vec::new());
    }
    let failed = |at: usize, what: &str| format!("parse error on line 1, column {at}: {what}");
    let (mut values, mut at) = (Vec::new(), 0);
    loop {
        let rest = &line[at..];
        let (value, length) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let (value, length) = quoted_value(quoted)
                    .map_err(|stray| failed(at + 1 + stray + 1, EXTRANEOUS_QUOTE))?;
                (value, length + 1)
            }
            None => {
                let value = &rest[..rest.find(',').unwrap_or(rest.len())];
                if let Some(bare) = value.find('"') {
                    return Err(failed(at + bare + 1, "bare \" in non-quoted-field"));
                }
                (value.to_owned(), value.len())
            }
        };
        values.push(value);
        at += length;
        if at >= line.len() {
            return Ok(values);
        }
        // A comma follows every value but the last.
        at += 1;
    }
}

const EXTRANEOUS_QUOTE: &str = "extraneous or missing \" in quoted-field";

/// Reads a value up to its closing quote. Returns it with its length; or the position of an error.
fn quoted_value(text: &str) -> Result<(String, usize), usize> {
    let (mut value, mut at) = (String::new(), 0);
    loop {
        let quote = at + text[at..].find('"').ok_or(text.len())?;
        value += &text[at..quote];
        let after = &text[quote + 1..];
        if after.starts_with('"') {
            value.push('"');
            at = quote + 2;
        } else if after.is_empty() || after.starts_with(',') {
            return Ok((value, quote + 1));
        } else {
            return Err(quote);
        }
    }
}
