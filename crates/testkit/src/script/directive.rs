//! The directive line: a command, then arguments in three forms.
//!
//! ```text
//! deliver-msgs 1 type=MsgApp drop=(2, 3)
//!              │ └ one value └ many values
//!              └ none
//! ```
//!
//! The grammar is the Go library's, without additions, so that both read a file the same way.
//! Corner cases: `key=` and `key=()` hold one empty value; spaces after a comma are skipped, other
//! spaces are part of the value; an argument may directly follow a closing parenthesis.

use super::{Arg, Reason};

/// A command and its arguments.
#[derive(Debug, PartialEq)]
pub(super) struct Directive {
    pub(super) cmd: String,
    pub(super) args: Vec<Arg>,
}

/// Parses a line that is neither blank nor a comment, continuation lines already joined.
pub(super) fn parse(line: &str) -> Result<Directive, Reason> {
    let (cmd, mut rest) = split_at_any(line.trim(), &[' ']);
    let mut args = Vec::new();
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return Ok(Directive { cmd: cmd.to_owned(), args });
        }
        let (arg, after) = argument(rest)?;
        args.push(arg);
        rest = after;
    }
}

/// Takes one argument off the front of `text`, which does not begin with a space.
fn argument(text: &str) -> Result<(Arg, &str), Reason> {
    let (key, rest) = split_at_any(text, &[' ', '=']);
    if key.is_empty() {
        return Err(Reason::NoKey { found: text.to_owned() });
    }
    let (vals, rest) = match rest.strip_prefix('=') {
        None => (Vec::new(), rest),
        Some(list) if list.starts_with('(') => {
            values(list).ok_or_else(|| Reason::OpenParenthesis { found: text.to_owned() })?
        }
        Some(value) => {
            let (value, rest) = split_at_any(value, &[' ']);
            (vec![value.to_owned()], rest)
        }
    };
    Ok((Arg { key: key.to_owned(), vals }, rest))
}

/// Takes `(a, b)` off the front of `text`; none if its parenthesis is never closed.
fn values(text: &str) -> Option<(Vec<String>, &str)> {
    let mut vals = Vec::new();
    let mut depth = 0;
    let mut start = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' => {
                depth += 1;
                if depth == 1 {
                    start = at + 1;
                }
            }
            ')' => {
                depth -= 1;
                if depth == 0 {
                    vals.push(text[start..at].to_owned());
                    return Some((vals, &text[at + 1..]));
                }
            }
            ',' if depth == 1 => {
                vals.push(text[start..at].to_owned());
                let after = &text[at + 1..];
                start = text.len() - after.trim_start_matches(' ').len();
            }
            _ => {}
        }
    }
    None
}

fn split_at_any<'a>(text: &'a str, ends: &[char]) -> (&'a str, &'a str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Vec<(String, Vec<String>)> {
        parse(line).unwrap().args.into_iter().map(|a| (a.key, a.vals)).collect()
    }

    fn arg(key: &str, vals: &[&str]) -> (String, Vec<String>) {
        (key.to_owned(), vals.iter().map(|&v| v.to_owned()).collect())
    }

    #[test]
    fn a_command_may_have_no_arguments() {
        assert_eq!(
            parse("stabilize").unwrap(),
            Directive { cmd: "stabilize".into(), args: vec![] }
        );
    }

    #[test]
    fn the_three_forms_of_an_argument() {
        assert_eq!(
            args("deliver-msgs 1 type=MsgApp drop=(2, 3)"),
            [arg("1", &[]), arg("type", &["MsgApp"]), arg("drop", &["2", "3"])]
        );
    }

    #[test]
    fn quotes_are_ordinary_characters() {
        assert_eq!(args(r#"propose 1 "foo""#), [arg("1", &[]), arg(r#""foo""#, &[])]);
        assert_eq!(args(r#"propose "a b""#), [arg(r#""a"#, &[]), arg(r#"b""#, &[])]);
    }

    #[test]
    fn values_may_hold_parentheses_and_spaces() {
        assert_eq!(args("c exprs=(a + (b, c), d  )"), [arg("exprs", &["a + (b, c)", "d  "])]);
        assert_eq!(args("c voters=(1 2 3)"), [arg("voters", &["1 2 3"])]);
    }

    #[test]
    fn a_value_may_hold_an_equals_sign_and_be_empty() {
        assert_eq!(args("c a=b=c d= e"), [arg("a", &["b=c"]), arg("d", &[""]), arg("e", &[])]);
        assert_eq!(args("c a=() b=(,)"), [arg("a", &[""]), arg("b", &["", ""])]);
    }

    #[test]
    fn an_argument_may_follow_a_parenthesis_directly() {
        assert_eq!(args("c a=(1)b=2"), [arg("a", &["1"]), arg("b", &["2"])]);
    }

    #[test]
    fn non_ascii_characters_are_kept() {
        assert_eq!(args("c naïve=(é, ü)"), [arg("naïve", &["é", "ü"])]);
    }

    #[test]
    fn an_argument_needs_a_key() {
        assert_eq!(parse("c a =b").unwrap_err(), Reason::NoKey { found: "=b".into() });
    }

    #[test]
    fn a_parenthesis_must_be_closed() {
        let reason = Reason::OpenParenthesis { found: "a=(1, (2)".into() };
        assert_eq!(parse("c a=(1, (2)").unwrap_err(), reason);
    }
}
