//! Modules and functions as they are in the source, found by reading text.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// File names in `src` that are not modules of their own.
const NOT_MODULES: [&str; 3] = ["lib", "main", "tests"];

/// Returns the modules of each crate: the files and directories in its `src`.
pub(super) fn modules(crates: &Path) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let mut found = BTreeMap::new();
    for (name, path) in entries(crates)? {
        let source = path.join("src");
        if source.is_dir() {
            let stems = entries(&source)?.into_iter().map(|(name, _)| stem(&name).to_owned());
            let modules = stems.filter(|stem| !NOT_MODULES.contains(&stem.as_str()));
            found.insert(name, modules.collect());
        }
    }
    Ok(found)
}

/// All functions of the workspace with the types and modules they may belong to.
pub(super) struct Functions {
    /// Types with an `impl` or a definition in a file, and its modules, with the file's functions.
    owners: BTreeMap<String, BTreeSet<String>>,
}

impl Functions {
    pub(super) fn read(crates: &Path) -> Result<Functions> {
        let mut functions = Functions { owners: BTreeMap::new() };
        for (name, path) in entries(crates)? {
            let source = path.join("src");
            if source.is_dir() {
                functions.read_dir(&source, &name)?;
            }
        }
        Ok(functions)
    }

    fn read_dir(&mut self, dir: &Path, module: &str) -> Result<()> {
        for (name, path) in entries(dir)? {
            if path.is_dir() {
                self.read_dir(&path, &name)?;
            } else if name.ends_with(".rs") {
                let text = fs::read_to_string(&path)
                    .with_context(|| format!("read {}", path.display()))?;
                self.add(&text, [module, stem(&name)]);
            }
        }
        Ok(())
    }

    fn add(&mut self, text: &str, modules: [&str; 2]) {
        let functions: BTreeSet<String> = defined(text, &["fn"]).map(str::to_owned).collect();
        let types = defined(text, &["impl", "for", "trait", "struct", "enum"]);
        for owner in types.chain(modules) {
            self.owners.entry(owner.to_owned()).or_default().extend(functions.iter().cloned());
        }
    }

    pub(super) fn contains(&self, owner: &str, name: &str) -> bool {
        self.owners.get(owner).is_some_and(|functions| functions.contains(name))
    }
}

/// Returns the identifiers that follow one of these keywords.
fn defined<'a>(text: &'a str, keywords: &'a [&str]) -> impl Iterator<Item = &'a str> {
    let lines = text.lines().map(str::trim_start).filter(|line| !line.starts_with("//"));
    lines.flat_map(move |line| {
        // Generic parameters stand between `impl` and the type.
        let words = line.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        let at = words.iter().position(|word| keywords.contains(word));
        let from = at.map_or(words.len(), |at| at + 1);
        let single = keywords == ["fn"];
        let until = if single { words.len().min(from + 1) } else { words.len() };
        words[from..until].to_vec()
    })
}

fn stem(name: &str) -> &str {
    name.strip_suffix(".rs").unwrap_or(name)
}

/// Returns name and path of everything in a directory, sorted by name.
fn entries(dir: &Path) -> Result<Vec<(String, std::path::PathBuf)>> {
    let list = fs::read_dir(dir).with_context(|| format!("read {}", dir.display()))?;
    let mut entries = Vec::new();
    for entry in list {
        let entry = entry.with_context(|| format!("read {}", dir.display()))?;
        entries.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
    }
    entries.sort();
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_belong_to_the_types_and_modules_of_their_file() {
        let mut functions = Functions { owners: BTreeMap::new() };
        let text = "impl<T: Clone> Server<T> {\n    pub async fn put(&self) {}\n}\n// fn gone()\n";
        functions.add(text, ["server", "request"]);
        assert!(functions.contains("Server", "put"));
        assert!(functions.contains("request", "put"));
        assert!(!functions.contains("Server", "gone"));
        assert!(!functions.contains("Other", "put"));
    }

    #[test]
    fn the_modules_of_this_repository_are_found() {
        let root = crate::workspace::Workspace::find().unwrap().root;
        let modules = modules(&root.join("crates")).unwrap();
        assert!(modules["raft"].contains("raw_node"));
        assert!(!modules["raft"].contains("lib"));
    }
}
