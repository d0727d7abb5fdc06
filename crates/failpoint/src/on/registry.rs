//! What each point was told to do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use thiserror::Error;

use super::terms::{Terms, Value};

/// Why a point could not be set, in gofail's words.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum EnableError {
    /// There is no such point.
    #[error("failpoint: failpoint does not exist")]
    NoSuchPoint,
    /// It was not told to do anything.
    #[error("failpoint: failpoint is disabled")]
    Disabled,
    /// What it should do is not understood.
    #[error("failpoint: could not parse terms")]
    Terms,
    /// A list of points is not understood.
    #[error("bad failpoint {0:?}")]
    List(String),
}

/// All points, and what they were told to do.
#[derive(Debug)]
pub struct Registry {
    slots: RwLock<BTreeMap<String, Arc<Slot>>>,
    /// Held by whoever answers a question, and by a point that ends the process: so the one who told it to is answered first.
    pub(super) answering: Arc<Mutex<()>>,
}

/// One point.
#[derive(Debug)]
pub(crate) struct Slot {
    name: String,
    terms: RwLock<Option<Arc<Terms>>>,
    answering: Arc<Mutex<()>>,
}

impl Registry {
    /// Points of these names, that do nothing.
    #[must_use]
    pub fn new(names: &[&str]) -> Registry {
        let registry = Registry { slots: RwLock::default(), answering: Arc::default() };
        for name in names {
            registry.slot(name);
        }
        registry
    }

    /// Tells a point what to do, instead of what it did.
    ///
    /// # Errors
    /// If there is no such point, or the terms are not understood.
    pub fn enable(&self, name: &str, terms: &str) -> Result<(), EnableError> {
        let slot = self.find(name)?;
        let terms = Terms::parse(name, terms).ok_or(EnableError::Terms)?;
        *slot.terms_mut() = Some(Arc::new(terms));
        Ok(())
    }

    /// Tells several points what to do: `one=panic;two=sleep(5)`.
    ///
    /// # Errors
    /// At the first that is not understood. Those before it are set.
    pub fn enable_all(&self, list: &str) -> Result<(), EnableError> {
        for (name, terms) in parse_list(list)? {
            self.enable(name, terms)?;
        }
        Ok(())
    }

    /// Tells a point to do nothing any more.
    ///
    /// # Errors
    /// If there is no such point, or it does nothing.
    pub fn disable(&self, name: &str) -> Result<(), EnableError> {
        let gone = self.find(name)?.terms_mut().take();
        gone.map(|_| ()).ok_or(EnableError::Disabled)
    }

    /// What a point was told to do, and how often it has.
    ///
    /// # Errors
    /// If there is no such point, or it does nothing.
    pub fn status(&self, name: &str) -> Result<(String, usize), EnableError> {
        let terms = self.find(name)?.terms().ok_or(EnableError::Disabled)?;
        Ok((terms.words().to_owned(), terms.count()))
    }

    /// The names of all points, in order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// The point of this name, which is made if it is not there.
    pub(crate) fn slot(&self, name: &str) -> Arc<Slot> {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        let make = || {
            let answering = Arc::clone(&self.answering);
            Arc::new(Slot { name: name.to_owned(), terms: RwLock::default(), answering })
        };
        Arc::clone(slots.entry(name.to_owned()).or_insert_with(make))
    }

    fn find(&self, name: &str) -> Result<Arc<Slot>, EnableError> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        slots.get(name).cloned().ok_or(EnableError::NoSuchPoint)
    }

    /// Lets nothing end the process for as long as it is held.
    pub(super) fn answer(&self) -> MutexGuard<'_, ()> {
        self.answering.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Does what it was told to. Some if it was told to return something.
    pub(crate) fn evaluate(&self) -> Option<Value> {
        self.terms()?.evaluate(&self.name, &self.answering)
    }

    fn terms(&self) -> Option<Arc<Terms>> {
        self.terms.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn terms_mut(&self) -> std::sync::RwLockWriteGuard<'_, Option<Arc<Terms>>> {
        self.terms.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `one=panic;two=sleep(5)` as names and terms. What is empty between semicolons is passed over.
pub(super) fn parse_list(list: &str) -> Result<Vec<(&str, &str)>, EnableError> {
    let items = list.split(';').filter(|item| !item.is_empty());
    items
        .map(|item| match item.split('=').collect::<Vec<_>>()[..] {
            [name, terms] => Ok((name, terms)),
            _ => Err(EnableError::List(item.to_owned())),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_told_and_asked() {
        let registry = Registry::new(&["a", "b"]);
        assert_eq!(registry.names(), ["a", "b"]);
        assert_eq!(registry.status("a"), Err(EnableError::Disabled));
        assert_eq!(registry.enable("c", "off"), Err(EnableError::NoSuchPoint));
        assert_eq!(registry.enable("a", "nonsense"), Err(EnableError::Terms));
        registry.enable_all("a=1*return(5);;b=return(\"x\")").unwrap();
        assert_eq!(registry.slot("a").evaluate(), Some(Value::Number(5)));
        assert_eq!(registry.slot("a").evaluate(), None);
        assert_eq!(registry.status("a"), Ok(("1*return(5)".into(), 1)));
        registry.disable("b").unwrap();
        assert_eq!(registry.disable("b"), Err(EnableError::Disabled));
        assert_eq!(registry.slot("b").evaluate(), None);
    }

    #[test]
    fn a_list_that_makes_no_sense_is_refused() {
        let registry = Registry::new(&["a"]);
        let error = registry.enable_all("a").unwrap_err();
        assert_eq!(error.to_string(), "bad failpoint \"a\"");
        assert!(registry.enable_all("a=b=c").is_err());
        assert!(registry.enable_all("").is_ok());
    }
}
