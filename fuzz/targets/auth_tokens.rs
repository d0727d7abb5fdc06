//! Reads arbitrary bytes as tokens, token options and key files. The first byte selects the
//! decoder:
//!
//! ```text
//!   0   the token of a request, to a member with simple tokens and to one with signed tokens
//!   1   the JSON of a token, header and claims in one line each, which the target signs
//!   2   the value of `--auth-token` in the first line, and the key file that it names
//!   3   a key in DER, to be put into PEM
//! ```
//!
//! Invariants: no panic. A simple token is accepted only if it was assigned, a signed one only with
//! a valid signature. A signed token is accepted exactly if its claims are those of etcd's tokens
//! and the time is right, and names the user of the claims. Keys that are accepted and can sign,
//! sign tokens that they accept.

#![no_main]

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, UNIX_EPOCH};

use auth::{AuthStore, Cost, Tokens, hash_password};
use aws_lc_rs::hmac;
use backend::Backend;
use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{
    GeneralPurpose, GeneralPurposeConfig, STANDARD, URL_SAFE_NO_PAD,
};
use env::{Clock as _, SeededRandom, SimClock, SimDisk};
use libfuzzer_sys::fuzz_target;
use proto::etcdserverpb::{AuthUserAddRequest, AuthUserGrantRoleRequest};
use serde_json::{Map, Value};
use types::Index;

const SECRET: &[u8] = b"a secret that all members share";
const SIGNED: &str = "jwt,sign-method=HS256,priv-key=file";
const METHODS: [&str; 6] = ["RS256", "PS512", "ES256", "ES384", "ES512", "EdDSA"];
/// Base64 as Go and members decode it: surplus bits of the last character are ignored.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);
/// The longest token that is parsed.
const TOKEN_BYTES_MAX: usize = 64 << 10;

fuzz_target!(|input: &[u8]| {
    match input.split_first() {
        Some((0, token)) => check_token(token),
        Some((1, json)) => check_claims(json),
        Some((2, options)) => check_options(options),
        Some((3, key)) => check_key(key),
        _ => {}
    }
});

/// A member with a user root, one simple token, and the clock of the simulator.
struct Member {
    store: AuthStore,
    clock: Arc<SimClock>,
}

impl Member {
    fn new(tokens: Tokens) -> Member {
        let clock = Arc::new(SimClock::default());
        let (disk, config) = (Arc::new(SimDisk::new(0)), backend::Config::default());
        let backend =
            Backend::open(disk, clock.clone(), Path::new("db"), config).expect("a new file");
        let store = AuthStore::new(tokens, clock.clone(), Cost::new(4));
        let mut tx = backend.begin();
        store.start(&mut tx).expect("an empty database");
        let root = || "root".to_owned();
        let hashed_password = PASSWORD_HASH.clone();
        let add = AuthUserAddRequest { name: root(), hashed_password, ..Default::default() };
        store.user_add(&mut tx, &add).expect("add root");
        let grant = AuthUserGrantRoleRequest { user: root(), role: root() };
        store.user_grant_role(&mut tx, &grant).expect("grant root");
        store.enable(&mut tx).expect("root exists");
        Member { store, clock }
    }

    fn signed() -> Member {
        let read = |_: &str| Ok(SECRET.to_vec());
        Member::new(Tokens::parse(SIGNED, Duration::ZERO, read).expect("valid options"))
    }

    fn unix_seconds(&self) -> f64 {
        self.clock.wall().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64()
    }
}

static PASSWORD_HASH: LazyLock<String> = LazyLock::new(|| {
    let hash = hash_password(Cost::new(4), "secret", &mut SeededRandom::new(1));
    hash.expect("hash a password")
});

static SIMPLE_MEMBER: LazyLock<(Member, String)> = LazyLock::new(|| {
    let member = Member::new(Tokens::simple(Duration::ZERO));
    let response = member.store.authenticate("root", "abcdefghijklmnop", Index(9));
    (member, response.expect("root exists").token)
});

