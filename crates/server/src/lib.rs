//! The replicated state machine: entries of the log in, results out.
