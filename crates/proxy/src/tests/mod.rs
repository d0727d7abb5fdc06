//! Support for the tests of several modules.

pub(crate) mod fake_member;
