use super::*;

const MAX: usize = 1 << 20;

fn all(text: &str) -> Result<Vec<String>, SplitError> {
    let mut values = Values::new(MAX);
    values.add(text.as_bytes());
    let mut all = Vec::new();
    while let Some(value) = values.last()? {
        all.push(String::from_utf8(value.to_vec()).unwrap().trim().to_owned());
    }
    Ok(all)
}

fn refused(text: &str) -> String {
    all(text).unwrap_err().to_string()
}

#[test]
fn consecutive_values_are_split() {
    assert_eq!(all(r#"{"ID":"1"} {"ID":2}{}"#).unwrap(), [r#"{"ID":"1"}"#, r#"{"ID":2}"#, "{}"]);
    assert_eq!(all("1 2.5e-3true[[],{}]").unwrap(), ["1", "2.5e-3", "true", "[[],{}]"]);
    assert_eq!(all(" \n").unwrap(), [""; 0]);
    assert_eq!(all("").unwrap(), [""; 0]);
}

#[test]
fn a_value_is_complete_with_its_last_byte() {
    let mut values = Values::new(MAX);
    for byte in br#" {"a":["}\"", -0]"# {
        values.add(&[*byte]);
        assert_eq!(values.next(), Ok(None));
    }
    values.add(b"}nul");
    assert_eq!(values.next().unwrap().unwrap(), &br#" {"a":["}\"", -0]}"#[..]);
    assert_eq!(values.next(), Ok(None));
    assert_eq!(values.last(), Err(SplitError::UnexpectedEof));
}

/// The texts were taken from etcd 3.7.
#[test]
fn syntax_errors_have_the_texts_of_go() {
    for (text, error) in [
        ("x", "invalid character 'x' looking for beginning of value"),
        (r#"{"key":"#, "unexpected EOF"),
        (r#"{"key""#, "unexpected EOF"),
        ("{x", "invalid character 'x' looking for beginning of object key string"),
        (r#"{"a" "#, "unexpected EOF"),
        (r#"{"a","#, "invalid character ',' after object key"),
        (r#"{"a":1]"#, "invalid character ']' after object key:value pair"),
        ("[1}", "invalid character '}' after array element"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        (r#"{"a":1,}"#, "invalid character '}' looking for beginning of object key string"),
        ("\"a\nb\"", "invalid character '\\n' in string literal"),
        (r#""\x""#, "invalid character 'x' in string escape code"),
        (r#""\u00g0""#, r"invalid character 'g' in \u hexadecimal character escape"),
        ("-x", "invalid character 'x' in numeric literal"),
        ("1.x", "invalid character 'x' after decimal point in numeric literal"),
        ("1e+x", "invalid character 'x' in exponent of numeric literal"),
        ("[nulx", "invalid character 'x' in literal null (expecting 'l')"),
        ("tru'", r"invalid character '\'' in literal true (expecting 'e')"),
        ("[01]", "invalid character '1' after array element"),
        ("\u{e9}", "invalid character 'Ã' looking for beginning of value"),
        ("\u{1}", r"invalid character '\x01' looking for beginning of value"),
        ("\u{7f}", r"invalid character '\x7f' looking for beginning of value"),
    ] {
        assert_eq!(refused(text), error, "{text}");
    }
}

#[test]
fn depth_and_length_are_bounded() {
    assert_eq!(all(&"[".repeat(DEPTH_MAX)), Err(SplitError::UnexpectedEof));
    assert_eq!(all(&"[".repeat(DEPTH_MAX + 1)), Err(SplitError::Depth));
    let mut values = Values::new(4);
    values.add(b"[[[]]]");
    let error = values.next().unwrap_err().to_string();
    assert_eq!(error, "grpc: received message larger than max (6 vs. 4)");
}
