//! The crates and who may know whom: ARCHITECTURE.md draws the picture, cargo knows the truth, both must agree.
//!
//! The picture is a fenced block with the info string `edges`, one line per crate and more where needed:
//!
//! ````text
//! ```edges
//! types →                  depends on no other crate of the workspace
//! raft → types proto       depends on exactly these (normal and build dependencies)
//! raft ⇢ sim               uses exactly these in its tests besides (dev-dependencies)
//! raft ⊬ tokio tonic       never reaches these, at any depth; any package may stand here
//! ```
//! ````
//!
//! Every crate has one `→` line. A dev-dependency that is a normal one too needs no `⇢`, and neither does
//! `testkit`, which every test may use. Blank lines and what follows a `#` are for the reader. The picture
//! fails in both directions: an edge that is not drawn, and a drawn edge that is not there.

mod picture;

mod cargo;
mod compare;

use std::fs;

use anyhow::{Context, Result, ensure};

use crate::workspace::Workspace;
use picture::Picture;

/// Compares the picture with the workspace.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let page = fs::read_to_string(workspace.root.join("ARCHITECTURE.md"))
        .context("read ARCHITECTURE.md")?;
    let picture = Picture::parse(&page).context("ARCHITECTURE.md")?;
    let members = cargo::members(&workspace.cargo_output(&cargo::METADATA)?)?;
    let mut complaints = compare::compare(&picture, &members);
    for (name, lines) in &picture.crates {
        if let Some(member) = members.get(name).filter(|_| !lines.never.is_empty()) {
            let tree = workspace.cargo_output(&cargo::tree(&member.id))?;
            complaints.extend(compare::trespasses(name, &lines.never, &cargo::reached(&tree)));
        }
    }
    ensure!(complaints.is_empty(), "{}", complaints.join("\n"));
    println!("{} crates as drawn", members.len());
    Ok(())
}
