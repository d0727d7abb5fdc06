//! Parser of term chains.
//!
//! ```text
//! chain   term ( "->" term )*
//! term    ( number "%" | whole "*" )* action [ "(" [ value ] ")" ]
//! action  off | return | sleep | panic | print
//! value   "text" | whole | true | false
//! ```

use super::terms::{Action, Condition, Term, Value};

/// Maximum length of a chain.
const TERMS_MAX: usize = 1000;

/// Parses a chain. Returns `None` if it is invalid.
pub(super) fn chain(source: &str) -> Option<Vec<Term>> {
    let mut rest = source;
    let mut chain = Vec::new();
    while !rest.is_empty() {
        let (term, after) = term(rest)?;
        chain.push(term);
        rest = match after {
            "" => "",
            after => after.strip_prefix("->")?,
        };
        if chain.len() > TERMS_MAX {
            return None;
        }
    }
    (!chain.is_empty()).then_some(chain)
}

fn term(source: &str) -> Option<(Term, &str)> {
    let (conditions, rest) = conditions(source)?;
    let (action, rest) = action(rest)?;
    let (value, rest) = argument(rest)?;
    Some((Term { conditions, action, value }, rest))
}

/// Parses conditions such as `3*` and `20.5%`.
fn conditions(mut rest: &str) -> Option<(Vec<Condition>, &str)> {
    let mut conditions = Vec::new();
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        if digits == 0 {
            return Some((conditions, rest));
        }
        let (number, after) = rest.split_at(digits);
        if let Some(after) = after.strip_prefix('*') {
            conditions.push(Condition::Times(number.parse().ok()?));
            rest = after;
        } else {
            rest = after.strip_prefix('%')?;
            conditions.push(Condition::Chance(number.parse::<f64>().ok()? / 100.0));
        }
    }
}

fn action(rest: &str) -> Option<(Action, &str)> {
    const ACTIONS: [(&str, Action); 5] = [
        ("off", Action::Off),
        ("return", Action::Return),
        ("sleep", Action::Sleep),
        ("panic", Action::Panic),
        ("print", Action::Print),
    ];
    ACTIONS.into_iter().find_map(|(word, action)| Some((action, rest.strip_prefix(word)?)))
}

/// Parses the argument in parentheses. Compat: as in gofail, a missing one is `Value::Nothing` at
/// the end of the chain, and `None` before it.
fn argument(rest: &str) -> Option<(Option<Value>, &str)> {
    let Some(inside) = rest.strip_prefix('(') else {
        return Some((rest.is_empty().then_some(Value::Nothing), rest));
    };
    if let Some(rest) = inside.strip_prefix(')') {
        return Some((Some(Value::Nothing), rest));
    }
    if let Some(quoted) = inside.strip_prefix('"') {
        let (text, rest) = text(quoted)?;
        return Some((Some(Value::Text(text)), rest.strip_prefix(')')?));
    }
    let (word, rest) = inside.split_once(')')?;
    let value = match word {
        "true" => Value::Truth(true),
        "false" => Value::Truth(false),
        number => Value::Number(number.parse().ok()?),
    };
    Some((Some(value), rest))
}

/// Parses up to the closing quote, with the most useful escapes.
fn text(quoted: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((text, &quoted[at + 1..])),
            '\\' => text.push(match chars.next()?.1 {
                'n' => '\n',
                't' => '\t',
                c @ ('"' | '\\') => c,
                _ => return None,
            }),
            c => text.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(conditions: Vec<Condition>, action: Action, value: Option<Value>) -> Term {
        Term { conditions, action, value }
    }

    #[test]
    fn valid_chains_are_parsed() {
        let nothing = || Some(Value::Nothing);
        assert_eq!(chain("panic"), Some(vec![term(vec![], Action::Panic, nothing())]));
        assert_eq!(
            chain("5%return(\"x\")->1*panic"),
            Some(vec![
                term(vec![Condition::Chance(0.05)], Action::Return, Some(Value::Text("x".into()))),
                term(vec![Condition::Times(1)], Action::Panic, nothing()),
            ])
        );
        assert_eq!(
            chain("panic->3*20.5%sleep(-5)"),
            Some(vec![
                term(vec![], Action::Panic, None),
                term(
                    vec![Condition::Times(3), Condition::Chance(0.205)],
                    Action::Sleep,
                    Some(Value::Number(-5))
                ),
            ])
        );
        assert_eq!(chain("print()->"), Some(vec![term(vec![], Action::Print, nothing())]));
        let quoted = Some(Value::Text("a \"b\" )\\".into()));
        assert_eq!(
            chain(r#"return("a \"b\" )\\")"#),
            Some(vec![term(vec![], Action::Return, quoted)])
        );
    }

    #[test]
    fn invalid_chains_are_refused() {
        for source in [
            "",
            "nonsense",
            "5panic",
            "5*",
            "panic->x",
            "return(",
            "return(\"x",
            "return(x)",
            "off off",
            "1.2.3%off",
            "break",
            "->off",
        ] {
            assert_eq!(chain(source), None, "{source}");
        }
        assert_eq!(chain(&"off->".repeat(TERMS_MAX + 1)), None);
    }
}
