//! Users, roles and permissions; tokens.
//!
//! An [`AuthStore`] answers two questions about every request: which user sends it, and is that
//! user permitted to?
//!
//! ```text
//!   token ─► Tokens ─► AuthInfo { alice, revision 7 } ─┐ in the request's header, through the log
//!                                                     ▼
//!   request { range a..c } ────────────────────────► check ─► alice: roles [ops, web]
//!                                                             read a ─► c, k      permitted
//! ```
//!
//! Invariants:
//!
//! - Users and roles change only when log entries are applied, in memory and in the transaction of
//!   the entry together. The same entries give the same replies and bytes on every member, and on
//!   etcd.
//! - Every change increments the *auth revision*. A request that was authenticated at an earlier
//!   revision is refused when it is applied, so a change of permissions takes effect on everything
//!   after it in the log.
//! - Passwords are hashed and compared outside of all locks, and never while applying, except for
//!   entries from before etcd 3.5.
//!
//! ```
//! # use std::{sync::Arc, time::Duration};
//! # let clock = Arc::new(env::SimClock::default());
//! # let disk = Arc::new(env::SimDisk::new(0));
//! # let config = backend::Config::default();
//! # let backend = backend::Backend::open(disk, clock.clone(), "db".as_ref(), config)?;
//! use auth::{AuthStore, Cost, Tokens, hash_password};
//! use proto::etcdserverpb as pb;
//!
//! let store = AuthStore::new(Tokens::simple(Duration::ZERO), clock, Cost::new(4));
//! let mut tx = backend.begin();
//! store.start(&mut tx)?;
//!
//! let hashed_password = hash_password(store.cost(), "secret", &mut env::OsRandom)?;
//! let name = "root".to_owned();
//! let add = pb::AuthUserAddRequest { name, hashed_password, ..Default::default() };
//! store.user_add(&mut tx, &add)?;
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
//! Not here: which checks a request needs (`server` and `api`), waiting for the index of a token,
//! certificates, and the texts that clients see.

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

pub use error::{Error, HashError, OptionsError, OptionsReason};
pub use info::AuthInfo;
pub use password::{COST_DEFAULT, COST_MAX, COST_MIN, Cost, PASSWORD_BYTES_MAX, hash_password};
pub use permit::LeaseKeys;
pub use store::AuthStore;
pub use token::{
    JwtTokens, KEY_FILE_BYTES_MAX, SIMPLE_TOKEN_TTL_DEFAULT, SimpleTokens, TOKENS_MAX, Tokens,
};

/// The most bytes of the name of a user or role: the longest key of the database.
pub const NAME_BYTES_MAX: usize = 32_768;
