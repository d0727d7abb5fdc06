//! Parser of the `edges` block in a Markdown page.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};

/// All crates in the block.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Picture {
    pub(super) crates: BTreeMap<String, Lines>,
}

/// The lines of one crate.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Lines {
    /// `→`: normal and build dependencies within the workspace.
    pub(super) uses: BTreeSet<String>,
    /// `⇢`: additional dev-dependencies within the workspace.
    pub(super) tests_use: BTreeSet<String>,
    /// `⊬`: forbidden packages, at any depth.
    pub(super) never: BTreeSet<String>,
}

impl Picture {
    /// Parses the only `edges` block of `page`.
    pub(super) fn parse(page: &str) -> Result<Picture> {
        let mut picture = Picture::default();
        let mut seen = BTreeSet::new();
        for (number, line) in block(page)? {
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            if let Some((name, rest)) = words.split_first() {
                picture.add(name, rest, &mut seen).with_context(|| format!("line {number}"))?;
            }
        }
        for name in picture.crates.keys() {
            ensure!(seen.contains(&(name.clone(), "→")), "{name} has no → line");
        }
        Ok(picture)
    }

    fn add(
        &mut self,
        name: &str,
        rest: &[&str],
        seen: &mut BTreeSet<(String, &'static str)>,
    ) -> Result<()> {
        let (arrow, names) = rest.split_first().context("a crate without an arrow")?;
        let lines = self.crates.entry(name.to_owned()).or_default();
        let (arrow, drawn) = match *arrow {
            "→" => ("→", &mut lines.uses),
            "⇢" => ("⇢", &mut lines.tests_use),
            "⊬" => ("⊬", &mut lines.never),
            other => bail!("{other} is not one of the arrows → ⇢ ⊬"),
        };
        ensure!(seen.insert((name.to_owned(), arrow)), "{name} {arrow} is listed twice");
        for name in names {
            ensure!(drawn.insert((*name).to_owned()), "{name} is listed twice");
        }
        Ok(())
    }
}

/// Returns the lines inside the block with their line numbers.
fn block(page: &str) -> Result<Vec<(usize, &str)>> {
    let lines: Vec<(usize, &str)> = (1..).zip(page.lines().map(str::trim)).collect();
    let mut starts = (0..lines.len()).filter(|&at| lines[at].1 == "```edges");
    let start = starts.next().context("no block that begins with ```edges")? + 1;
    ensure!(starts.next().is_none(), "more than one block that begins with ```edges");
    let length = lines[start..]
        .iter()
        .position(|(_, line)| *line == "```")
        .context("the block that begins with ```edges never ends")?;
    Ok(lines[start..start + length].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn rejected(block: &str) -> String {
        format!("{:#}", Picture::parse(&format!("# Page\n```edges\n{block}\n```\n")).unwrap_err())
    }

    #[test]
    fn the_block_of_a_page_is_parsed() {
        let page = "# Page\n\n```text\nx → y\n```\n\n```edges\n# Values.\ntypes →\n\n\
                    raft → types proto   # and no more\nraft ⇢ sim\nraft ⊬ tokio\n```\n\nMore → text.\n";
        let picture = Picture::parse(page).unwrap();
        assert_eq!(picture.crates.len(), 2);
        assert_eq!(picture.crates["types"], Lines::default());
        let raft = &picture.crates["raft"];
        assert_eq!(raft.uses, set(&["types", "proto"]));
        assert_eq!(raft.tests_use, set(&["sim"]));
        assert_eq!(raft.never, set(&["tokio"]));
    }

    #[test]
    fn a_missing_repeated_or_unclosed_block_is_rejected() {
        let error = |page| Picture::parse(page).unwrap_err().to_string();
        assert_eq!(error("a → b\n"), "no block that begins with ```edges");
        assert_eq!(error("```edges\na →\n"), "the block that begins with ```edges never ends");
        let twice = "```edges\n```\n```edges\n```\n";
        assert_eq!(error(twice), "more than one block that begins with ```edges");
    }

    #[test]
    fn invalid_lines_are_reported_with_their_number() {
        assert_eq!(rejected("types"), "line 3: a crate without an arrow");
        assert_eq!(rejected("a →\nb -> a"), "line 4: -> is not one of the arrows → ⇢ ⊬");
        assert_eq!(rejected("a → b\na → c"), "line 4: a → is listed twice");
        assert_eq!(rejected("a → b b"), "line 3: b is listed twice");
        assert_eq!(rejected("a ⊬ tokio"), "a has no → line");
    }
}
