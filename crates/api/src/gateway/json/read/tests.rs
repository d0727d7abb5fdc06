use proto::etcdserverpb::{
    AuthUserGetRequest, LeaseGrantRequest, MemberAddRequest, RangeRequest, TxnRequest,
};
use proto::shape::Route;

use super::*;

fn decode<M: prost::Message + Default>(path: &str, text: &str) -> Result<M, String> {
    let shape = Route::find(path).unwrap().request;
    let bytes = read(text.as_bytes(), shape).map_err(|error| error.to_string())?;
    Ok(M::decode(&bytes[..]).unwrap())
}

fn range(text: &str) -> RangeRequest {
    decode("/v3/kv/range", text).unwrap()
}

fn refused(text: &str) -> String {
    decode::<RangeRequest>("/v3/kv/range", text).unwrap_err()
}

#[test]
fn fields_have_protobuf_and_json_names() {
    let expected = RangeRequest { key: "foo".into(), range_end: "g".into(), ..Default::default() };
    assert_eq!(range(r#"{"key":"Zm9v","range_end":"Zw=="}"#), expected);
    assert_eq!(range(r#" {"rangeEnd" : "Zw", "key" : "Zm9v" } "#), expected);
}

#[test]
fn numbers_may_be_strings_and_enums_may_be_numbers() {
    for text in [r#"{"limit":5,"sort_order":"DESCEND"}"#, r#"{"limit":"5.0","sortOrder":2}"#] {
        assert_eq!(range(text), RangeRequest { limit: 5, sort_order: 2, ..Default::default() });
    }
    let granted: LeaseGrantRequest = decode("/v3/lease/grant", r#"{"TTL":"-1","ID":-7}"#).unwrap();
    assert_eq!((granted.ttl, granted.id), (-1, -7));
}

#[test]
fn null_and_unknown_fields_are_skipped() {
    let text = r#"{"key":null,"nope":[{"a":"}"},[],null],"sort_order":"NOPE","keys_only":true}"#;
    assert_eq!(range(text), RangeRequest { keys_only: true, ..Default::default() });
}

#[test]
fn default_values_are_not_encoded() {
    let shape = Route::find("/v3/kv/range").unwrap().request;
    let text = br#"{"key":"","limit":0,"serializable":false,"sort_order":"NONE"}"#;
    assert_eq!(read(text, shape).unwrap(), [0; 0]);
    let txn = Route::find("/v3/kv/txn").unwrap().request;
    // A oneof has presence: version zero is encoded.
    assert_eq!(read(br#"{"compare":[{"version":0}]}"#, txn).unwrap(), [0x0a, 2, 0x20, 0]);
}

#[test]
fn nested_and_repeated_messages_are_translated() {
    let text = r#"{"compare":[{"key":"YQ==","target":"VALUE","value":"Yg=="}],
        "success":[{"request_put":{"key":"YQ==","value":"Yw=="}},{"requestTxn":{"failure":[]}}]}"#;
    let txn: TxnRequest = decode("/v3/kv/txn", text).unwrap();
    assert_eq!((txn.compare.len(), txn.success.len(), txn.failure.len()), (1, 2, 0));
    let value = "v".repeat(300);
    let text = format!(r#"{{"peerURLs":["http://a:1","{value}"],"isLearner":true}}"#);
    let add: MemberAddRequest = decode("/v3/cluster/member/add", &text).unwrap();
    assert_eq!((add.peer_urls, add.is_learner), (vec!["http://a:1".to_owned(), value], true));
}

#[test]
fn base64_has_two_alphabets_and_optional_padding() {
    for text in ["-_8=", "+/8=", "-_8", "+/8", "+/\\n8=", "+/9="] {
        let request = range(&format!(r#"{{"key":"{text}"}}"#));
        assert_eq!(request.key, &[0xfb, 0xff][..], "{text}");
    }
    for text in ["+_8=", "+/8==", "+", "+/8 ", "=", "a==="] {
        let error = refused(&format!(r#"{{"key":"{text}"}}"#));
        assert_eq!(
            error,
            format!("proto: (line 1:8): invalid value for bytes field key: \"{text}\"")
        );
    }
}

#[test]
fn strings_are_unescaped() {
    let name = |text: &str| {
        let got: AuthUserGetRequest = decode("/v3/auth/user/get", text).unwrap();
        got.name
    };
    assert_eq!(
        name(r#"{"name":"a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00é"}"#),
        "a\"\\/\u{8}\u{c}\n\r\té😀é"
    );
    assert_eq!(name(r#"{"n\u0061me":"x"}"#), "x");
}

/// The texts were taken from etcd 3.7, except for the space after `proto:`, which etcd chooses at
/// random from two characters.
#[test]
fn invalid_messages_have_the_texts_of_go() {
    for (text, error) in [
        (r#"{"key":"Zm9v","key":"Zm9v"}"#, "(line 1:15): duplicate field \"key\""),
        (r#"{"key":5}"#, "(line 1:8): invalid value for bytes field key: 5"),
        ("[]", "syntax error (line 1:1): unexpected token ["),
        ("null", "syntax error (line 1:1): unexpected token null"),
        ("{\n  \"range_end\": true}", "(line 2:16): invalid value for bytes field rangeEnd: true"),
        (r#"{"limit":1.5}"#, "(line 1:10): invalid value for int64 field limit: 1.5"),
        (r#"{"limit":" 1"}"#, "(line 1:10): invalid value for int64 field limit: \" 1\""),
        (r#"{"limit":"+1"}"#, "(line 1:10): invalid value for int64 field limit: \"+1\""),
        (r#"{"sort_order":true}"#, "(line 1:15): invalid value for enum field sortOrder: true"),
        (r#"{"keys_only":1}"#, "(line 1:14): invalid value for bool field keysOnly: 1"),
        (r#"{"key":[1]}"#, "(line 1:8): invalid value for bytes field key: ["),
        ("{\"é\":1,\"key\":1}", "(line 1:14): invalid value for bytes field key: 1"),
        (
            r#"{"key":"\ud800\u0041"}"#,
            r#"syntax error (line 1:8): invalid escape code "\\u0041" in string"#,
        ),
    ] {
        assert_eq!(refused(text), format!("proto: {error}"), "{text}");
    }
    let shape = Route::find("/v3/kv/range").unwrap().request;
    let error = read(b"{\"key\":\"\xff\"}", shape).unwrap_err();
    assert_eq!(error.to_string(), "proto: syntax error (line 1:8): invalid UTF-8 in string");
}

#[test]
fn only_one_field_of_a_oneof_may_be_set() {
    let text = r#"{"success":[{"request_put":{},"requestRange":{}}]}"#;
    let error = decode::<TxnRequest>("/v3/kv/txn", text).unwrap_err();
    let what =
        "error parsing \"requestRange\", oneof etcdserverpb.RequestOp.request is already set";
    assert_eq!(error, format!("proto: (line 1:31): {what}"));
    let error = decode::<TxnRequest>("/v3/kv/txn", r#"{"success":{}}"#).unwrap_err();
    assert_eq!(error, "proto: syntax error (line 1:12): unexpected token {");
}

#[test]
fn the_depth_of_messages_is_bounded() {
    let nested = |depth: usize| {
        let (open, close) = (r#"{"success":[{"request_txn":"#, "}]}");
        format!("{}{{}}{}", open.repeat(depth), close.repeat(depth))
    };
    let read = |depth| read(nested(depth).as_bytes(), Route::find("/v3/kv/txn").unwrap().request);
    // Two levels of messages for each, and the innermost.
    assert!(read(DEPTH_MAX / 2 - 1).is_ok());
    let error = read(DEPTH_MAX / 2).unwrap_err();
    assert_eq!(error.to_string(), "proto: exceeded max recursion depth");
    // Skipped values may be nested deeper.
    let text = format!(r#"{{"nope":{}{}}}"#, "[".repeat(5000), "]".repeat(5000));
    assert_eq!(range(&text), RangeRequest::default());
}
