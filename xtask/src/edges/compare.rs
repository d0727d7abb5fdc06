//! Picture against truth: what differs, said so that either can be mended.

use std::collections::{BTreeMap, BTreeSet};

use super::cargo::Member;
use super::picture::{Lines, Picture};

/// Every test may use it, so it is not drawn.
const TESTKIT: &str = "testkit";

/// All differences, in the order of the crates' names.
pub(super) fn compare(picture: &Picture, members: &BTreeMap<String, Member>) -> Vec<String> {
    let names: BTreeSet<&String> = picture.crates.keys().chain(members.keys()).collect();
    let mut complaints = Vec::new();
    for name in names {
        match (picture.crates.get(name), members.get(name)) {
            (Some(lines), Some(member)) => complaints.extend(differences(name, lines, member)),
            (Some(_), None) => {
                complaints.push(format!("{name}: drawn, but there is no such crate"));
            }
            (None, _) => complaints.push(format!("{name}: a crate that is not drawn")),
        }
    }
    complaints
}

/// The packages in `never` that `name` reaches all the same.
pub(super) fn trespasses(
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

fn differences(name: &str, lines: &Lines, member: &Member) -> Vec<String> {
    let needs_drawing = |edge: &&String| *edge != TESTKIT && !member.uses.contains(*edge);
    let tests_use: BTreeSet<String> =
        member.tests_use.iter().filter(needs_drawing).cloned().collect();
    let mut complaints = one_arrow(name, "→", &lines.uses, &member.uses);
    complaints.extend(one_arrow(name, "⇢", &lines.tests_use, &tests_use));
    complaints
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

    fn complaints(block: &str, list: &[(&str, &str, &str)]) -> Vec<String> {
        let picture = Picture::parse(&format!("```edges\n{block}\n```")).unwrap();
        compare(&picture, &members(list))
    }

    #[test]
    fn a_true_picture_passes() {
        let list = [("types", "", ""), ("proto", "", ""), ("raft", "types proto", "")];
        assert!(complaints("types →\nproto →\nraft → proto types", &list).is_empty());
    }

    #[test]
    fn an_edge_must_be_drawn_and_a_drawn_edge_be_real() {
        let list = [("a", "c", ""), ("b", "", ""), ("c", "", "")];
        let meant = ["a → c: real, not drawn", "a → b: drawn, not real"];
        assert_eq!(complaints("a → b\nb →\nc →", &list), meant);
    }

    #[test]
    fn a_crate_must_be_drawn_and_a_drawn_crate_exist() {
        let meant = ["a: a crate that is not drawn", "b: drawn, but there is no such crate"];
        assert_eq!(complaints("b → c\nc →", &[("a", "c", ""), ("c", "", "")]), meant);
    }

    #[test]
    fn tests_may_use_testkit_and_what_the_crate_uses() {
        let list = [("a", "b", "b testkit"), ("b", "", "testkit"), ("testkit", "", "")];
        assert!(complaints("a → b\nb →\ntestkit →", &list).is_empty());
    }

    #[test]
    fn other_edges_of_tests_are_drawn_dashed() {
        let list = [("a", "", "b"), ("b", "", "")];
        assert!(complaints("a →\na ⇢ b\nb →", &list).is_empty());
        assert_eq!(complaints("a →\nb →", &list), ["a ⇢ b: real, not drawn"]);
        let none = [("a", "", ""), ("b", "", "")];
        assert_eq!(complaints("a →\na ⇢ b\nb →", &none), ["a ⇢ b: drawn, not real"]);
    }

    #[test]
    fn a_normal_edge_drawn_dashed_is_wrong_twice() {
        let meant = ["a → b: real, not drawn", "a ⇢ b: drawn, not real"];
        assert_eq!(complaints("a →\na ⇢ b\nb →", &[("a", "b", ""), ("b", "", "")]), meant);
    }

    #[test]
    fn what_is_never_to_be_reached_is_reported_if_it_is() {
        let reached = BTreeSet::from(["raft", "bytes", "tokio"]);
        let found = trespasses("raft", &set("tokio tonic"), &reached);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("raft ⊬ tokio: reached"), "{found:?}");
    }
}
