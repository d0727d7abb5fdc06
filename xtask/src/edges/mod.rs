//! Checks the crate dependencies drawn in ARCHITECTURE.md against cargo's metadata.
//!
//! The picture is a fenced block with the info string `edges` and one or more lines per crate:
//!
//! ````text
//! ```edges
//! types →                  depends on no other crate of the workspace
//! raft → types proto       depends on exactly these (normal and build dependencies)
//! raft ⇢ sim               uses exactly these in addition in its tests (dev-dependencies)
//! raft ⊬ tokio tonic       never reaches these, at any depth; any package may stand here
//! ```
//! ````
//!
//! Every crate has one `→` line. A dev-dependency that is also a normal one needs no `⇢`, nor does
//! `testkit`, which all tests may use. Text after a `#` is a comment. Both directions are checked:
//! an edge that is not drawn fails, and so does a drawn edge that does not exist.

mod picture;

mod cargo;
mod compare;

use std::fs;

use anyhow::{Context, Result, ensure};

use crate::architecture;
use crate::workspace::Workspace;
use picture::Picture;

/// Compares the picture with the workspace.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let page = fs::read_to_string(workspace.root.join("ARCHITECTURE.md"))
        .context("read ARCHITECTURE.md")?;
    let picture = Picture::parse(&page).context("ARCHITECTURE.md")?;
    let members = cargo::members(&workspace.cargo_output(&cargo::METADATA)?)?;
    let mut differences = compare::compare(&picture, &members);
    for (name, lines) in &picture.crates {
        if let Some(member) = members.get(name).filter(|_| !lines.never.is_empty()) {
            let tree = workspace.cargo_output(&cargo::tree(&member.id))?;
            differences.extend(compare::forbidden(name, &lines.never, &cargo::reached(&tree)));
        }
    }
    ensure!(differences.is_empty(), "{}", differences.join("\n"));
    println!("{} crates as drawn", members.len());
    architecture::check(workspace)
}