static SIGNED_MEMBER: LazyLock<Member> = LazyLock::new(Member::signed);

fn check_token(token: &[u8]) {
    let Ok(text) = std::str::from_utf8(token) else { return };
    let bare = text.strip_prefix("Bearer ").unwrap_or(text);
    let (member, assigned) = &*SIMPLE_MEMBER;
    assert_eq!(member.store.info_from_token(text).is_ok(), bare == assigned);
    if let Ok(index) = member.store.index_of_token(text) {
        let index = index.expect("a simple token has an index");
        assert_eq!(bare.split_once('.').and_then(|(_, index)| index.parse().ok()), Some(index.0));
    }
    if SIGNED_MEMBER.store.info_from_token(text).is_ok() {
        let (message, signature) = bare.rsplit_once('.').expect("three parts");
        let signature = LENIENT.decode(signature).expect("base64");
        assert_eq!(signature, sign(message), "accepted without a valid signature");
    }
}

fn sign(message: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET);
    hmac::sign(&key, message.as_bytes()).as_ref().to_vec()
}

fn check_claims(json: &[u8]) {
    let line = json.iter().position(|byte| *byte == b'\n').unwrap_or(json.len());
    let (header, claims) = json.split_at(line);
    let claims = claims.strip_prefix(b"\n").unwrap_or(claims);
    let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let token = format!("{message}.{}", URL_SAFE_NO_PAD.encode(sign(&message)));
    let info = SIGNED_MEMBER.store.info_from_token(&token);
    let user = user_of(header, claims, SIGNED_MEMBER.unix_seconds());
    let user = user.filter(|_| token.len() <= TOKEN_BYTES_MAX);
    assert_eq!(info.ok().map(|info| info.username), user);
}

/// The rules of etcd, once more: the user of valid claims.
fn user_of(header: &[u8], claims: &[u8], now: f64) -> Option<String> {
    let header: Map<String, Value> = serde_json::from_slice(header).ok()?;
    let claims: Map<String, Value> = serde_json::from_slice(claims).ok()?;
    let date =
        |name: &str| claims.get(name).map(|date| date.as_f64().filter(|at| at.abs() < 9.2e18));
    let (expires, begins) = (date("exp"), date("nbf"));
    let is_late = matches!(expires, Some(Some(at)) if at != 0.0 && now >= at.floor());
    let is_early = matches!(begins, Some(Some(at)) if at != 0.0 && now < at.floor());
    let is_valid = header.get("alg")?.as_str()? == "HS256"
        && claims.get("revision")?.is_number()
        && expires != Some(None)
        && begins != Some(None)
        && !is_late
        && !is_early;
    claims.get("username")?.as_str().filter(|_| is_valid).map(str::to_owned)
}

fn check_options(input: &[u8]) {
    let line = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (options, file) = input.split_at(line);
    let Ok(options) = std::str::from_utf8(options) else { return };
    check_tokens(options, file.strip_prefix(b"\n").unwrap_or(file));
}

/// The first byte selects the method, and whether the key is a private one.
fn check_key(input: &[u8]) {
    let Some((&kind, der)) = input.split_first() else { return };
    let method = METHODS[usize::from(kind / 2) % METHODS.len()];
    let half = if kind % 2 == 0 { "priv-key" } else { "pub-key" };
    let pem = format!("-----BEGIN KEY-----\n{}\n-----END KEY-----\n", STANDARD.encode(der));
    check_tokens(&format!("jwt,sign-method={method},{half}=file"), pem.as_bytes());
}

fn check_tokens(options: &str, file: &[u8]) {
    let Ok(tokens) = Tokens::parse(options, Duration::ZERO, |_| Ok(file.to_vec())) else { return };
    let member = Member::new(tokens);
    // Without a private key there are no tokens, and with another lifetime they may be expired.
    if let Ok(response) = member.store.authenticate("root", "abcdefghijklmnop", Index(9))
        && !options.contains("ttl")
    {
        let info = member.store.info_from_token(&response.token).expect("just assigned");
        assert_eq!(info.username, "root");
    }
}
