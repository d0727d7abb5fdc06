//! Returns panics of a simulation as errors.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    /// The panic message of this thread during a simulation; `None` outside of one.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs a simulation. A panic is not printed but returned with its message and place, since it is
/// one of the failures that a simulation looks for.
///
/// # Errors
/// `run` panicked.
pub fn catch_panic<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    capture_panics();
    let outer = PANIC.replace(Some(String::new()));
    let result = catch_unwind(AssertUnwindSafe(run));
    let message = PANIC.replace(outer).unwrap_or_default();
    result.map_err(|_| message)
}

/// Captures panic messages of simulating threads instead of printing them.
fn capture_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let is_captured = PANIC.with_borrow_mut(|panic| {
                panic.as_mut().map(|message| *message = info.to_string()).is_some()
            });
            if !is_captured {
                print(info);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_returned_with_its_message_and_place() {
        assert_eq!(catch_panic(|| 7), Ok(7));
        let error = catch_panic(|| panic!("entry {} is missing", 3)).unwrap_err();
        assert!(error.contains("entry 3 is missing") && error.contains("panics.rs"), "{error}");
    }

    #[test]
    fn calls_can_be_nested() {
        let outer = catch_panic(|| {
            assert_eq!(catch_panic(|| 7), Ok(7));
            panic!("outer");
        });
        assert!(outer.is_err_and(|error: String| error.contains("outer")));
    }
}
