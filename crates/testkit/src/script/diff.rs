//! A line diff of two texts, for failure messages.

/// Unchanged lines shown around a change.
const CONTEXT: usize = 3;

/// A line of a diff.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Line<'a> {
    Same(&'a str),
    Expected(&'a str),
    Actual(&'a str),
}

/// Returns the diff from `expected` to `actual`: lines marked `-` and `+`, with context.
pub(super) fn diff(expected: &str, actual: &str) -> String {
    let expected: Vec<&str> = expected.lines().collect();
    let actual: Vec<&str> = actual.lines().collect();
    render(&compare(&expected, &actual))
}

/// Aligns both texts along a longest common subsequence.
fn compare<'a>(expected: &[&'a str], actual: &[&'a str]) -> Vec<Line<'a>> {
    let common = common_lengths(expected, actual);
    let (mut e, mut a) = (0, 0);
    let mut lines = Vec::new();
    while e < expected.len() || a < actual.len() {
        if e < expected.len() && a < actual.len() && expected[e] == actual[a] {
            lines.push(Line::Same(expected[e]));
            (e, a) = (e + 1, a + 1);
        } else if a == actual.len() || (e < expected.len() && common[e + 1][a] >= common[e][a + 1])
        {
            lines.push(Line::Expected(expected[e]));
            e += 1;
        } else {
            lines.push(Line::Actual(actual[a]));
            a += 1;
        }
    }
    lines
}

/// Returns a table that has, at `[e][a]`, the length of the longest common subsequence of
/// `expected[e..]` and `actual[a..]`.
fn common_lengths(expected: &[&str], actual: &[&str]) -> Vec<Vec<usize>> {
    let mut lengths = vec![vec![0; actual.len() + 1]; expected.len() + 1];
    for e in (0..expected.len()).rev() {
        for a in (0..actual.len()).rev() {
            lengths[e][a] = if expected[e] == actual[a] {
                lengths[e + 1][a + 1] + 1
            } else {
                lengths[e + 1][a].max(lengths[e][a + 1])
            };
        }
    }
    lengths
}

fn render(lines: &[Line<'_>]) -> String {
    let changed = |line: &Line<'_>| !matches!(line, Line::Same(_));
    let mut text = String::new();
    let mut left_out = false;
    for (i, line) in lines.iter().enumerate() {
        let near = i.saturating_sub(CONTEXT)..(i + CONTEXT + 1).min(lines.len());
        if !lines[near].iter().any(changed) {
            left_out = true;
            continue;
        }
        if std::mem::take(&mut left_out) {
            text.push_str("  ...\n");
        }
        match line {
            Line::Same(line) => text.push_str(&format!("    {line}\n")),
            Line::Expected(line) => text.push_str(&format!("  - {}\n", show_end(line))),
            Line::Actual(line) => text.push_str(&format!("  + {}\n", show_end(line))),
        }
    }
    text
}

/// Makes trailing whitespace visible, since it counts in a comparison.
fn show_end(line: &str) -> String {
    let kept = line.trim_end();
    let hidden = line[kept.len()..].chars().count();
    format!("{kept}{}", "·".repeat(hidden))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_line_is_shown_with_context() {
        assert_eq!(diff("a\nb\nc\n", "a\nx\nc\n"), "    a\n  - b\n  + x\n    c\n");
    }

    #[test]
    fn an_inserted_line_leaves_the_rest_aligned() {
        assert_eq!(diff("a\nb\n", "new\na\nb\n"), "  + new\n    a\n    b\n");
        assert_eq!(diff("a\nb\n", "b\n"), "  - a\n    b\n");
    }

    #[test]
    fn empty_texts_are_compared() {
        assert_eq!(diff("", "a\n"), "  + a\n");
        assert_eq!(diff("a\n", ""), "  - a\n");
    }

    #[test]
    fn distant_lines_are_omitted() {
        let expected: String = (1..=9).map(|n| format!("{n}\n")).collect();
        let actual = expected.replace('9', "x");
        assert_eq!(diff(&expected, &actual), "  ...\n    6\n    7\n    8\n  - 9\n  + x\n");
    }

    #[test]
    fn trailing_whitespace_is_visible() {
        assert_eq!(diff("a\n", "a \n"), "  - a\n  + a·\n");
    }
}
