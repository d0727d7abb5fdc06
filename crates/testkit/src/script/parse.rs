//! Parses a script into cases, with the position of each expected output, so that it can be
//! replaced.

use std::ops::Range;
use std::sync::Arc;

use thiserror::Error;

use super::Case;
use super::directive::{self, Directive};

/// The line between a command and its output.
pub(super) const SEPARATOR: &str = "----";

/// A script: its text, and the cases found in it.
#[derive(Debug)]
pub struct Script {
    pub(super) text: String,
    pub(super) cases: Vec<Case>,
}

/// A script that does not follow the format.
#[derive(Debug, Error, PartialEq)]
#[error("line {line}: {reason}")]
pub struct ParseError {
    /// Line of the malformed case's directive, counted from 1.
    pub line: usize,
    /// Reason.
    pub reason: Reason,
}

/// The ways in which a case can be malformed.
#[derive(Debug, Error, PartialEq)]
#[expect(missing_docs, reason = "the error texts document the variants")]
pub enum Reason {
    #[error("an argument without a key: {found}")]
    NoKey { found: String },
    #[error("a parenthesis that is never closed: {found}")]
    OpenParenthesis { found: String },
    #[error("no ---- follows this directive")]
    NoSeparator,
    #[error("the output begins with two ---- lines but does not end with two")]
    OpenOutput,
    #[error("a blank line must follow the two ---- that end the output")]
    TextAfterOutput,
}

impl Script {
    /// Parses a script whose cases report `script` as their file.
    pub fn parse(text: &str) -> Result<Script, ParseError> {
        Script::parse_as("script", text)
    }

    /// Parses a script whose cases report `name` as their file.
    pub fn parse_as(name: &str, text: &str) -> Result<Script, ParseError> {
        let file: Arc<str> = name.into();
        let mut lines = Lines { text, start: 0, number: 0 };
        let mut cases = Vec::new();
        while let Some(first) = lines.next() {
            let line = lines.number;
            let failed = |reason| ParseError { line, reason };
            let Some(directive) = directive_at(first, &mut lines).map_err(failed)? else {
                continue;
            };
            if directive.cmd == "subtest" {
                continue;
            }
            let input = take_input(&mut lines).map_err(failed)?;
            let (expected, output) = take_output(&mut lines).map_err(failed)?;
            let Directive { cmd, args } = directive;
            cases.push(Case { file: file.clone(), line, cmd, args, input, expected, output });
        }
        Ok(Script { text: text.to_owned(), cases })
    }

    /// Returns the cases in order.
    pub fn cases(&self) -> &[Case] {
        &self.cases
    }
}

/// Parses the directive that begins with the line `first`; none if it is blank or a comment.
fn directive_at(first: &str, lines: &mut Lines<'_>) -> Result<Option<Directive>, Reason> {
    let mut line = first.trim().to_owned();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    while line.ends_with('\\') {
        let Some(next) = lines.next() else { break };
        line.pop();
        line.push(' ');
        line.push_str(next.trim());
    }
    directive::parse(&line).map(Some)
}

/// Consumes the lines up to and including the separator.
fn take_input(lines: &mut Lines<'_>) -> Result<String, Reason> {
    let start = lines.start;
    loop {
        let end = lines.start;
        match lines.next() {
            Some(SEPARATOR) => return Ok(lines.text[start..end].trim().to_owned()),
            Some(_) => {}
            None => return Err(Reason::NoSeparator),
        }
    }
}

/// Consumes the expected output, and returns it with its position, without the final blank line.
fn take_output(lines: &mut Lines<'_>) -> Result<(String, Range<usize>), Reason> {
    let start = lines.start;
    if lines.peek() == Some(SEPARATOR) {
        lines.next();
        let inner = lines.start;
        let end = skip_to_doubled_separator(lines)?;
        let output = start..lines.start;
        return match lines.next() {
            None | Some("") => Ok((lines.text[inner..end].to_owned(), output)),
            Some(_) => Err(Reason::TextAfterOutput),
        };
    }
    while lines.peek().is_some_and(|line| !line.trim().is_empty()) {
        lines.next();
    }
    let mut expected = lines.text[start..lines.start].to_owned();
    if !expected.is_empty() && !expected.ends_with('\n') {
        expected.push('\n');
    }
    Ok((expected, start..lines.start))
}

