//! Checks the code map and the walks in ARCHITECTURE.md against the source.
//!
//! - Each crate has a section `` ### `name` `` whose tables list its modules in the first column;
//!   one row may list several. The modules are the files and directories in `crates/name/src`.
//! - The section `## Walks` names functions as `Type::function` or `module::function`, in text and
//!   in code blocks. Each of them has to exist in the source of some crate.
//!
//! ````text
//! ### `raft`
//!
//! | module | purpose |
//! | --- | --- |
//! | `entry`, `message` | the values |
//! ````

mod page;
mod source;

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};

use crate::workspace::Workspace;

/// Compares ARCHITECTURE.md with the source.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let text = fs::read_to_string(workspace.root.join("ARCHITECTURE.md"))
        .context("read ARCHITECTURE.md")?;
    let sections = page::modules(&text);
    let crates = source::modules(&workspace.root.join("crates"))?;
    let names: BTreeSet<&String> = sections.keys().chain(crates.keys()).collect();
    let mut differences = Vec::new();
    for name in names {
        let (listed, real) = (sections.get(name), crates.get(name));
        differences.extend(compare(name, listed, real));
    }
    let functions = page::functions(&text);
    let source = source::Functions::read(&workspace.root.join("crates"))?;
    let missing = functions.iter().filter(|(owner, name)| !source.contains(owner, name));
    differences.extend(missing.map(|(owner, name)| format!("no such function: {owner}::{name}")));
    ensure!(differences.is_empty(), "ARCHITECTURE.md:\n{}", differences.join("\n"));
    println!("{} crates and {} functions found", crates.len(), functions.len());
    Ok(())
}

fn compare(
    name: &str,
    listed: Option<&BTreeSet<String>>,
    real: Option<&BTreeSet<String>>,
) -> Vec<String> {
    match (listed, real) {
        (None, Some(_)) => vec![format!("no section ### `{name}`")],
        (Some(_), None) => vec![format!("section ### `{name}`: no such crate")],
        (Some(listed), Some(real)) => {
            let missing = real.difference(listed);
            let missing = missing.map(|module| format!("{name}: module `{module}` is not listed"));
            let stale = listed.difference(real);
            let stale = stale.map(|module| format!("{name}: no such module: `{module}`"));
            missing.chain(stale).collect()
        }
        (None, None) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &str) -> BTreeSet<String> {
        names.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn missing_and_stale_modules_are_reported() {
        let (listed, real) = (set("log stale"), set("log new"));
        let found = compare("raft", Some(&listed), Some(&real));
        assert_eq!(found, ["raft: module `new` is not listed", "raft: no such module: `stale`"]);
        assert!(compare("raft", Some(&real), Some(&real)).is_empty());
    }

    #[test]
    fn missing_and_stale_sections_are_reported() {
        let modules = set("log");
        assert_eq!(compare("a", None, Some(&modules)), ["no section ### `a`"]);
        assert_eq!(compare("a", Some(&modules), None), ["section ### `a`: no such crate"]);
    }
}
