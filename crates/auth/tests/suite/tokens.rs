//! Simple and signed tokens of a store.

use std::io;
use std::time::Duration;

use auth::OptionsError;
use env::{Clock as _, OsRandom};
use types::Index;

use crate::*;

const TOKENS: &str = include_str!("../../testdata/jwt/tokens.txt");

fn parse(options: &str) -> Result<Tokens, OptionsError> {
    let read = |file: &str| {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/jwt");
        std::fs::read(dir.join(file))
    };
    Tokens::parse(options, Duration::ZERO, read)
}

fn jwt(options: &str) -> Fixture {
    Fixture::with(parse(options).unwrap()).with_users()
}

/// The signing methods, each with the formats of its private and public key files.
const METHODS: [(&str, &[&str], &[&str]); 13] = [
    ("RS256", &RSA, &RSA_PUBLIC),
    ("RS384", &RSA, &RSA_PUBLIC),
    ("RS512", &RSA, &RSA_PUBLIC),
    ("PS256", &RSA, &RSA_PUBLIC),
    ("PS384", &RSA, &RSA_PUBLIC),
    ("PS512", &RSA, &RSA_PUBLIC),
    (
        "ES256",
        &["ec256.sec1.pem", "ec256.pkcs8.pem"],
        &["ec256.public.pem", "ec256.certificate.pem"],
    ),
    ("ES384", &["ec384.sec1.pem", "ec384.pkcs8.pem"], &["ec384.public.pem"]),
    ("ES512", &["ec512.sec1.pem", "ec512.pkcs8.pem"], &["ec512.public.pem"]),
    ("EdDSA", &["ed.pkcs8.pem"], &["ed.public.pem"]),
    ("HS256", &["secret"], &[]),
    ("HS384", &["secret"], &[]),
    ("HS512", &["secret"], &[]),
];
const RSA: [&str; 2] = ["rsa.pkcs1.pem", "rsa.pkcs8.pem"];
const RSA_PUBLIC: [&str; 3] = ["rsa.public.pem", "rsa.public.pkcs1.pem", "rsa.certificate.pem"];

fn etcds_token(method: &str) -> &'static str {
    TOKENS.lines().find_map(|line| line.strip_prefix(method)?.strip_prefix(' ')).unwrap()
}

#[test]
fn a_simple_token_identifies_its_user() {
    let fixture = Fixture::enabled();
    let prefix = fixture.store.token_prefix(&mut OsRandom).unwrap();
    let token = fixture.store.authenticate("alice", &prefix, Index(9)).unwrap().token;
    assert_eq!(token, format!("{prefix}.9"));
    assert_eq!(fixture.store.index_of_token(&token), Ok(Some(Index(9))));
    assert_eq!(fixture.store.info_from_token(&token), Ok(fixture.caller("alice")));
    let bearer = format!("Bearer {token}");
    assert_eq!(fixture.store.index_of_token(&bearer), Ok(Some(Index(9))));
    assert_eq!(fixture.store.info_from_token(&bearer), Ok(fixture.caller("alice")));
    fixture.role_add("web").unwrap();
    let now = fixture.store.info_from_token(&token).unwrap();
    assert_eq!(now.revision, fixture.store.revision(), "a simple token is as of now");
    for unknown in ["", "x", "x.9", "x.y", "Bearer ", "Bearer x.9"] {
        assert_eq!(fixture.store.info_from_token(unknown), Err(Error::InvalidAuthToken));
    }
    assert_eq!(fixture.store.index_of_token("x"), Err(Error::InvalidAuthToken));
}

#[test]
fn a_simple_token_ends_with_its_user_password_or_authentication() {
    type Change = fn(&Fixture);
    let changes: [(Change, bool); 5] = [
        (|fixture| fixture.user_change_password("alice", "").unwrap(), false),
        (|fixture| fixture.user_delete("alice").unwrap(), false),
        (|fixture| assert!(fixture.apply(AuthStore::disable).header.is_none()), false),
        (|fixture| fixture.clock.advance(Duration::from_secs(301)), false),
        (|fixture| fixture.user_change_password("root", "").unwrap(), true),
    ];
    for (at, (change, valid)) in changes.into_iter().enumerate() {
        let fixture = Fixture::enabled();
        let token = fixture.store.authenticate("alice", "prefix", Index(9)).unwrap().token;
        change(&fixture);
        assert_eq!(fixture.store.info_from_token(&token).is_ok(), valid, "{at}");
    }
}

#[test]
fn restore_drops_the_tokens_of_changed_users() {
    let fixture = Fixture::enabled();
    let assign = |name| fixture.store.authenticate(name, "prefix", Index(9)).unwrap().token;
    let root = assign("root");
    fixture.store.restore(&fixture.backend.view()).unwrap();
    assert!(fixture.store.info_from_token(&root).is_ok());
    let other = Fixture::enabled();
    other.user_change_password("root", "").unwrap();
    fixture.store.restore(&other.backend.view()).unwrap();
    assert_eq!(fixture.store.info_from_token(&root), Err(Error::InvalidAuthToken));
}

