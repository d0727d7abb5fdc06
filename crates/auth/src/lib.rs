//! Users, roles and permissions; tokens.
//!
//! A [`AuthStore`] answers two questions for every request: who asks, and may they?
//!
//! ```text
//!   token ──► Tokens ──► AuthInfo { alice, revision 7 } ──┐ in the request's header, through the log
//!                                                        ▼
//!   request { range a..c } ────────────────────────────► check ──► alice: roles [ops, web]
//!                                                                  read a ──► c, k      allowed
//! ```
//!
//! What is always true:
//!
//! - Users and roles change only as log entries are applied, in memory and in the transaction of the entry at once; the same entries
//!   give the same answers and the same bytes on every member, and on etcd.
//! - Every change takes the next *auth revision*. A request that was authenticated at an earlier one is refused when it is applied, so a
//!   change of rights takes effect on all that comes after it in the log.
//! - Passwords are hashed and compared outside of any lock, and never while applying (but for entries from before etcd 3.5).
//!
//! ```
//! # use std::{sync::Arc, time::Duration};
//! # let clock = Arc::new(env::SimClock::default());
//! # let disk = Arc::new(env::SimDisk::new(0));
//! # let backend = backend::Backend::open(disk, clock.clone(), "db".as_ref(), backend::Config::default())?;
//! use auth::{AuthStore, Cost, Tokens, hash_password};
//! use proto::etcdserverpb as pb;
//!
//! let store = AuthStore::new(Tokens::simple(Duration::ZERO), clock, Cost::new(4));
//! let mut tx = backend.begin();
//! store.start(&mut tx)?;
//!
//! let hashed_password = hash_password(store.cost(), "secret", &mut env::OsRandom)?;
//! let name = "root".to_owned();
//! store.user_add(&mut tx, &pb::AuthUserAddRequest { name, hashed_password, ..Default::default() })?;
//! let (user, role) = ("root".to_owned(), "root".to_owned());
//! store.user_grant_role(&mut tx, &pb::AuthUserGrantRoleRequest { user, role })?;
//! store.enable(&mut tx)?;
//!
//! assert_eq!(store.check_password("root", "secret")?, 3, "two changes since the first revision");
//! let response = store.authenticate("root", "abcdefghijklmnop", types::Index(9))?;
//! assert_eq!(response.token, "abcdefghijklmnop.9");
//! assert_eq!(store.info_from_token(&response.token)?.username, "root");
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! Left to others: when to ask (`server` and `api`), waiting for a token's index, certificates, and how errors look to clients.

mod error;
mod info;
mod interval;
mod order;
mod password;
mod permit;
mod roles;
mod state;
mod store;
mod token;
mod users;

#[cfg(test)]
mod testdata;

pub use error::{Error, HashError, OptionsError, OptionsReason};
pub use info::AuthInfo;
pub use password::{COST_DEFAULT, COST_MAX, COST_MIN, Cost, PASSWORD_BYTES_MAX, hash_password};
pub use permit::LeaseKeys;
pub use store::AuthStore;
pub use token::{
    JwtTokens, KEY_FILE_BYTES_MAX, SIMPLE_TOKEN_TTL_DEFAULT, SimpleTokens, TOKENS_MAX, Tokens,
};

/// Most bytes of the name of a user or role: what the database takes as a key.
pub const NAME_BYTES_MAX: usize = 32_768;
