//! Simple tokens: random letters, stored in the memory of every member.
//!
//! ```text
//!   fbCZpKxDEEcsxGSh . 41     of alice, assigned by log entry 41, expires 300 s after its last use
//!   └─── random ───┘
//! ```
//!
//! The member that receives the request draws the letters, and the log carries them, so all members
//! assign the same token. A member that is behind waits until it has applied the entry at the
//! token's index; then it either knows the token or never will.
//!
//! Tokens do not survive a restart of the member. Invariant: `users` and `by_expiry` hold the same
//! tokens.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use env::Random;
use parking_lot::Mutex;
use types::Index;

/// The default time without use after which a token expires.
pub const SIMPLE_TOKEN_TTL_DEFAULT: Duration = Duration::from_secs(300);

/// The most tokens that a member stores. Beyond it, the token that expires first is dropped.
pub const TOKENS_MAX: usize = 1 << 20;

const LETTERS: &[u8; 52] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const PREFIX_LETTERS: usize = 16;

/// The smallest extension of an expiry that is recorded, so that most uses of a token change
/// nothing. It is added to the TTL, so no token expires early.
const SLIDE_MIN: Duration = Duration::from_millis(100);

/// Stores tokens and their users.
#[derive(Debug)]
pub struct SimpleTokens {
    ttl: Duration,
    table: Mutex<TokenTable>,
}

#[derive(Debug, Default)]
struct TokenTable {
    enabled: bool,
    users: BTreeMap<String, TokenEntry>,
    by_expiry: BTreeSet<(Duration, String)>,
}

#[derive(Debug)]
struct TokenEntry {
    user: String,
    expires: Duration,
}

impl SimpleTokens {
    /// Creates an empty table. A TTL of zero selects the default.
    #[must_use]
    pub fn new(ttl: Duration) -> SimpleTokens {
        let ttl = if ttl.is_zero() { SIMPLE_TOKEN_TTL_DEFAULT } else { ttl };
        SimpleTokens { ttl, table: Mutex::default() }
    }

    pub(crate) fn set_enabled(&self, enabled: bool) {
        let mut table = self.table.lock();
        if !enabled {
            *table = TokenTable::default();
        }
        table.enabled = enabled;
    }

    pub(crate) fn assign(&self, user: String, prefix: &str, index: Index, now: Duration) -> String {
        let token = format!("{prefix}.{index}");
        let mut table = self.table.lock();
        if table.enabled {
            table.remove_expired(now);
            table.remove(&token);
            table.insert(token.clone(), TokenEntry { user, expires: self.expiry(now) });
        }
        token
    }

    /// Returns the user of a token and extends its expiry.
    pub(crate) fn user_of(&self, token: &str, now: Duration) -> Option<String> {
        let expires = self.expiry(now);
        let mut table = self.table.lock();
        let entry = table.users.get(token)?;
        if now > entry.expires {
            table.remove(token);
            return None;
        }
        let user = entry.user.clone();
        if expires >= entry.expires.saturating_add(SLIDE_MIN) {
            let entry = table.remove(token)?;
            table.insert(token.to_owned(), TokenEntry { expires, ..entry });
        }
        Some(user)
    }

    pub(crate) fn invalidate(&self, matches: impl Fn(&str) -> bool) {
        let mut table = self.table.lock();
        let TokenTable { users, by_expiry, .. } = &mut *table;
        users.retain(|_, entry| !matches(&entry.user));
        by_expiry.retain(|(_, token)| users.contains_key(token));
    }

    /// Returns when a token used now expires.
    fn expiry(&self, now: Duration) -> Duration {
        now.saturating_add(self.ttl).saturating_add(SLIDE_MIN)
    }
}

impl TokenTable {
    fn insert(&mut self, token: String, entry: TokenEntry) {
        if self.users.len() >= TOKENS_MAX {
            self.remove_first();
        }
        self.by_expiry.insert((entry.expires, token.clone()));
        self.users.insert(token, entry);
    }

