//! The messages that would stop etcd, one by one.
