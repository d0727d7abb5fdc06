//! A command of a script, with typed access to its arguments.
//!
//! A malformed case is a broken test, not a result. The typed getters therefore panic with its
//! location:
//! `testdata/vote.txt:12: vote cfg=(1, x): value "x" of "cfg": invalid digit found in string`.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

/// A command of a script with its expected output.
#[derive(Clone, Debug)]
pub struct Case {
    /// Path of the script.
    pub file: Arc<str>,
    /// Line of the directive, counted from 1.
    pub line: usize,
    /// First word of the directive.
    pub cmd: String,
    /// Arguments of the directive, in order.
    pub args: Vec<Arg>,
    /// Lines between the directive and `----`, trimmed.
    pub input: String,
    /// Expected output: empty, or lines that each end in a newline.
    pub expected: String,
    /// Position of the expected output in the script, including doubled separators.
    pub(super) output: Range<usize>,
}

/// An argument of a directive: `key`, `key=value` or `key=(value, value)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arg {
    /// Name.
    pub key: String,
    /// Values, as written.
    pub vals: Vec<String>,
}

impl Case {
    /// Returns the first argument with this key.
    pub fn arg(&self, key: &str) -> Option<&Arg> {
        self.args.iter().find(|arg| arg.key == key)
    }

    /// Returns whether `key` or `key=true` is given. Absent and `key=false` both mean no.
    pub fn flag(&self, key: &str) -> bool {
        match self.arg(key) {
            None => false,
            Some(arg) if arg.vals.is_empty() => true,
            Some(_) => self.value(key).unwrap_or_default(),
        }
    }

    /// Returns the single value of `key`, if `key` is given.
    pub fn value<T>(&self, key: &str) -> Option<T>
    where
        T: FromStr<Err: fmt::Display>,
    {
        let arg = self.arg(key)?;
        match arg.vals.as_slice() {
            [value] => Some(self.read(key, value)),
            vals => self.fail(format_args!("\"{key}\" takes one value, not {}", vals.len())),
        }
    }

    /// Returns all values of `key`: none if it is absent or `key=()`.
    pub fn values<T>(&self, key: &str) -> Vec<T>
    where
        T: FromStr<Err: fmt::Display>,
    {
        let vals = self.arg(key).map_or(&[][..], |arg| &arg.vals);
        match vals {
            [empty] if empty.is_empty() => Vec::new(),
            vals => vals.iter().map(|value| self.read(key, value)).collect(),
        }
    }

    /// Returns the key of the argument at `index`: `position::<u64>(0)` of `campaign 3` is 3.
    pub fn position<T>(&self, index: usize) -> T
    where
        T: FromStr<Err: fmt::Display>,
    {
        match self.args.get(index) {
            Some(arg) => self.read("the directive", &arg.key),
            None => self.fail(format_args!("argument {} is missing", index + 1)),
        }
    }

    /// Returns the keys of all arguments without values: 1 and 4 for `stabilize 1 4
    /// log-level=debug`.
    pub fn bare<T>(&self) -> Vec<T>
    where
        T: FromStr<Err: fmt::Display>,
    {
        let bare = self.args.iter().filter(|arg| arg.vals.is_empty());
        bare.map(|arg| self.read("the directive", &arg.key)).collect()
    }

    /// Panics if an argument with values has another key, so that a misspelt one is not ignored.
    pub fn allow(&self, keys: &[&str]) {
        let odd = |arg: &&Arg| !arg.vals.is_empty() && !keys.contains(&arg.key.as_str());
        if let Some(arg) = self.args.iter().find(odd) {
            self.fail(format_args!("unknown key \"{}\", expected one of {keys:?}", arg.key));
        }
    }

    /// Returns the location of the case as `file:line`.
    pub fn at(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }

    /// Panics with location, directive and reason.
    pub fn fail(&self, reason: impl fmt::Display) -> ! {
        panic!("{}: {self}: {reason}", self.at())
    }

    fn read<T>(&self, of: &str, value: &str) -> T
    where
        T: FromStr<Err: fmt::Display>,
    {
        match value.trim().parse() {
            Ok(value) => value,
            Err(error) => self.fail(format_args!("value \"{value}\" of \"{of}\": {error}")),
        }
    }
}

/// Writes the directive on one line.
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cmd)?;
        self.args.iter().try_for_each(|arg| write!(f, " {arg}"))
    }
}

impl fmt::Display for Arg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.vals.as_slice() {
            [] => f.write_str(&self.key),
            [value] => write!(f, "{}={value}", self.key),
            vals => write!(f, "{}=({})", self.key, vals.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Script;
    use super::*;

    fn case(directive: &str) -> Case {
        Script::parse(&format!("{directive}\n----\n")).unwrap().cases()[0].clone()
    }

    #[test]
    fn typed_values_are_read() {
        let case = case("add-nodes 3 4 voters=(1, 2,3) learners=() index=10 content=foo");
        assert_eq!(case.position::<usize>(0), 3);
        assert_eq!(case.bare::<u64>(), [3, 4]);
        assert_eq!(case.values::<u64>("voters"), [1, 2, 3]);
        assert_eq!(case.values::<u64>("learners"), []);
        assert_eq!(case.values::<u64>("absent"), []);
        assert_eq!(case.value::<u64>("index"), Some(10));
        assert_eq!(case.value::<String>("content").as_deref(), Some("foo"));
        assert_eq!(case.value::<u64>("absent"), None);
    }

    #[test]
    fn a_flag_is_bare_or_explicit() {
        let case = case("c yes on=true off=false");
        assert!(case.flag("yes") && case.flag("on"));
        assert!(!case.flag("off") && !case.flag("absent"));
    }

    #[test]
    fn a_case_is_displayed_as_its_directive() {
        assert_eq!(case("c  1 a=2   b=(3,4)").to_string(), "c 1 a=2 b=(3, 4)");
    }

    #[test]
    fn known_keys_are_allowed() {
        case("c 1 voters=(1)").allow(&["voters"]);
    }

    #[test]
    #[should_panic(
        expected = r#"script:1: c votes=y: unknown key "votes", expected one of ["voters"]"#
    )]
    fn an_unknown_key_panics() {
        case("c votes=y").allow(&["voters"]);
    }

    #[test]
    #[should_panic(expected = r#"script:1: vote cfg=(1, x): value "x" of "cfg": invalid digit"#)]
    fn a_value_of_the_wrong_type_panics_with_its_location() {
        case("vote cfg=(1, x)").values::<u64>("cfg");
    }

    #[test]
    #[should_panic(expected = r#"script:1: c a=(1, 2): "a" takes one value, not 2"#)]
    fn a_list_is_not_a_single_value() {
        case("c a=(1,2)").value::<u64>("a");
    }

    #[test]
    #[should_panic(expected = "script:1: campaign: argument 1 is missing")]
    fn a_missing_position_panics_with_its_location() {
        case("campaign").position::<u64>(0);
    }
}