    fn remove(&mut self, token: &str) -> Option<TokenEntry> {
        let entry = self.users.remove(token)?;
        self.by_expiry.remove(&(entry.expires, token.to_owned()));
        Some(entry)
    }

    fn remove_expired(&mut self, now: Duration) {
        while self.by_expiry.first().is_some_and(|(expires, _)| now > *expires) {
            self.remove_first();
        }
    }

    fn remove_first(&mut self) {
        if let Some((_, token)) = self.by_expiry.pop_first() {
            self.users.remove(&token);
        }
    }
}

/// Draws the random part of a token.
pub(crate) fn prefix(random: &mut dyn Random) -> io::Result<String> {
    (0..PREFIX_LETTERS).map(|_| letter(random)).collect()
}

/// Draws one of 52 letters, uniformly: numbers from the incomplete last cycle are rejected.
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

/// Returns the index of the entry that assigned a token, or `None` if the token is malformed.
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
    fn every_letter_occurs() {
        let mut random = SeededRandom::new(3);
        let drawn: BTreeSet<char> = (0..5000).map(|_| letter(&mut random).unwrap()).collect();
        assert_eq!(drawn.len(), LETTERS.len());
    }

    #[test]
    fn a_token_without_an_index_is_malformed() {
        for token in ["", "a", "a.", ".", "a.b", "a.1.2", "a.+1", "a.-1", "a.99999999999999999999"]
        {
            assert_eq!(index_of(token), None, "{token}");
        }
        assert_eq!(index_of(".0"), Some(Index(0)));
        assert_eq!(index_of("a.18446744073709551615"), Some(Index::MAX));
    }

    #[test]
    fn using_a_token_extends_its_life() {
        let tokens = tokens();
        let token = tokens.assign("alice".into(), "a", Index(1), Duration::ZERO);
        for use_at in [9.9, 19.8, 19.85, 29.8] {
            assert!(tokens.user_of(&token, seconds(use_at)).is_some(), "{use_at}");
        }
        assert_eq!(tokens.user_of(&token, seconds(40.1)), None);
        assert_eq!(tokens.user_of(&token, seconds(29.9)), None, "dropped once expired");
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
    fn unused_tokens_expire() {
        let tokens = tokens();
        for second in 0..100 {
            tokens.assign("alice".into(), "a", Index(second), Duration::from_secs(second));
        }
        let table = tokens.table.lock();
        assert!(table.users.len() <= 12, "{}", table.users.len());
        assert_eq!(table.users.len(), table.by_expiry.len());
    }

    #[test]
    fn the_tokens_of_one_user_can_be_invalidated() {
        let tokens = tokens();
        let assign = |user: &str, index| tokens.assign(user.into(), "a", Index(index), TTL);
        let (one, two, other) = (assign("alice", 1), assign("alice", 2), assign("bob", 3));
        tokens.invalidate(|user| user == "alice");
        assert_eq!([&one, &two].map(|token| tokens.user_of(token, TTL)), [None, None]);
        assert_eq!(tokens.user_of(&other, TTL).unwrap(), "bob");
        assert_eq!(tokens.table.lock().by_expiry.len(), 1);
    }

    #[test]
    fn disabling_authentication_drops_all_tokens() {
        let tokens = tokens();
        let before = tokens.assign("alice".into(), "a", Index(1), TTL);
        tokens.set_enabled(false);
        let meanwhile = tokens.assign("alice".into(), "a", Index(2), TTL);
        tokens.set_enabled(true);
        assert_eq!([before, meanwhile].map(|token| tokens.user_of(&token, TTL)), [None, None]);
    }

    #[test]
    fn a_token_assigned_twice_belongs_to_the_second_user() {
        let tokens = tokens();
        tokens.assign("alice".into(), "a", Index(1), TTL);
        let token = tokens.assign("bob".into(), "a", Index(1), TTL);
        assert_eq!(tokens.user_of(&token, TTL).unwrap(), "bob");
        assert_eq!(tokens.table.lock().by_expiry.len(), 1);
    }
}
