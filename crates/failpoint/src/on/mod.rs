//! The failpoints themselves, in a build that has them.

mod http;
mod parse;
mod registry;
mod terms;

use std::net::TcpListener;
use std::sync::{Arc, LazyLock, OnceLock};
use std::{env, io, thread};

use thiserror::Error;

use registry::Slot;
pub use registry::{EnableError, Registry};
use terms::Value;

use crate::points::POINTS;

/// All points, as the environment has set them.
static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
    let registry = Registry::new(POINTS);
    if let Err(error) = registry.enable_all(&env::var(FAILPOINTS).unwrap_or_default()) {
        // Whoever calls `start` is told, and stops.
        println!("fail to parse failpoint: {error}");
    }
    registry
});

/// Says what which point does.
const FAILPOINTS: &str = "GOFAIL_FAILPOINTS";
/// Says where to listen for whoever wants to change that.
const HTTP: &str = "GOFAIL_HTTP";

/// Why the environment could not be followed.
#[derive(Debug, Error)]
pub enum StartError {
    /// What points should do is not understood.
    #[error("fail to parse failpoint: {0}")]
    Terms(#[from] EnableError),
    /// Nobody can be listened to there.
    #[error("listen for failpoints on {address}: {error}")]
    Listen {
        /// Where.
        address: String,
        /// Why not.
        error: io::Error,
    },
}

/// Does what the environment says: sets points, and listens for whoever wants to change them. To be called before anything else.
///
/// # Errors
/// If the environment makes no sense. etcd stops then.
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

/// All points of this process, for tests that have no process of their own to start.
#[must_use]
pub fn registry() -> &'static Registry {
    &REGISTRY
}

/// A place in the code. Made by [`failpoint!`](crate::failpoint!).
#[derive(Debug)]
pub struct Point {
    name: &'static str,
    slot: OnceLock<Arc<Slot>>,
}

impl Point {
    /// The place of this name.
    #[must_use]
    pub const fn new(name: &'static str) -> Point {
        Point { name, slot: OnceLock::new() }
    }

    /// Does what it was told to; whether it was told to return, with nothing.
    pub fn hit(&self) -> bool {
        match self.evaluate() {
            None => false,
            Some(Value::Nothing) => true,
            Some(value) => {
                self.complain(&value, "struct{}");
                false
            }
        }
    }

    /// Does what it was told to; the text, if it was told to return one.
    pub fn text(&self) -> Option<String> {
        match self.evaluate()? {
            Value::Text(text) => Some(text),
            value => {
                self.complain(&value, "string");
                None
            }
        }
    }

    fn evaluate(&self) -> Option<Value> {
        self.slot.get_or_init(|| REGISTRY.slot(self.name)).evaluate()
    }

    fn complain(&self, value: &Value, expected: &str) {
        let (name, kind) = (self.name, value.kind());
        println!(
            "failpoint: {name:?} got value {value} of type {kind:?} but expected type {expected:?}"
        );
    }
}
