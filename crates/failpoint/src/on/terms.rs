//! Evaluation of term chains.

use std::fmt;
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use gocompat::GoDuration;
use parking_lot::Mutex;

use super::parse;

/// A value that a point returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// `return`, `return()`.
    Nothing,
    /// `return("text")`.
    Text(String),
    /// `return(5)`.
    Number(i64),
    /// `return(true)`.
    Truth(bool),
}

/// The action of a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Off,
    Return,
    Sleep,
    Panic,
    Print,
}

/// A condition of a term; all of them must hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Condition {
    /// Remaining number of times.
    Times(u64),
    /// Probability, from 0 to 1.
    Chance(f64),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Term {
    pub(super) conditions: Vec<Condition>,
    pub(super) action: Action,
    /// `None` without parentheses before another term.
    pub(super) value: Option<Value>,
}

/// A chain of terms.
#[derive(Debug)]
pub(crate) struct Terms {
    source: String,
    state: Mutex<ChainState>,
    count: AtomicUsize,
}

#[derive(Debug)]
struct ChainState {
    chain: Vec<Term>,
    random: u64,
}

impl Terms {
    /// Parses a chain for the point of this name.
    pub(crate) fn parse(name: &str, source: &str) -> Option<Terms> {
        let chain = parse::chain(source)?;
        // The seed need not be unpredictable, but should differ between points and processes.
        let seed =
            name.bytes().fold(u64::from(process::id()), |seed, byte| mix(seed ^ u64::from(byte)));
        let state = Mutex::new(ChainState { chain, random: seed });
        Some(Terms { source: source.to_owned(), state, count: AtomicUsize::new(0) })
    }

    /// The source text.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Number of times that a term acted.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Runs the first eligible term. Compat: as in gofail, concurrent evaluations wait meanwhile.
    pub(crate) fn evaluate(&self, name: &str, responding: &Mutex<()>) -> Option<Value> {
        let mut state = self.state.lock();
        let ChainState { chain, random } = &mut *state;
        let term = chain.iter_mut().find_map(|term| term.may_act(random).then_some(&*term))?;
        self.count.fetch_add(1, Ordering::Relaxed);
        term.act(name, responding)
    }
}

impl Term {
    /// Reports whether the term is eligible, and counts it if so. Stops at the first condition that
    /// does not hold.
    fn may_act(&mut self, random: &mut u64) -> bool {
        self.conditions.iter_mut().all(|condition| match condition {
            Condition::Times(0) => false,
            Condition::Times(left) => {
                *left -= 1;
                true
            }
            Condition::Chance(chance) => fraction(random) <= *chance,
        })
    }

    fn act(&self, name: &str, responding: &Mutex<()>) -> Option<Value> {
        match self.action {
            Action::Off => None,
            Action::Return => self.value.clone(),
            Action::Sleep => {
                self.sleep(name);
                None
            }
            Action::Panic => self.abort(name, responding),
            Action::Print => {
                println!("failpoint print: {name}");
                None
            }
        }
    }

    fn sleep(&self, name: &str) {
        match &self.value {
            Some(Value::Number(ms)) => {
                thread::sleep(Duration::from_millis(u64::try_from(*ms).unwrap_or(0)));
            }
            Some(Value::Text(text)) => match GoDuration::parse(text) {
                Ok(duration) => thread::sleep(duration.non_negative()),
                Err(_) => println!("failpoint: could not parse sleep({text}) on {name}"),
            },
            Some(value) => println!("failpoint: ignoring sleep({value}) on {name}"),
            None => println!("failpoint: ignoring sleep(<nil>) on {name}"),
        }
    }

    /// Aborts the process without unwinding, like a Go panic, so that no cleanup happens that a
    /// power cut would prevent.
    fn abort(&self, name: &str, responding: &Mutex<()>) -> ! {
        let _guard = responding.lock();
        match &self.value {
            Some(value) => eprintln!("panic: failpoint panic: {value}"),
            None => eprintln!("panic: failpoint panic: {name}"),
        }
        process::abort()
    }
}

impl Value {
    /// The name of the type in Go.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::Nothing => "struct {}",
            Value::Text(_) => "string",
            Value::Number(_) => "int",
            Value::Truth(_) => "bool",
        }
    }
}

/// Formats the value as Go does.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Nothing => f.write_str("{}"),
            Value::Text(text) => f.write_str(text),
            Value::Number(number) => number.fmt(f),
            Value::Truth(truth) => truth.fmt(f),
        }
    }
}

/// Returns a number from 0 to 1.
fn fraction(random: &mut u64) -> f64 {
    *random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let bits = u32::try_from(mix(*random) >> 32).expect("32 bits remain");
    f64::from(bits) / f64::from(u32::MAX)
}

fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn run(source: &str, times: usize) -> Vec<Option<Value>> {
        let (terms, responding) = (Terms::parse("p", source).unwrap(), Mutex::new(()));
        (0..times).map(|_| terms.evaluate("p", &responding)).collect()
    }

    fn text(text: &str) -> Option<Value> {
        Some(Value::Text(text.into()))
    }

    #[test]
    fn the_first_eligible_term_acts() {
        assert_eq!(
            run("2*off->1*return(\"a\")->return(\"b\")", 5),
            [None, None, text("a"), text("b"), text("b")]
        );
        assert_eq!(run("1*return(3)", 3), [Some(Value::Number(3)), None, None]);
        assert_eq!(run("return", 1), [Some(Value::Nothing)]);
        assert_eq!(run("return(false)", 1), [Some(Value::Truth(false))]);
        assert_eq!(run("print", 1), [None]);
    }

    #[test]
    fn probabilities_are_approximately_as_given() {
        let hits = |source| run(source, 10_000).iter().flatten().count();
        assert!((2_600..3_400).contains(&hits("30.0%return(1)")));
        assert_eq!(hits("0.0%return(1)"), 0);
        assert_eq!(hits("100.0%return(1)"), 10_000);
        assert_eq!(hits("100.0%7*return(1)"), 7);
    }

    #[test]
    fn only_terms_that_acted_are_counted() {
        let (terms, responding) = (Terms::parse("p", "2*off").unwrap(), Mutex::new(()));
        for _ in 0..5 {
            terms.evaluate("p", &responding);
        }
        assert_eq!(terms.count(), 2);
    }

    #[test]
    fn sleep_lasts_as_long_as_given() {
        for source in ["sleep(30)", "sleep(\"30ms\")"] {
            let start = Instant::now();
            assert_eq!(run(source, 1), [None]);
            assert!(start.elapsed() >= Duration::from_millis(30), "{source}");
        }
        assert_eq!(run("sleep(\"soon\")", 1), [None]);
    }
}
