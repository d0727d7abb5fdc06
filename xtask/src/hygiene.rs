//! Text that must not be committed: unfinished code, disabled tests, unresolved merges, bad prose.
//!
//! Clippy finds some of it too, but only in code that is compiled here; this step reads every file.
//! The rules for comments and Markdown are in [`prose`], those for source files in [`names`].

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::{names, prose};

/// A forbidden word, the files it applies to, and the reason.
struct Forbidden {
    word: &'static str,
    /// File name suffix; empty for all files.
    ending: &'static str,
    reason: &'static str,
}

// Split with `concat!`, so that this file passes its own check.
const FORBIDDEN: [Forbidden; 6] = [
    Forbidden { word: concat!("to", "do!"), ending: ".rs", reason: "unfinished code" },
    Forbidden { word: concat!("unimpl", "emented!"), ending: ".rs", reason: "unfinished code" },
    Forbidden { word: concat!("db", "g!"), ending: ".rs", reason: "a leftover debugging aid" },
    Forbidden { word: concat!("#[ign", "ore"), ending: ".rs", reason: "a test switched off" },
    Forbidden { word: concat!("<<<<", "<<< "), ending: "", reason: "an unresolved merge" },
    Forbidden { word: concat!(">>>>", ">>> "), ending: "", reason: "an unresolved merge" },
];

/// Paths from the root without source code. `.git` is a file in a linked work tree.
const EXCLUDED: [&str; 7] =
    [".git", "target", "interop/bin", "fuzz/target", "fuzz/corpus", "fuzz/artifacts", "fuzz/logs"];

/// Checks every file under `root`.
pub(crate) fn check(root: &Path) -> Result<()> {
    let mut findings = Vec::new();
    let files = files_under(root, Path::new(""))?;
    for file in &files {
        // Binary files have no words.
        let Ok(text) = fs::read_to_string(root.join(file)) else { continue };
        let path = file.to_string_lossy();
        findings.extend(find(&path, &text));
        findings.extend(prose::find(&path, &text));
        findings.extend(names::find(&path, &text));
    }
    ensure!(findings.is_empty(), "{}", findings.join("\n"));
    println!("{} files checked", files.len());
    Ok(())
}

/// Lists the forbidden words of one file, as `path:line: word (reason)`.
fn find(path: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for Forbidden { word, ending, reason } in &FORBIDDEN {
            if path.ends_with(ending) && contains(line, word) {
                findings.push(format!("{path}:{number}: {word} ({reason})"));
            }
        }
    }
    findings
}

/// Whether `line` contains `word` other than as the end of a longer name.
fn contains(line: &str, word: &str) -> bool {
    let name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| !line[..at].ends_with(name))
}

/// Returns all files under `root/dir` as paths from the root, sorted.
fn files_under(root: &Path, dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let path = root.join(dir);
    let entries = fs::read_dir(&path).with_context(|| format!("read {}", path.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("read {}", path.display()))?;
        let path = dir.join(entry.file_name());
        let kind = entry.file_type().with_context(|| format!("stat {}", path.display()))?;
        if EXCLUDED.iter().any(|excluded| path == Path::new(excluded)) {
            continue;
        }
        if kind.is_file() {
            files.push(path);
        } else if kind.is_dir() {
            files.append(&mut files_under(root, &path)?);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_forbidden_word_is_reported_with_path_and_line() {
        for Forbidden { word, .. } in &FORBIDDEN {
            let findings = find("src/a.rs", &format!("fn a() {{}}\n  {word}()\n"));
            assert_eq!(findings.len(), 1, "{word}");
            assert!(findings[0].starts_with(&format!("src/a.rs:2: {word} (")), "{findings:?}");
        }
    }

    #[test]
    fn words_of_code_are_allowed_in_prose() {
        let text = format!("never write {}\n", FORBIDDEN[0].word);
        assert!(find("style.md", &text).is_empty());
    }

    #[test]
    fn a_longer_name_does_not_match() {
        assert!(!contains(concat!("my_db", "g!(x)"), FORBIDDEN[2].word));
        assert!(contains(concat!("x = db", "g!(x)"), FORBIDDEN[2].word));
    }

    #[test]
    fn the_repository_is_searched_without_build_output() {
        let root = crate::workspace::Workspace::find().unwrap().root;
        let files = files_under(&root, Path::new("")).unwrap();
        assert!(files.contains(&PathBuf::from("xtask/src/hygiene.rs")));
        assert!(!files.iter().any(|file| file.starts_with("target") || file.starts_with(".git/")));
    }
}
