//! Rules for prose: comments in code, and Markdown pages.
//!
//! ```text
//!   rule      applies to             example of a violation
//!   width     comments, Markdown     a line of more than 100 columns
//!   word      comments, Markdown     an indefinite pronoun for a thread; a synonym
//!   opening   doc comments of Rust   "/// What is committed." (begin with a verb or a noun)
//! ```
//!
//! Lines with a URL may be wider, and so may tables, and code blocks in Markdown. `ALLOWED` lists
//! the few files that quote a forbidden word on purpose.

use std::path::Path;

/// Maximum width of a comment or a line of prose, in columns.
pub(crate) const WIDTH_MAX: usize = 100;

/// Forbidden words, with the advice that a finding gives.
// Split with `concat!`, so that this file passes its own check.
const WORDS: [(&str, &str); 10] = [
    (concat!("who", "ever"), NAME_IT),
    (concat!("no", "body"), NAME_IT),
    (concat!("some", "body"), NAME_IT),
    (concat!("every", "body"), NAME_IT),
    (concat!("any", "body"), NAME_IT),
    (concat!("those", " who"), NAME_IT),
    (concat!("one", " who"), NAME_IT),
    (concat!("who", "mever"), NAME_IT),
    (concat!("fold", "er"), "write \"directory\""),
    (concat!("fold", "ers"), "write \"directories\""),
];

/// Advice for a word that hides the component it stands for.
const NAME_IT: &str = "name the component";

/// First words of a doc comment that make no sense where rustdoc shows the sentence alone.
const OPENINGS: [&str; 22] = [
    "It ",
    "Its ",
    "Who ",
    "Whose ",
    "What ",
    "The same",
    "Does the same",
    "Likewise",
    "They ",
    "Also ",
    "Otherwise ",
    "How ",
    "Why ",
    "Which ",
    "Where ",
    "When ",
    "Their ",
    "Those ",
    "From the ",
    "If it ",
    "Perhaps ",
    "As in the crate",
];

/// Files in which a forbidden word is quoted on purpose, with the word.
const ALLOWED: [(&str, &str); 0] = [];

/// The marks of comments in a file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Syntax {
    /// `//`, also after code.
    Slashes { is_rust: bool },
    /// `#` at the start of a line.
    Hash,
    /// Every line is prose, except in tables and code blocks.
    Markdown,
}

impl Syntax {
    fn of(path: &Path, text: &str) -> Option<Syntax> {
        let name = path.file_name()?.to_str()?;
        let ending = name.rsplit_once('.').map_or(name, |(_, ending)| ending);
        match ending {
            "rs" => Some(Syntax::Slashes { is_rust: true }),
            "go" | "proto" | "java" | "js" | "mjs" | "c" => {
                Some(Syntax::Slashes { is_rust: false })
            }
            "toml" | "py" | "sh" | "yml" | "yaml" | "txt" => Some(Syntax::Hash),
            "md" => Some(Syntax::Markdown),
            // A script, such as `interop/run`.
            _ if !name.contains('.') && text.starts_with("#!") => Some(Syntax::Hash),
            _ => None,
        }
    }

    /// The prose in a line, if there is any.
    fn prose(self, line: &str) -> Option<&str> {
        let text = line.trim_start();
        match self {
            Syntax::Slashes { .. } if text.starts_with("//") => Some(text),
            Syntax::Slashes { .. } => trailing_comment(line),
            Syntax::Hash if text.starts_with('#') => Some(text),
            Syntax::Hash => lint_reason(line),
            Syntax::Markdown => Some(text),
        }
    }
}

/// The reason that a lint prints, in the configuration of clippy.
fn lint_reason(line: &str) -> Option<&str> {
    line.split_once("reason = \"").map(|(_, reason)| reason)
}

/// The comment after code. A `//` inside a string literal does not count.
fn trailing_comment(line: &str) -> Option<&str> {
    let at = line.find(" // ")?;
    let quotes = line[..at].matches('"').count();
    quotes.is_multiple_of(2).then(|| &line[at + 1..])
}

