//! Rules for source files of crates: their first line, and vague names.
//!
//! ```text
//!   rule     applies to                example of a violation
//!   module   crates/*/src, xtask/src   a file without a `//!` comment at its top
//!   type     crates, xtask             `struct Place`, `enum State`: qualify it (`ListenerPhase`)
//! ```
//!
//! Test modules (`tests.rs`, `*_tests.rs`, directories named `tests`) need no `//!`: they are read
//! beside the module that they test.

/// Keywords that a type name follows.
const KEYWORDS: [&str; 5] = ["struct", "enum", "trait", "type", "union"];

/// Type names that could stand for anything.
const VAGUE: [&str; 17] = [
    "Place",
    "State",
    "Moment",
    "Kept",
    "Refused",
    "Said",
    "Told",
    "Given",
    "Own",
    "Thing",
    "What",
    "Question",
    "Asked",
    "Elsewhere",
    "Rig",
    "Machine",
    "View",
];

/// Lists the violations in one file, as `path:line: rule`.
pub(crate) fn find(path: &str, text: &str) -> Vec<String> {
    if !is_rust(path) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    if is_module(path) && !text.starts_with("//!") {
        findings.push(format!("{path}:1: no module documentation: begin the file with `//!`"));
    }
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(name) = type_name(line).filter(|name| VAGUE.contains(name)) {
            findings.push(format!("{path}:{number}: type \"{name}\" is too vague: qualify it"));
        }
    }
    findings
}

/// Whether a path is a Rust file of the workspace.
fn is_rust(path: &str) -> bool {
    (path.starts_with("crates/") || path.starts_with("xtask/")) && path.ends_with(".rs")
}

/// Whether a path is a source file that needs module documentation.
fn is_module(path: &str) -> bool {
    let dirs: Vec<&str> = path.split('/').collect();
    let Some((file, dirs)) = dirs.split_last() else { return false };
    let is_crate = matches!(dirs, ["crates", _, "src", ..] | ["xtask", "src", ..]);
    let is_test = dirs.contains(&"tests") || *file == "tests.rs" || file.ends_with("_tests.rs");
    is_crate && !is_test
}

/// The name of the type that a line declares. An indented `type` may be an associated one, whose
/// name the trait has chosen.
fn type_name(line: &str) -> Option<&str> {
    let mut words = line.split([' ', '<', '(', '{', ';', ':']).filter(|word| !word.is_empty());
    let keyword =
        words.find(|word| !word.starts_with("pub") && *word != "crate)" && *word != "super)")?;
    let may_be_associated = keyword == "type" && line.starts_with(' ');
    let is_declared = KEYWORDS.contains(&keyword) && !may_be_associated;
    is_declared.then(|| words.next()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_file_begins_with_module_documentation() {
        assert_eq!(find("crates/a/src/b.rs", "//! B.\n"), [""; 0]);
        let findings = find("crates/a/src/c/b.rs", "use std::io;\n");
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].starts_with("crates/a/src/c/b.rs:1: no module"), "{findings:?}");
    }

    #[test]
    fn tests_and_benches_need_no_module_documentation() {
        for path in [
            "crates/a/src/tests.rs",
            "crates/a/src/b/tests/c.rs",
            "crates/a/src/b_tests.rs",
            "crates/a/tests/b.rs",
            "crates/a/benches/b.rs",
        ] {
            assert_eq!(find(path, "struct StreamState;\n"), [""; 0], "{path}");
            assert_eq!(find(path, "struct State;\n").len(), 1, "{path}");
        }
    }

    #[test]
    fn other_languages_are_exempt() {
        for path in ["interop/cmd/a/main.go", "README.md"] {
            assert_eq!(find(path, "struct State;\n"), [""; 0], "{path}");
        }
    }

    #[test]
    fn vague_type_names_are_found() {
        for line in [
            "struct State;",
            "pub enum Place {",
            "pub(crate) struct Kept<T>(T);",
            "    struct State;",
            "type View = u8;",
        ] {
            let findings = find("crates/a/src/b.rs", &format!("//! B.\n{line}\n"));
            assert_eq!(findings.len(), 1, "{line}: {findings:?}");
            assert!(findings[0].starts_with("crates/a/src/b.rs:2: type "), "{findings:?}");
        }
    }

    #[test]
    fn qualified_and_associated_types_are_allowed() {
        for line in
            ["struct StreamState;", "    type State = u8;", "/// A type State.", "let State = 1;"]
        {
            let findings = find("crates/a/src/b.rs", &format!("//! B.\n{line}\n"));
            assert!(findings.is_empty(), "{line}: {findings:?}");
        }
    }
}
