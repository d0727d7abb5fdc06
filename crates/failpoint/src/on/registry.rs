//! The registry of points and their terms.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard, RwLock, RwLockWriteGuard};
use thiserror::Error;

use super::terms::{Terms, Value};

/// Reason why a point could not be set. The texts are gofail's.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum EnableError {
    /// The point does not exist.
    #[error("failpoint: failpoint does not exist")]
    NoSuchPoint,
    /// The point is not enabled.
    #[error("failpoint: failpoint is disabled")]
    Disabled,
    /// The terms are invalid.
    #[error("failpoint: could not parse terms")]
    Terms,
    /// The list of points is invalid.
    #[error("bad failpoint {0:?}")]
    List(String),
}

/// All points with their terms.
#[derive(Debug)]
pub struct Registry {
    slots: RwLock<BTreeMap<String, Arc<PointSlot>>>,
    /// Held while a request is answered, and by a point that aborts the process: so the client that
    /// enabled it gets its response first.
    pub(super) responding: Arc<Mutex<()>>,
}

/// A point.
#[derive(Debug)]
pub(crate) struct PointSlot {
    name: String,
    terms: RwLock<Option<Arc<Terms>>>,
    responding: Arc<Mutex<()>>,
}

impl Registry {
    /// Creates disabled points with these names.
    #[must_use]
    pub fn new(names: &[&str]) -> Registry {
        let registry = Registry { slots: RwLock::default(), responding: Arc::default() };
        for name in names {
            registry.slot(name);
        }
        registry
    }

    /// Sets the terms of a point, replacing earlier ones.
    ///
    /// # Errors
    /// If the point does not exist, or the terms are invalid.
    pub fn enable(&self, name: &str, terms: &str) -> Result<(), EnableError> {
        let slot = self.find(name)?;
        let terms = Terms::parse(name, terms).ok_or(EnableError::Terms)?;
        *slot.terms_mut() = Some(Arc::new(terms));
        Ok(())
    }

    /// Sets the terms of several points: `one=panic;two=sleep(5)`.
    ///
    /// # Errors
    /// At the first invalid one. Points before it are set.
    pub fn enable_all(&self, list: &str) -> Result<(), EnableError> {
        for (name, terms) in parse_list(list)? {
            self.enable(name, terms)?;
        }
        Ok(())
    }

    /// Disables a point.
    ///
    /// # Errors
    /// If the point does not exist, or is not enabled.
    pub fn disable(&self, name: &str) -> Result<(), EnableError> {
        let terms = self.find(name)?.terms_mut().take();
        terms.map(|_| ()).ok_or(EnableError::Disabled)
    }

    /// Returns the terms of a point, and the number of times it acted.
    ///
    /// # Errors
    /// If the point does not exist, or is not enabled.
    pub fn status(&self, name: &str) -> Result<(String, usize), EnableError> {
        let terms = self.find(name)?.terms().ok_or(EnableError::Disabled)?;
        Ok((terms.source().to_owned(), terms.count()))
    }

    /// The names of all points, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.slots.read().keys().cloned().collect()
    }

    /// Returns the point of this name, creating it if it is missing.
    pub(crate) fn slot(&self, name: &str) -> Arc<PointSlot> {
        let mut slots = self.slots.write();
        let make = || {
            let responding = Arc::clone(&self.responding);
            Arc::new(PointSlot { name: name.to_owned(), terms: RwLock::default(), responding })
        };
        Arc::clone(slots.entry(name.to_owned()).or_insert_with(make))
    }

    fn find(&self, name: &str) -> Result<Arc<PointSlot>, EnableError> {
        let slots = self.slots.read();
        slots.get(name).cloned().ok_or(EnableError::NoSuchPoint)
    }

    /// Prevents points from aborting the process while the guard is held.
    pub(super) fn lock_responding(&self) -> MutexGuard<'_, ()> {
        self.responding.lock()
    }
}

impl PointSlot {
    /// Evaluates the point. Returns its value, if it returns one.
    pub(crate) fn evaluate(&self) -> Option<Value> {
        self.terms()?.evaluate(&self.name, &self.responding)
    }

    /// Reports whether the point has terms.
    pub(super) fn is_enabled(&self) -> bool {
        self.terms.read().is_some()
    }

    fn terms(&self) -> Option<Arc<Terms>> {
        self.terms.read().clone()
    }

    fn terms_mut(&self) -> RwLockWriteGuard<'_, Option<Arc<Terms>>> {
        self.terms.write()
    }
}

/// Splits `one=panic;two=sleep(5)` into names and terms. Skips empty items.
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
    fn points_are_enabled_evaluated_and_disabled() {
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
    fn an_invalid_list_is_refused() {
        let registry = Registry::new(&["a"]);
        let error = registry.enable_all("a").unwrap_err();
        assert_eq!(error.to_string(), "bad failpoint \"a\"");
        assert!(registry.enable_all("a=b=c").is_err());
        assert!(registry.enable_all("").is_ok());
    }
}