/// Lists the violations in one file, as `path:line: rule`.
pub(crate) fn find(path: &str, text: &str) -> Vec<String> {
    let Some(syntax) = Syntax::of(Path::new(path), text) else { return Vec::new() };
    let mut findings = Vec::new();
    let mut in_block = false;
    for (number, line) in (1..).zip(text.lines()) {
        let is_fence = syntax == Syntax::Markdown && line.trim_start().starts_with("```");
        in_block ^= is_fence;
        let Some(prose) = syntax.prose(line) else { continue };
        let may_be_wide = is_fence || in_block || line.contains("://") || is_table(prose);
        if !may_be_wide && line.chars().count() > WIDTH_MAX {
            findings.push(format!("{path}:{number}: wider than {WIDTH_MAX} columns"));
        }
        let words =
            WORDS.iter().filter(|(word, _)| !is_allowed(path, word) && contains(prose, word));
        findings
            .extend(words.map(|(word, advice)| format!("{path}:{number}: \"{word}\": {advice}")));
        if syntax == (Syntax::Slashes { is_rust: true })
            && let Some(opening) = bad_opening(prose, previous_line(text, number))
        {
            let opening = opening.trim_end();
            findings.push(format!(
                "{path}:{number}: a doc comment begins with \"{opening}\": begin with a verb or a noun"
            ));
        }
    }
    findings
}

/// Whether a line belongs to a table, in Markdown or in a doc comment.
fn is_table(prose: &str) -> bool {
    prose.trim_start_matches(['/', '!', ' ']).starts_with('|')
}

fn is_allowed(path: &str, word: &str) -> bool {
    ALLOWED.contains(&(path, word))
}

fn previous_line(text: &str, number: usize) -> &str {
    number.checked_sub(2).and_then(|at| text.lines().nth(at)).unwrap_or_default()
}

/// The forbidden opening of the first line of a doc comment.
fn bad_opening(prose: &str, previous: &str) -> Option<&'static str> {
    let marker = ["///", "//!"].into_iter().find(|marker| prose.starts_with(marker))?;
    if previous.trim_start().starts_with(marker) {
        return None;
    }
    let text = prose[marker.len()..].trim_start();
    OPENINGS.into_iter().find(|opening| text.starts_with(opening))
}

/// Whether a word or phrase stands in a text by itself, in any case.
fn contains(text: &str, word: &str) -> bool {
    let text = text.to_lowercase();
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(is_letter) && !text[at + word.len()..].starts_with(is_letter)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORD: &str = WORDS[0].0;

    #[test]
    fn wide_comments_are_found_and_wide_code_is_not() {
        let wide = "x".repeat(WIDTH_MAX);
        let text = format!("// {wide}\nlet a = \"{wide}\";\n/// https://{wide}\n");
        assert_eq!(find("src/a.rs", &text), ["src/a.rs:1: wider than 100 columns"]);
        assert_eq!(find("a.toml", &format!("# {wide}\n")).len(), 1);
        assert!(find("a.bin", &wide).is_empty());
    }

    #[test]
    fn scripts_lists_and_reasons_of_lints_are_read() {
        let comment = format!("# for {WORD}\n");
        assert_eq!(find("a/run", &format!("#!/bin/sh\n{comment}")).len(), 1);
        assert!(find("a/data", &comment).is_empty(), "not a script");
        assert_eq!(find("requirements.txt", &comment).len(), 1);
        let reason = format!("{{ path = \"a\", reason = \"{WORD} waits\" }}\n");
        assert_eq!(find("clippy.toml", &reason).len(), 1);
    }

    #[test]
    fn tables_and_code_blocks_of_markdown_may_be_wide() {
        let wide = "x".repeat(WIDTH_MAX + 1);
        let text = format!("| {wide} |\n```\n{wide}\n```\n{wide}\n");
        assert_eq!(find("a.md", &text), ["a.md:5: wider than 100 columns"]);
    }

    #[test]
    fn forbidden_words_are_found_in_comments_only() {
        let text = format!("// {WORD} waits\nlet a = \"{WORD}\";\nlet b = 1; // for {WORD}\n");
        let findings = find("src/a.rs", &text);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].starts_with("src/a.rs:1: "), "{findings:?}");
        assert!(findings[1].starts_with("src/a.rs:3: "), "{findings:?}");
    }

    #[test]
    fn a_finding_gives_the_advice_of_its_word() {
        let (word, advice) = WORDS[WORDS.len() - 1];
        let findings = find("a.md", &format!("Two {word}.\n"));
        assert_eq!(findings, [format!("a.md:1: \"{word}\": {advice}")]);
    }

    #[test]
    fn a_longer_word_is_another_word() {
        assert!(contains("Whoever, then", WORD));
        assert!(!contains("antibody", WORDS[1].0));
        assert!(!contains(concat!("no", "body_waits"), WORDS[1].0));
    }

    #[test]
    fn the_first_line_of_a_doc_comment_begins_with_a_verb_or_a_noun() {
        let findings = find("src/a.rs", "/// What is committed.\nfn a() {}\n");
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].contains("begins with \"What\""), "{findings:?}");
        assert!(find("src/a.rs", "/// Returns a value.\n/// It is new.\nfn a() {}\n").is_empty());
        assert!(find("src/a.rs", "// It is a comment.\n").is_empty());
    }
}
