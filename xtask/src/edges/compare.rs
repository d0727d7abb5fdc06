//! Differences between the picture and cargo's metadata.

use std::collections::{BTreeMap, BTreeSet};

use super::cargo::Member;
use super::picture::{Lines, Picture};

/// Every crate's tests may use testkit, so these edges are not drawn.
const TESTKIT: &str = "testkit";

/// Returns all differences, sorted by crate.
pub(super) fn compare(picture: &Picture, members: &BTreeMap<String, Member>) -> Vec<String> {
    let names: BTreeSet<&String> = picture.crates.keys().chain(members.keys()).collect();
    let mut differences = Vec::new();
    for name in names {
        match (picture.crates.get(name), members.get(name)) {
            (Some(lines), Some(member)) => {
                differences.extend(crate_differences(name, lines, member));
            }
            (Some(_), None) => {
                differences.push(format!("{name}: drawn, but no such crate exists"));
            }
            (None, _) => differences.push(format!("{name}: not drawn")),
        }
    }
    differences
}

/// Returns the packages in `never` that `name` depends on.
pub(super) fn forbidden(
    name: &str,
    never: &BTreeSet<String>,
    reached: &BTreeSet<&str>,
) -> Vec<String> {
    let found = never.iter().filter(|package| reached.contains(package.as_str()));
    found
        .map(|package| {
            format!(
                "{name} ⊬ {package}: reached; see `cargo tree -p {name} -e normal -i {package}`"
            )
        })
        .collect()
}

fn crate_differences(name: &str, lines: &Lines, member: &Member) -> Vec<String> {
    let needs_drawing = |edge: &&String| *edge != TESTKIT && !member.uses.contains(*edge);
    let tests_use: BTreeSet<String> =
        member.tests_use.iter().filter(needs_drawing).cloned().collect();
    let mut differences = one_arrow(name, "→", &lines.uses, &member.uses);
    differences.extend(one_arrow(name, "⇢", &lines.tests_use, &tests_use));
    differences
}

fn one_arrow(
    name: &str,
    arrow: &str,
    drawn: &BTreeSet<String>,
    real: &BTreeSet<String>,
) -> Vec<String> {
    let undrawn = real.difference(drawn).map(|to| format!("{name} {arrow} {to}: real, not drawn"));
    let unreal = drawn.difference(real).map(|to| format!("{name} {arrow} {to}: drawn, not real"));
    undrawn.chain(unreal).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &str) -> BTreeSet<String> {
        names.split_whitespace().map(str::to_owned).collect()
    }

    /// Members from `(name, uses, tests_use)`.
    fn members(list: &[(&str, &str, &str)]) -> BTreeMap<String, Member> {
        let member =
            |uses, tests| Member { id: String::new(), uses: set(uses), tests_use: set(tests) };
        list.iter().map(|(name, uses, tests)| ((*name).to_owned(), member(uses, tests))).collect()
    }

    fn differences(block: &str, list: &[(&str, &str, &str)]) -> Vec<String> {
        let picture = Picture::parse(&format!("```edges\n{block}\n```")).unwrap();
        compare(&picture, &members(list))
    }

    #[test]
    fn a_matching_picture_passes() {
        let list = [("types", "", ""), ("proto", "", ""), ("raft", "types proto", "")];
        assert!(differences("types →\nproto →\nraft → proto types", &list).is_empty());
    }

    #[test]
    fn undrawn_and_unreal_edges_are_reported() {
        let list = [("a", "c", ""), ("b", "", ""), ("c", "", "")];
        let expected = ["a → c: real, not drawn", "a → b: drawn, not real"];
        assert_eq!(differences("a → b\nb →\nc →", &list), expected);
    }

    #[test]
    fn undrawn_and_missing_crates_are_reported() {
        let expected = ["a: not drawn", "b: drawn, but no such crate exists"];
        assert_eq!(differences("b → c\nc →", &[("a", "c", ""), ("c", "", "")]), expected);
    }

    #[test]
    fn tests_may_use_testkit_and_normal_dependencies() {
        let list = [("a", "b", "b testkit"), ("b", "", "testkit"), ("testkit", "", "")];
        assert!(differences("a → b\nb →\ntestkit →", &list).is_empty());
    }

    #[test]
    fn other_dev_dependencies_are_drawn_dashed() {
        let list = [("a", "", "b"), ("b", "", "")];
        assert!(differences("a →\na ⇢ b\nb →", &list).is_empty());
        assert_eq!(differences("a →\nb →", &list), ["a ⇢ b: real, not drawn"]);
        let none = [("a", "", ""), ("b", "", "")];
        assert_eq!(differences("a →\na ⇢ b\nb →", &none), ["a ⇢ b: drawn, not real"]);
    }

    #[test]
    fn a_normal_edge_drawn_dashed_is_reported_twice() {
        let expected = ["a → b: real, not drawn", "a ⇢ b: drawn, not real"];
        assert_eq!(differences("a →\na ⇢ b\nb →", &[("a", "b", ""), ("b", "", "")]), expected);
    }

    #[test]
    fn a_forbidden_dependency_is_reported() {
        let reached = BTreeSet::from(["raft", "bytes", "tokio"]);
        let found = forbidden("raft", &set("tokio tonic"), &reached);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("raft ⊬ tokio: reached"), "{found:?}");
    }
}
