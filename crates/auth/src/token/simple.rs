//! Simple tokens.
//!
//! ```text
//!   fbCZpKxDEEcsxGSh . 41          assigned by the log entry at index 41, to alice, until 300 s after it was last used
//!   └── at random ──┘
//! ```
//!
//! The letters are drawn by the member that took the request and come through the log, so all members assign the same token. A member that
//! is behind waits until it has applied the entry at the token's index, and then knows the token or never will.
//!
//! Tokens are in memory only: after a restart of a member they are unknown to it. Invariant: `users` and `by_expiry` hold the same
//! tokens.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use env::Random;
use types::Index;

/// How long a token is known after it was last used, unless told otherwise.
pub const SIMPLE_TOKEN_TTL_DEFAULT: Duration = Duration::from_secs(300);

/// Most tokens that are remembered. Past that, the one that would expire first goes.
pub const TOKENS_MAX: usize = 1 << 20;

const LETTERS: &[u8; 52] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const PREFIX_LETTERS: usize = 16;

/// How much later a token has to expire for that to be written down: most uses of a token then change nothing. It is given on top of the
/// time to live, so no token expires early.
const SLIDE_MIN: Duration = Duration::from_millis(100);

/// Tokens that are remembered.
#[derive(Debug)]
pub struct SimpleTokens {
    ttl: Duration,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    enabled: bool,
    users: BTreeMap<String, Entry>,
    by_expiry: BTreeSet<(Duration, String)>,
}

#[derive(Debug)]
struct Entry {
    user: String,
    expires: Duration,
}

impl SimpleTokens {
    /// None yet. A time to live of zero is the default one.
    #[must_use]
    pub fn new(ttl: Duration) -> SimpleTokens {
        let ttl = if ttl.is_zero() { SIMPLE_TOKEN_TTL_DEFAULT } else { ttl };
        SimpleTokens { ttl, known: Mutex::default() }
    }

    pub(crate) fn set_enabled(&self, enabled: bool) {
        let mut known = self.known();
        if !enabled {
            *known = Known::default();
        }
        known.enabled = enabled;
    }

    pub(crate) fn assign(&self, user: String, prefix: &str, index: Index, now: Duration) -> String {
        let token = format!("{prefix}.{index}");
        let mut known = self.known();
        if known.enabled {
            known.forget_expired(now);
            known.forget(&token);
            known.remember(token.clone(), Entry { user, expires: self.expiry(now) });
        }
        token
    }

    /// Whose token it is. That counts as use.
    pub(crate) fn user_of(&self, token: &str, now: Duration) -> Option<String> {
        let expires = self.expiry(now);
        let mut known = self.known();
        let entry = known.users.get(token)?;
        if now > entry.expires {
            known.forget(token);
            return None;
        }
        let user = entry.user.clone();
        if expires >= entry.expires.saturating_add(SLIDE_MIN) {
            let entry = known.forget(token)?;
            known.remember(token.to_owned(), Entry { expires, ..entry });
        }
        Some(user)
    }

    pub(crate) fn invalidate(&self, gone: impl Fn(&str) -> bool) {
        let mut known = self.known();
        let Known { users, by_expiry, .. } = &mut *known;
        users.retain(|_, entry| !gone(&entry.user));
        by_expiry.retain(|(_, token)| users.contains_key(token));
    }

