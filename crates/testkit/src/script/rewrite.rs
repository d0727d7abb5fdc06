//! Writes actual output back into a script.
//!
//! Only expected outputs are replaced; comments, blank lines and directives are copied unchanged.

use thiserror::Error;

use super::parse::SEPARATOR;
use super::{Case, Script};

/// Output that the format cannot hold, such as one with two `----` lines in a row.
#[derive(Debug, Error, PartialEq)]
#[error("the output for line {line} cannot be written down in this format")]
pub struct RewriteError {
    /// Line of the directive in the original script.
    pub line: usize,
}

impl Script {
    /// Returns the script with the outputs that `actual` returns; `None` keeps the expected one.
    ///
    /// The result is parsed again, and rejected if it does not yield these outputs.
    pub fn rewrite(
        &self,
        mut actual: impl FnMut(&Case) -> Option<String>,
    ) -> Result<String, RewriteError> {
        let outputs: Vec<String> = self
            .cases
            .iter()
            .map(|case| actual(case).unwrap_or_else(|| case.expected.clone()))
            .collect();
        let text = self.splice(&outputs);
        let parsed = Script::parse(&text).map(|script| script.cases).unwrap_or_default();
        for (i, case) in self.cases.iter().enumerate() {
            if parsed.get(i).is_none_or(|case| case.expected != outputs[i]) {
                return Err(RewriteError { line: case.line });
            }
        }
        Ok(text)
    }

    fn splice(&self, outputs: &[String]) -> String {
        let mut text = String::with_capacity(self.text.len());
        let mut copied = 0;
        for (case, output) in self.cases.iter().zip(outputs) {
            text.push_str(&self.text[copied..case.output.start]);
            copied = case.output.end;
            // A correct output stays as it is, even if its separators are doubled needlessly.
            if *output == case.expected {
                text.push_str(&self.text[case.output.clone()]);
                continue;
            }
            // The file may have ended right after the separator.
            if !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&framed(output));
        }
        text.push_str(&self.text[copied..]);
        text
    }
}

/// Formats an output: with doubled separators if it has a blank line or a separator.
fn framed(output: &str) -> String {
    let doubled = output.lines().any(|line| line.trim().is_empty() || line == SEPARATOR);
    if doubled {
        format!("{SEPARATOR}\n{output}{SEPARATOR}\n{SEPARATOR}\n")
    } else {
        output.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rewrites with the given output for each command.
    fn rewrite(text: &str, outputs: &[(&str, &str)]) -> Result<String, RewriteError> {
        let find = |case: &Case| outputs.iter().find(|(cmd, _)| *cmd == case.cmd);
        Script::parse(text).unwrap().rewrite(|case| find(case).map(|(_, out)| (*out).to_owned()))
    }

    const TEXT: &str = "# Head.\n\n\na  1 \\\n  x=( 1,2 )\n in\n----\nold\n\n\n# Tail\nb\n----\n\nc\n----\n----\nx\n\ny\n----\n----\n\n# End, no newline";

    #[test]
    fn correct_output_is_unchanged() {
        assert_eq!(rewrite(TEXT, &[]).unwrap(), TEXT);
        assert_eq!(rewrite(TEXT, &[("a", "old\n"), ("c", "x\n\ny\n")]).unwrap(), TEXT);
    }

    #[test]
    fn only_the_output_changes() {
        let text = rewrite(TEXT, &[("a", "new\nlines\n")]).unwrap();
        assert_eq!(text, TEXT.replace("old\n", "new\nlines\n"));
    }

    #[test]
    fn output_appears_and_disappears() {
        let text = rewrite(TEXT, &[("a", ""), ("b", "was empty\n")]).unwrap();
        let outputs = TEXT.replace("old\n", "").replace("b\n----\n", "b\n----\nwas empty\n");
        assert_eq!(text, outputs);
    }

    #[test]
    fn separators_are_doubled_only_when_needed() {
        let text = rewrite(TEXT, &[("a", "p\n \nq\n"), ("c", "plain\n")]).unwrap();
        let outputs = TEXT
            .replace("old\n", "----\np\n \nq\n----\n----\n")
            .replace("----\nx\n\ny\n----\n----\n", "plain\n");
        assert_eq!(text, outputs);
        assert!(
            rewrite(TEXT, &[("a", "p\n----\nq\n")])
                .unwrap()
                .contains("----\np\n----\nq\n----\n----")
        );
    }

    #[test]
    fn a_file_may_end_right_after_the_separator() {
        assert_eq!(rewrite("a\n----", &[("a", "ok\n")]).unwrap(), "a\n----\nok\n");
        assert_eq!(rewrite("a\n----\nold", &[("a", "ok\n")]).unwrap(), "a\n----\nok\n");
    }

    #[test]
    fn output_that_cannot_be_parsed_back_is_rejected() {
        let refused = Err(RewriteError { line: 4 });
        assert_eq!(rewrite(TEXT, &[("a", "p\n----\n----\nq\n")]), refused);
        assert_eq!(rewrite(TEXT, &[("a", "\n----\n")]), refused);
        assert_eq!(rewrite(TEXT, &[("a", "no newline")]), refused);
    }
}
