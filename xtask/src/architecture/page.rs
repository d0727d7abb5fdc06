//! The parts of ARCHITECTURE.md that are checked: tables of modules, and functions in walks.

use std::collections::{BTreeMap, BTreeSet};

/// Heading of the section whose functions are checked.
const WALKS: &str = "## Walks";

/// Returns the modules listed for each crate.
pub(super) fn modules(page: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut sections: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut current: Option<&str> = None;
    for line in page.lines() {
        if line.starts_with('#') {
            current = line.strip_prefix("### `").and_then(|rest| rest.strip_suffix('`'));
            if let Some(name) = current {
                sections.entry(name.to_owned()).or_default();
            }
            continue;
        }
        let (Some(name), Some(row)) = (current, line.strip_prefix('|')) else { continue };
        let cell = row.split('|').next().unwrap_or_default();
        let modules = quoted(cell).map(str::to_owned);
        sections.entry(name.to_owned()).or_default().extend(modules);
    }
    sections
}

/// Returns the functions named in the walks, as `(owner, function)`.
pub(super) fn functions(page: &str) -> BTreeSet<(String, String)> {
    let walks = page.split_once(WALKS).map_or("", |(_, rest)| rest);
    let walks = walks.split("\n## ").next().unwrap_or_default();
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let paths = walks.split(|c| !is_part(c)).filter_map(|word| {
        let (owner, name) = word.rsplit_once("::")?;
        let owner = owner.rsplit("::").next()?;
        let is_function = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let is_function = !name.is_empty() && name.chars().all(is_function);
        is_function.then(|| (owner.to_owned(), name.to_owned()))
    });
    paths.collect()
}

/// Returns the texts between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Page\n\n### `raft`\n\nText with `code`.\n\n| module | purpose |\n\
        | --- | --- |\n| `entry`, `message` | `values` |\n\n### `types`\n\n## Walks\n\n\
        *Write.* `grpc::services::kv::put` calls Server::put with `Role::Leader`.\n\n## Tests\n\n`A::b`\n";

    #[test]
    fn modules_are_read_from_the_first_column() {
        let modules = modules(PAGE);
        assert!(modules["raft"].iter().eq(["entry", "message"]));
        assert!(modules["types"].is_empty());
        assert_eq!(modules.len(), 2);
    }

    #[test]
    fn functions_are_read_from_the_walks_only() {
        let functions = functions(PAGE);
        let expected = [("Server", "put"), ("kv", "put")];
        let expected = expected.map(|(owner, name)| (owner.to_owned(), name.to_owned()));
        assert!(functions.into_iter().eq(expected));
    }
}
