//! Bytes that are almost messages.
