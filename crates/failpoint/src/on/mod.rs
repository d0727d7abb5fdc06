//! Failpoints in a build with the feature.

mod evaluation;
mod http;
mod parse;
mod registry;
mod terms;

use std::net::TcpListener;
use std::sync::{Arc, LazyLock, OnceLock};
use std::{env, io, thread};

use thiserror::Error;

pub use evaluation::PointEvaluation;
use registry::PointSlot;
pub use registry::{EnableError, Registry};
use terms::Value;

use crate::points::POINTS;

/// All points, as set by the environment.
static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
    let registry = Registry::new(POINTS);
    if let Err(error) = registry.enable_all(&env::var(FAILPOINTS).unwrap_or_default()) {
        // `start` returns the same error, and the process stops.
        println!("fail to parse failpoint: {error}");
    }
    registry
});

/// Environment variable with the terms of the points.
const FAILPOINTS: &str = "GOFAIL_FAILPOINTS";
/// Environment variable with the address of the HTTP server.
const HTTP: &str = "GOFAIL_HTTP";

/// Reason why the environment is invalid.
#[derive(Debug, Error)]
pub enum StartError {
    /// The terms are invalid.
    #[error("fail to parse failpoint: {0}")]
    Terms(#[from] EnableError),
    /// The HTTP server cannot listen.
    #[error("listen for failpoints on {address}: {error}")]
    Listen {
        /// The address.
        address: String,
        /// The error of the operating system.
        error: io::Error,
    },
}

/// Applies the environment: sets points, and starts the HTTP server. Call it before anything else.
///
/// # Errors
/// If the environment is invalid. etcd stops in this case.
pub fn start() -> Result<(), StartError> {
    Registry::new(POINTS).enable_all(&env::var(FAILPOINTS).unwrap_or_default())?;
    LazyLock::force(&REGISTRY);
    let Ok(address) = env::var(HTTP) else { return Ok(()) };
    let failed = |error| StartError::Listen { address: address.clone(), error };
    let listener = TcpListener::bind(&address).map_err(failed)?;
    let serve = move || http::serve(&listener, &REGISTRY);
    thread::Builder::new().name("failpoints".into()).spawn(serve).map_err(failed)?;
    Ok(())
}

/// The points of this process, for tests that run in it.
#[must_use]
pub fn registry() -> &'static Registry {
    &REGISTRY
}

/// A call site of a failpoint, created by [`failpoint!`](crate::failpoint!).
#[derive(Debug)]
pub struct Point {
    name: &'static str,
    slot: OnceLock<Arc<PointSlot>>,
}

impl Point {
    /// Creates the place of a point.
    #[must_use]
    pub const fn new(name: &'static str) -> Point {
        Point { name, slot: OnceLock::new() }
    }

    /// Evaluates the point. Returns true if it returns without a value.
    pub fn hit(&self) -> bool {
        match self.evaluate() {
            None => false,
            Some(Value::Nothing) => true,
            Some(value) => {
                self.report_type_mismatch(&value, "struct{}");
                false
            }
        }
    }

    /// Evaluates the point. Returns the text, if it returns one.
    pub fn text(&self) -> Option<String> {
        match self.evaluate()? {
            Value::Text(text) => Some(text),
            value => {
                self.report_type_mismatch(&value, "string");
                None
            }
        }
    }

    /// Evaluates the point on a thread of its own: a task that awaits it leaves its thread to
    /// others.
    pub fn hit_on_thread(&self) -> PointEvaluation {
        PointEvaluation::begin(self.slot())
    }

    fn evaluate(&self) -> Option<Value> {
        self.slot().evaluate()
    }

    fn slot(&self) -> &Arc<PointSlot> {
        self.slot.get_or_init(|| REGISTRY.slot(self.name))
    }

    fn report_type_mismatch(&self, value: &Value, expected: &str) {
        let (name, kind) = (self.name, value.kind());
        println!(
            "failpoint: {name:?} got value {value} of type {kind:?} but expected type {expected:?}"
        );
    }
}