#[test]
fn only_users_with_a_password_get_a_token() {
    let fixture = Fixture::enabled();
    fixture.user_add_with("cert", "", Some(UserAddOptions { no_password: true })).unwrap();
    let assign = |name| fixture.store.authenticate(name, "prefix", Index(9)).map(drop);
    assert_eq!([assign("cert"), assign("ghost")], [Err(Error::AuthFailed), Err(Error::AuthFailed)]);
    fixture.apply(AuthStore::disable);
    assert_eq!(fixture.store.authenticate("alice", "p", Index(9)), Err(Error::AuthNotEnabled));
}

#[test]
fn without_tokens_only_certificates_authenticate() {
    let fixture = Fixture::with(parse("").unwrap()).with_users();
    assert_eq!(fixture.store.authenticate("alice", "", Index(9)), Err(Error::AuthFailed));
    assert_eq!(fixture.store.info_from_token("x.9"), Err(Error::InvalidAuthToken));
    assert_eq!(fixture.store.token_prefix(&mut OsRandom).unwrap(), "");
    assert_eq!(fixture.store.info_from_common_name("alice"), fixture.caller("alice"));
    assert_eq!(fixture.store.root_info(), fixture.caller("root"));
}

#[test]
fn tokens_of_etcd_verify_with_every_key_format() {
    let alice = AuthInfo { username: "alice".into(), revision: 7 };
    for (method, private, public) in METHODS {
        let token = etcds_token(method);
        let private = private.iter().map(|file| format!("priv-key={file}"));
        let public = public.iter().map(|file| format!("pub-key={file}"));
        for key in private.chain(public) {
            let fixture = jwt(&format!("jwt,sign-method={method},{key}"));
            assert_eq!(fixture.store.info_from_token(token), Ok(alice.clone()), "{method} {key}");
            assert_eq!(fixture.store.index_of_token(token), Ok(None), "nothing to wait for");
        }
    }
}

#[test]
fn signed_tokens_verify_and_have_etcds_form() {
    for (method, private, public) in METHODS {
        let mut options = format!("jwt,sign-method={method},priv-key={},ttl=10s", private[0]);
        if let Some(public) = public.first() {
            options += &format!(",pub-key={public}");
        }
        let fixture = jwt(&options);
        let token = fixture.store.authenticate("alice", "", Index(9)).unwrap().token;
        assert_eq!(fixture.store.info_from_token(&token), Ok(fixture.caller("alice")), "{method}");
        let parts = |token: &str| token.split('.').map(str::len).collect::<Vec<_>>();
        let (ours, theirs) = (parts(&token), parts(etcds_token(method)));
        assert_eq!((ours[0], ours[2]), (theirs[0], theirs[2]), "{method}: header and signature");
        let header = token.split('.').next();
        assert_eq!(header, etcds_token(method).split('.').next(), "{method}");
    }
}

#[test]
fn a_signed_token_keeps_its_revision_and_expires() {
    let fixture = jwt("jwt,sign-method=ES256,priv-key=ec256.sec1.pem,ttl=10s");
    let token = fixture.store.authenticate("alice", "", Index(9)).unwrap().token;
    let before = fixture.store.revision();
    fixture.role_add("web").unwrap();
    assert_eq!(fixture.store.info_from_token(&token).unwrap().revision, before);
    fixture.clock.advance(Duration::from_millis(9_999));
    assert!(fixture.store.info_from_token(&token).is_ok());
    fixture.clock.advance(Duration::from_millis(1));
    assert_eq!(fixture.store.info_from_token(&token), Err(Error::InvalidAuthToken));
    assert_eq!(fixture.clock.monotonic(), Duration::from_secs(10));
}

#[test]
fn a_token_that_was_tampered_with_is_invalid() {
    for (method, private, _) in METHODS {
        let fixture = jwt(&format!("jwt,sign-method={method},priv-key={}", private[0]));
        let token = etcds_token(method);
        let parts: Vec<&str> = token.split('.').collect();
        let [header, claims, signature] = parts[..] else { panic!("{token}") };
        // {"alg":"none","typ":"JWT"}
        let none = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0";
        for forged in [
            format!("{header}.{claims}."),
            format!("{header}.{claims}"),
            format!("{header}.{claims}.{signature}.x"),
            format!("{header}.{claims}.{}", &signature[..signature.len() - 4]),
            format!("{header}.{claims}.A{}", &signature[1..]),
            format!("{header}.{}A.{signature}", &claims[..claims.len() - 1]),
            format!("{none}.{claims}."),
            format!("{none}.{claims}.{signature}"),
            format!("{header}=.{claims}.{signature}"),
            "x".repeat(100_000),
        ] {
            let info = fixture.store.info_from_token(&forged);
            let first = signature.starts_with('A') && forged.ends_with(signature);
            assert!(info.is_err() || first, "{method} {forged}");
        }
        let others = METHODS.iter().filter(|(other, ..)| *other != method);
        for (other, ..) in others {
            let info = fixture.store.info_from_token(etcds_token(other));
            assert_eq!(info, Err(Error::InvalidAuthToken), "{other} to {method}");
        }
    }
}

