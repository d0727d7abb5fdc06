//! Words that must not stay behind in the repository: code left unfinished, tests switched off, unresolved merges.
//!
//! Clippy sees some of them too, but only in code that is compiled here; this looks at every file.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// A word, where it is looked for, and what it means to find it.
struct Forbidden {
    word: &'static str,
    /// The ending of the files it concerns; empty for all.
    ending: &'static str,
    means: &'static str,
}

// Written in halves, so that this file passes its own check.
const FORBIDDEN: [Forbidden; 6] = [
    Forbidden { word: concat!("to", "do!"), ending: ".rs", means: "unfinished code" },
    Forbidden { word: concat!("unimpl", "emented!"), ending: ".rs", means: "unfinished code" },
    Forbidden { word: concat!("db", "g!"), ending: ".rs", means: "a debugging aid left behind" },
    Forbidden { word: concat!("#[ign", "ore"), ending: ".rs", means: "a test switched off" },
    Forbidden { word: concat!("<<<<", "<<< "), ending: "", means: "an unresolved merge" },
    Forbidden { word: concat!(">>>>", ">>> "), ending: "", means: "an unresolved merge" },
];

/// Folders that hold no source, by their path from the root.
const LEFT_OUT: [&str; 3] = [".git", "target", "interop/bin"];

/// Looks through every file under `root`.
pub(crate) fn check(root: &Path) -> Result<()> {
    let mut findings = Vec::new();
    let files = files_under(root, Path::new(""))?;
    for file in &files {
        // What is not text holds no words.
        let Ok(text) = fs::read_to_string(root.join(file)) else { continue };
        findings.extend(find(&file.to_string_lossy(), &text));
    }
    ensure!(findings.is_empty(), "{}", findings.join("\n"));
    println!("{} files looked through", files.len());
    Ok(())
}

/// What is wrong with one file, as `path:line: word (what it means)`.
fn find(path: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for Forbidden { word, ending, means } in &FORBIDDEN {
            if path.ends_with(ending) && holds(line, word) {
                findings.push(format!("{path}:{number}: {word} ({means})"));
            }
        }
    }
    findings
}

/// Whether `word` stands in `line` other than as the end of a longer name.
fn holds(line: &str, word: &str) -> bool {
    let name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| !line[..at].ends_with(name))
}

/// All files under `root/folder`, by their path from the root, sorted.
fn files_under(root: &Path, folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let path = root.join(folder);
    let entries = fs::read_dir(&path).with_context(|| format!("read {}", path.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("read {}", path.display()))?;
        let path = folder.join(entry.file_name());
        let kind = entry.file_type().with_context(|| format!("look at {}", path.display()))?;
        if kind.is_file() {
            files.push(path);
        } else if kind.is_dir() && !LEFT_OUT.iter().any(|folder| path == Path::new(folder)) {
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
    fn each_word_is_found_with_its_place() {
        for Forbidden { word, .. } in &FORBIDDEN {
            let findings = find("src/a.rs", &format!("fn a() {{}}\n  {word}()\n"));
            assert_eq!(findings.len(), 1, "{word}");
            assert!(findings[0].starts_with(&format!("src/a.rs:2: {word} (")), "{findings:?}");
        }
    }

    #[test]
    fn words_of_code_do_not_matter_in_prose() {
        let text = format!("never write {}\n", FORBIDDEN[0].word);
        assert!(find("style.md", &text).is_empty());
    }

    #[test]
    fn a_longer_name_is_another_word() {
        assert!(!holds(concat!("my_db", "g!(x)"), FORBIDDEN[2].word));
        assert!(holds(concat!("x = db", "g!(x)"), FORBIDDEN[2].word));
    }

    #[test]
    fn this_repository_is_looked_through() {
        let root = crate::workspace::Workspace::find().unwrap().root;
        let files = files_under(&root, Path::new("")).unwrap();
        assert!(files.contains(&PathBuf::from("xtask/src/hygiene.rs")));
        assert!(!files.iter().any(|file| file.starts_with("target") || file.starts_with(".git/")));
    }
}