/// Moves past the next two separators in a row and returns the offset of the first.
fn skip_to_doubled_separator(lines: &mut Lines<'_>) -> Result<usize, Reason> {
    loop {
        let end = lines.start;
        match lines.next() {
            Some(SEPARATOR) if lines.peek() == Some(SEPARATOR) => {
                lines.next();
                return Ok(end);
            }
            Some(_) => {}
            None => return Err(Reason::OpenOutput),
        }
    }
}

/// An iterator over lines that can be peeked.
struct Lines<'a> {
    text: &'a str,
    /// Offset of the next line.
    start: usize,
    /// Number of the last line.
    number: usize,
}

impl<'a> Lines<'a> {
    /// Returns the next line without consuming it.
    fn peek(&self) -> Option<&'a str> {
        let line = self.text[self.start..].split_inclusive('\n').next()?;
        Some(line.strip_suffix('\n').unwrap_or(line))
    }

    fn next(&mut self) -> Option<&'a str> {
        let line = self.peek()?;
        self.number += 1;
        self.start = (self.start + line.len() + 1).min(self.text.len());
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Vec<Case> {
        Script::parse(text).unwrap().cases
    }

    fn rejected(text: &str) -> (usize, Reason) {
        let ParseError { line, reason } = Script::parse(text).unwrap_err();
        (line, reason)
    }

    #[test]
    fn a_file_of_comments_has_no_cases() {
        assert!(parse("# one\n\n  # two\n").is_empty());
    }

    #[test]
    fn line_input_and_output_are_parsed() {
        let cases = parse("# first\n\nsimple a=1\n v1 v2\n\n v3 \n----\none\n two\n\nnext\n----\n");
        assert_eq!(cases.len(), 2);
        assert_eq!((cases[0].line, cases[0].cmd.as_str()), (3, "simple"));
        assert_eq!(cases[0].input, "v1 v2\n\n v3");
        assert_eq!(cases[0].expected, "one\n two\n");
        assert_eq!((cases[1].line, cases[1].cmd.as_str()), (11, "next"));
        assert_eq!((cases[1].input.as_str(), cases[1].expected.as_str()), ("", ""));
    }

    #[test]
    fn the_last_line_may_lack_a_newline() {
        assert_eq!(parse("c\n----\nok")[0].expected, "ok\n");
        assert_eq!(parse("c\n----")[0].expected, "");
    }

    #[test]
    fn a_line_of_spaces_ends_the_output() {
        let cases = parse("c\n----\nok\n  \nd\n----\nok\n");
        assert_eq!((cases[0].expected.as_str(), cases[1].line), ("ok\n", 5));
    }

    #[test]
    fn a_backslash_continues_a_directive() {
        let cases = parse("c a=1 \\\n  b=2\\\nd\ninput\n----\n");
        assert_eq!(cases[0].to_string(), "c a=1 b=2 d");
        assert_eq!((cases[0].line, cases[0].input.as_str()), (1, "input"));
    }

    #[test]
    fn a_comment_sign_in_the_input_is_input() {
        assert_eq!(parse("c\n# not a comment\n----\n")[0].input, "# not a comment");
    }

    #[test]
    fn doubled_separators_enclose_blank_lines() {
        let cases = parse("c\n----\n----\none\n\n----\ntwo\n----\n----\n\nd\n----\nok\n");
        assert_eq!(cases[0].expected, "one\n\n----\ntwo\n");
        assert_eq!((cases[1].line, cases[1].expected.as_str()), (11, "ok\n"));
        assert_eq!(parse("c\n----\n----\n----\n----")[0].expected, "");
    }

    #[test]
    fn subtests_are_skipped() {
        let cases = parse("subtest a\n\nc\n----\nok\n\nsubtest end\n");
        assert_eq!((cases.len(), cases[0].cmd.as_str()), (1, "c"));
    }

    #[test]
    fn a_directive_without_separator_is_rejected() {
        assert_eq!(rejected("\nc\ninput\n"), (2, Reason::NoSeparator));
        assert_eq!(rejected("c\n ----\n"), (1, Reason::NoSeparator));
    }

    #[test]
    fn a_doubled_output_must_end() {
        assert_eq!(rejected("c\n----\n----\none\n----\n"), (1, Reason::OpenOutput));
        assert_eq!(rejected("c\n----\n----\n----\n----\nmore\n"), (1, Reason::TextAfterOutput));
    }

    #[test]
    fn an_error_names_line_and_reason() {
        let error = Script::parse("# x\nc =1\n----\n").unwrap_err();
        assert_eq!(error.to_string(), "line 2: an argument without a key: =1");
    }
}