    /// When a token that is used now expires.
    fn expiry(&self, now: Duration) -> Duration {
        now.saturating_add(self.ttl).saturating_add(SLIDE_MIN)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn remember(&mut self, token: String, entry: Entry) {
        if self.users.len() >= TOKENS_MAX {
            self.forget_first();
        }
        self.by_expiry.insert((entry.expires, token.clone()));
        self.users.insert(token, entry);
    }

    fn forget(&mut self, token: &str) -> Option<Entry> {
        let entry = self.users.remove(token)?;
        self.by_expiry.remove(&(entry.expires, token.to_owned()));
        Some(entry)
    }

    fn forget_expired(&mut self, now: Duration) {
        while self.by_expiry.first().is_some_and(|(expires, _)| now > *expires) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some((_, token)) = self.by_expiry.pop_first() {
            self.users.remove(&token);
        }
    }
}

/// Letters at random.
pub(crate) fn prefix(random: &mut dyn Random) -> io::Result<String> {
    (0..PREFIX_LETTERS).map(|_| letter(random)).collect()
}

/// One of 52, each as likely: what is left over of 64 bits is drawn again.
fn letter(random: &mut dyn Random) -> io::Result<char> {
    const COUNT: u64 = LETTERS.len() as u64;
    const EVEN: u64 = u64::MAX - u64::MAX % COUNT;
    loop {
        let drawn = random.next_u64()?;
        if drawn < EVEN {
            return Ok(char::from(LETTERS[(drawn % COUNT) as usize]));
        }
    }
}

/// The entry that assigned a token. None if it is no token.
pub(crate) fn index_of(token: &str) -> Option<Index> {
    let (_, index) = token.split_once('.')?;
    if index.is_empty() || !index.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    index.parse().ok().map(Index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::SeededRandom;

    const TTL: Duration = Duration::from_secs(10);

    fn tokens() -> SimpleTokens {
        let tokens = SimpleTokens::new(TTL);
        tokens.set_enabled(true);
        tokens
    }

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn a_token_is_letters_and_an_index() {
        let prefix = prefix(&mut SeededRandom::new(1)).unwrap();
        assert_eq!(prefix.len(), 16);
        assert!(prefix.bytes().all(|letter| letter.is_ascii_alphabetic()), "{prefix}");
        let tokens = tokens();
        let token = tokens.assign("alice".into(), &prefix, Index(41), Duration::ZERO);
        assert_eq!(token, format!("{prefix}.41"));
        assert_eq!(index_of(&token), Some(Index(41)));
        assert_eq!(tokens.user_of(&token, Duration::ZERO).unwrap(), "alice");
        assert_eq!(tokens.user_of("other.41", Duration::ZERO), None);
    }

    #[test]
    fn every_letter_is_drawn() {
        let mut random = SeededRandom::new(3);
        let drawn: BTreeSet<char> = (0..5000).map(|_| letter(&mut random).unwrap()).collect();
        assert_eq!(drawn.len(), LETTERS.len());
    }

    #[test]
    fn what_has_no_index_is_no_token() {
        for token in ["", "a", "a.", ".", "a.b", "a.1.2", "a.+1", "a.-1", "a.99999999999999999999"]
        {
            assert_eq!(index_of(token), None, "{token}");
        }
        assert_eq!(index_of(".0"), Some(Index(0)));
        assert_eq!(index_of("a.18446744073709551615"), Some(Index::MAX));
    }

    #[test]
    fn a_token_lives_as_long_as_it_is_used() {
        let tokens = tokens();
        let token = tokens.assign("alice".into(), "a", Index(1), Duration::ZERO);
        for use_at in [9.9, 19.8, 19.85, 29.8] {
            assert!(tokens.user_of(&token, seconds(use_at)).is_some(), "{use_at}");
        }
        assert_eq!(tokens.user_of(&token, seconds(40.1)), None);
        assert_eq!(tokens.user_of(&token, seconds(29.9)), None, "once expired, forgotten");
    }

    #[test]
    fn a_token_may_live_forever() {
        let tokens = SimpleTokens::new(Duration::MAX);
        tokens.set_enabled(true);
        let token = tokens.assign("alice".into(), "a", Index(1), TTL);
        assert_eq!(tokens.user_of(&token, Duration::MAX).unwrap(), "alice");
        assert_eq!(SimpleTokens::new(Duration::ZERO).ttl, SIMPLE_TOKEN_TTL_DEFAULT);
    }

    #[test]
    fn tokens_that_nobody_uses_are_forgotten() {
        let tokens = tokens();
        for second in 0..100 {
            tokens.assign("alice".into(), "a", Index(second), Duration::from_secs(second));
        }
        let known = tokens.known();
        assert!(known.users.len() <= 12, "{}", known.users.len());
        assert_eq!(known.users.len(), known.by_expiry.len());
    }

    #[test]
    fn the_tokens_of_a_user_can_be_forgotten() {
        let tokens = tokens();
        let assign = |user: &str, index| tokens.assign(user.into(), "a", Index(index), TTL);
        let (one, two, other) = (assign("alice", 1), assign("alice", 2), assign("bob", 3));
        tokens.invalidate(|user| user == "alice");
        assert_eq!([&one, &two].map(|token| tokens.user_of(token, TTL)), [None, None]);
        assert_eq!(tokens.user_of(&other, TTL).unwrap(), "bob");
        assert_eq!(tokens.known().by_expiry.len(), 1);
    }

    #[test]
    fn there_are_none_while_authentication_is_disabled() {
        let tokens = tokens();
        let before = tokens.assign("alice".into(), "a", Index(1), TTL);
        tokens.set_enabled(false);
        let meanwhile = tokens.assign("alice".into(), "a", Index(2), TTL);
        tokens.set_enabled(true);
        assert_eq!([before, meanwhile].map(|token| tokens.user_of(&token, TTL)), [None, None]);
    }

    #[test]
    fn the_same_token_twice_is_the_latters() {
        let tokens = tokens();
        tokens.assign("alice".into(), "a", Index(1), TTL);
        let token = tokens.assign("bob".into(), "a", Index(1), TTL);
        assert_eq!(tokens.user_of(&token, TTL).unwrap(), "bob");
        assert_eq!(tokens.known().by_expiry.len(), 1);
    }
}