#[test]
fn a_public_key_alone_verifies_and_does_not_sign() {
    let fixture = jwt("jwt,sign-method=RS256,pub-key=rsa.public.pem");
    assert_eq!(fixture.store.authenticate("alice", "", Index(9)), Err(Error::VerifyOnly));
    assert!(fixture.store.info_from_token(etcds_token("RS256")).is_ok());
}

#[test]
fn invalid_options_are_refused_with_etcds_texts() {
    let invalid = "auth: invalid auth options";
    let missing = "auth: missing key data";
    let mismatch = "auth: public and private keys don't match";
    let not_pem = "invalid key: Key must be a PEM encoded PKCS1 or PKCS8 key";
    for (options, text) in [
        ("other", invalid),
        ("jwt", invalid),
        ("jwt,", invalid),
        ("jwt,sign-method", invalid),
        ("jwt,sign-method=ES256=x", invalid),
        ("jwt,sign-method=ES256,sign-method=ES256", invalid),
        ("jwt,sign-method=XS256,priv-key=secret", invalid),
        ("jwt,sign-method=es256,priv-key=ec256.sec1.pem", invalid),
        ("jwt,sign-method=HS256,priv-key=missing", invalid),
        ("jwt,sign-method=HS256,pub-key=missing,priv-key=secret", invalid),
        ("jwt,sign-method=HS256,priv-key=secret,ttl=5", invalid),
        ("simple,x", invalid),
        ("jwt,sign-method=none", "unsupported signing method: *jwt.signingMethodNone"),
        ("jwt,sign-method=ES256", missing),
        ("jwt,sign-method=RS256,priv-key=", missing),
        ("jwt,sign-method=EdDSA", missing),
        ("jwt,sign-method=HS256,pub-key=secret", missing),
        ("jwt,sign-method=RS256,priv-key=secret", not_pem),
        ("jwt,sign-method=ES256,pub-key=secret", not_pem),
        ("jwt,sign-method=ES384,priv-key=ec384.sec1.pem,pub-key=ec384.public.pem", ""),
        ("jwt,sign-method=HS256,priv-key=secret,unknown=x,ttl=", ""),
        ("jwt,sign-method=HS256,priv-key=secret,ttl=-1h", ""),
        ("simple,anything=goes", ""),
        ("simple", ""),
        ("", ""),
    ] {
        let found = parse(options).err().map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(found, text, "{options}");
    }
    let wrong_kind = parse("jwt,sign-method=RS256,priv-key=ec256.pkcs8.pem").unwrap_err();
    let text = wrong_kind.to_string();
    assert!(text.starts_with("key is not a valid RSA private key"), "{text}");
    let other = include_str!("../../testdata/jwt/ec256.public.pem");
    let pair = "jwt,sign-method=ES256,priv-key=a,pub-key=b";
    let keys = Tokens::parse(pair, Duration::ZERO, |file| {
        Ok(match file {
            "a" => OTHER_P256.into(),
            _ => other.into(),
        })
    });
    assert_eq!(keys.unwrap_err().to_string(), mismatch);
}

/// Generates a key other than the one in the test data.
const OTHER_P256: &str = "-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIKunct6cJXt9j2QRwZ6viUKres1pMoHHJl6GwduKA2UjoAoGCCqGSM49
AwEHoUQDQgAE+rbnaJlVTm8RTb/k4hP28u1hJdvmxHuu5h/X61jtlP3bQ/jN5Um2
rCvSnAotx4Ex37hKAQ0ynKSaPjcZ85Ns/A==
-----END EC PRIVATE KEY-----
";

#[test]
fn a_key_file_over_the_maximum_is_rejected() {
    let long = |_: &str| -> io::Result<Vec<u8>> { Ok(vec![b'x'; auth::KEY_FILE_BYTES_MAX + 1]) };
    let error =
        Tokens::parse("jwt,sign-method=HS256,priv-key=k", Duration::ZERO, long).unwrap_err();
    assert!(matches!(error, OptionsError::Invalid(_)), "{error}");
}

#[test]
fn a_token_with_a_negative_ttl_is_invalid() {
    let fixture = jwt("jwt,sign-method=HS256,priv-key=secret,ttl=-1s");
    let token = fixture.store.authenticate("alice", "", Index(9)).unwrap().token;
    assert_eq!(fixture.store.info_from_token(&token), Err(Error::InvalidAuthToken));
}
