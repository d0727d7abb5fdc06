//! A chain of terms: what a point does, and how often.

use std::fmt;
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use gocompat::GoDuration;

use super::parse;

/// What a point returns.
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

/// What a term does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Off,
    Return,
    Sleep,
    Panic,
    Print,
}

/// When a term may act: all of these must hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum When {
    /// So many times more.
    Times(u64),
    /// With this chance, out of one.
    Chance(f64),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Term {
    pub(super) when: Vec<When>,
    pub(super) action: Action,
    /// None: nothing was said, and something follows.
    pub(super) value: Option<Value>,
}

/// A chain of terms.
#[derive(Debug)]
pub(crate) struct Terms {
    words: String,
    state: Mutex<State>,
    count: AtomicUsize,
}

#[derive(Debug)]
struct State {
    chain: Vec<Term>,
    random: u64,
}

impl Terms {
    /// Reads a chain for the point of this name.
    pub(crate) fn parse(name: &str, words: &str) -> Option<Terms> {
        let chain = parse::chain(words)?;
        // Chance need not be hard to guess, and should differ from point to point and from process to process.
        let seed =
            name.bytes().fold(u64::from(process::id()), |seed, byte| mix(seed ^ u64::from(byte)));
        let state = Mutex::new(State { chain, random: seed });
        Some(Terms { words: words.to_owned(), state, count: AtomicUsize::new(0) })
    }

    /// As it was written.
    pub(crate) fn words(&self) -> &str {
        &self.words
    }

    /// How often a term has acted.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Lets the first term that may act do so. As in gofail, whoever else comes by meanwhile waits.
    pub(crate) fn evaluate(&self, name: &str, answering: &Mutex<()>) -> Option<Value> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { chain, random } = &mut *state;
        let term = chain.iter_mut().find_map(|term| term.may_act(random).then_some(&*term))?;
        self.count.fetch_add(1, Ordering::Relaxed);
        term.act(name, answering)
    }
}

impl Term {
    /// Whether it may act; if so, it counts as having done it. A condition after one that does not hold is not looked at.
    fn may_act(&mut self, random: &mut u64) -> bool {
        self.when.iter_mut().all(|when| match when {
            When::Times(0) => false,
            When::Times(left) => {
                *left -= 1;
                true
            }
            When::Chance(chance) => fraction(random) <= *chance,
        })
    }

    fn act(&self, name: &str, answering: &Mutex<()>) -> Option<Value> {
        match self.action {
            Action::Off => None,
            Action::Return => self.value.clone(),
            Action::Sleep => {
                self.sleep(name);
                None
            }
            Action::Panic => self.end(name, answering),
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

    /// Ends the process where it is: what a panic is in Go. Nothing is unwound, so nothing is tidied up that a power cut would not.
    fn end(&self, name: &str, answering: &Mutex<()>) -> ! {
        let _answered = answering.lock().unwrap_or_else(PoisonError::into_inner);
        match &self.value {
            Some(value) => eprintln!("panic: failpoint panic: {value}"),
            None => eprintln!("panic: failpoint panic: {name}"),
        }
        process::abort()
    }
}

impl Value {
    /// What Go calls its type.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::Nothing => "struct {}",
            Value::Text(_) => "string",
            Value::Number(_) => "int",
            Value::Truth(_) => "bool",
        }
    }
}

/// As Go prints it.
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

/// A number from zero up to one.
fn fraction(random: &mut u64) -> f64 {
    *random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let bits = u32::try_from(mix(*random) >> 32).expect("32 bits are left");
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

    fn run(words: &str, times: usize) -> Vec<Option<Value>> {
        let (terms, answering) = (Terms::parse("p", words).unwrap(), Mutex::new(()));
        (0..times).map(|_| terms.evaluate("p", &answering)).collect()
    }

    fn text(text: &str) -> Option<Value> {
        Some(Value::Text(text.into()))
    }

    #[test]
    fn the_first_term_that_may_act_does() {
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
    fn chances_are_about_as_said() {
        let hits = |words| run(words, 10_000).iter().flatten().count();
        assert!((2_600..3_400).contains(&hits("30.0%return(1)")));
        assert_eq!(hits("0.0%return(1)"), 0);
        assert_eq!(hits("100.0%return(1)"), 10_000);
        assert_eq!(hits("100.0%7*return(1)"), 7);
    }

    #[test]
    fn a_term_that_did_not_act_is_not_counted() {
        let (terms, answering) = (Terms::parse("p", "2*off").unwrap(), Mutex::new(()));
        for _ in 0..5 {
            terms.evaluate("p", &answering);
        }
        assert_eq!(terms.count(), 2);
    }

    #[test]
    fn sleep_takes_its_time() {
        for words in ["sleep(30)", "sleep(\"30ms\")"] {
            let start = Instant::now();
            assert_eq!(run(words, 1), [None]);
            assert!(start.elapsed() >= Duration::from_millis(30), "{words}");
        }
        assert_eq!(run("sleep(\"soon\")", 1), [None]);
    }
}
