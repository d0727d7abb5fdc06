//! The crates and their dependencies as cargo reports them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::Value;

/// Arguments that list the workspace's crates with their declared dependencies.
pub(super) const METADATA: [&str; 4] = ["metadata", "--no-deps", "--format-version", "1"];

/// Arguments that list all run-time dependencies of a package. Procedural macros run in the
/// compiler and are left out.
pub(super) fn tree(id: &str) -> [&str; 9] {
    [
        "tree",
        "--package",
        id,
        "--edges",
        "normal,no-proc-macro",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ]
}

/// A crate of the workspace.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Member {
    /// Package id, which is unique.
    pub(super) id: String,
    /// Workspace crates among its normal and build dependencies.
    pub(super) uses: BTreeSet<String>,
    /// Workspace crates among its dev-dependencies.
    pub(super) tests_use: BTreeSet<String>,
}

/// Parses the output of [`METADATA`].
pub(super) fn members(output: &str) -> Result<BTreeMap<String, Member>> {
    let output: Value = serde_json::from_str(output).context("parse cargo metadata")?;
    let packages = list(&output, "packages");
    let names: BTreeSet<&str> = packages.iter().map(|package| text(package, "name")).collect();
    let mut members = BTreeMap::new();
    for package in packages {
        let mut member = Member { id: text(package, "id").to_owned(), ..Member::default() };
        // A registry package may have the same name; workspace crates have a path.
        let ours = |edge: &&Value| edge["path"].is_string() && names.contains(text(edge, "name"));
        for edge in list(package, "dependencies").iter().filter(ours) {
            let kind =
                if text(edge, "kind") == "dev" { &mut member.tests_use } else { &mut member.uses };
            kind.insert(text(edge, "name").to_owned());
        }
        members.insert(text(package, "name").to_owned(), member);
    }
    Ok(members)
}

/// Parses the output of [`tree`]: one package per line, its name first.
pub(super) fn reached(output: &str) -> BTreeSet<&str> {
    output.lines().filter_map(|line| line.split_whitespace().next()).collect()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = r#"{"packages": [
        {"name": "types", "id": "path#types", "dependencies": []},
        {"name": "raft", "id": "path#raft", "dependencies": [
            {"name": "types", "kind": null, "path": "/x/types"},
            {"name": "proto", "kind": "build", "path": "/x/proto"},
            {"name": "testkit", "kind": "dev", "path": "/x/testkit"},
            {"name": "bytes", "kind": null, "source": "registry"}
        ]},
        {"name": "proto", "id": "path#proto", "dependencies": [{"name": "types", "kind": null}]},
        {"name": "testkit", "id": "path#testkit", "dependencies": []}
    ]}"#;

    #[test]
    fn dependencies_between_members_are_found() {
        let members = members(ANSWER).unwrap();
        assert_eq!(members.len(), 4);
        let raft = &members["raft"];
        assert_eq!(raft.id, "path#raft");
        assert!(raft.uses.iter().eq(["proto", "types"]));
        assert!(raft.tests_use.iter().eq(["testkit"]));
    }

    #[test]
    fn a_registry_package_with_the_name_of_a_member_is_not_a_member() {
        assert!(members(ANSWER).unwrap()["proto"].uses.is_empty());
    }

    #[test]
    fn tree_output_is_reduced_to_names() {
        let output = "raft v0.1.0 (/x)\ntypes v0.1.0 (/y)\nbytes v1.12.1\nbytes v1.12.1 (*)\n";
        assert!(reached(output).into_iter().eq(["bytes", "raft", "types"]));
    }
}
