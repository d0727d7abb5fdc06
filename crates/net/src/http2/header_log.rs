//! Prints the header fields of HTTP/2 requests on standard error, to debug clients.
//!
//! Compat: Go's HTTP/2 library prints them with `GODEBUG=http2debug=2` in the environment, and
//! operators (and etcd's tests) look for its lines:
//!
//! ```text
//! http2: decoded hpack field header field ":path" = "/etcdserverpb.KV/Put"
//! http2: decoded hpack field header field ":authority" = "localhost:2379"
//! ```
//!
//! Go begins each line with the time, and also prints frames and credentials.

use std::fmt::Write as _;
use std::io::Write as _;

use gocompat::{quote, quote_bytes};
use http::Request;

/// Fields whose values are secret: tokens of etcd's users, and those of the JSON gateway.
const SECRET: [&str; 2] = ["token", "authorization"];

/// Prints the fields of a request. A closed standard error is not an error.
pub(crate) fn print_fields<B>(request: &Request<B>) {
    let _ = std::io::stderr().write_all(fields(request).as_bytes());
}

/// Returns a line for each field: pseudo-header fields first, as clients must send them.
fn fields<B>(request: &Request<B>) -> String {
    let mut lines = String::new();
    let mut add = |name: &str, quoted: &str| {
        let name = quote(name);
        // Writing to a string does not fail.
        let _ = writeln!(lines, "http2: decoded hpack field header field {name} = {quoted}");
    };
    let uri = request.uri();
    add(":method", &quote(request.method().as_str()));
    if let Some(scheme) = uri.scheme_str() {
        add(":scheme", &quote(scheme));
    }
    if let Some(path) = uri.path_and_query() {
        add(":path", &quote(path.as_str()));
    }
    if let Some(authority) = uri.authority() {
        add(":authority", &quote(authority.as_str()));
    }
    for (name, value) in request.headers() {
        if SECRET.contains(&name.as_str()) {
            add(name.as_str(), "(secret)");
        } else {
            add(name.as_str(), &quote_bytes(value.as_bytes()));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_has_a_line_in_gos_format() {
        let request = Request::post("http://localhost:2379/etcdserverpb.KV/Put")
            .header("user-agent", "a \"b\"")
            .body(())
            .unwrap();
        let expected = r#"http2: decoded hpack field header field ":method" = "POST"
http2: decoded hpack field header field ":scheme" = "http"
http2: decoded hpack field header field ":path" = "/etcdserverpb.KV/Put"
http2: decoded hpack field header field ":authority" = "localhost:2379"
http2: decoded hpack field header field "user-agent" = "a \"b\""
"#;
        assert_eq!(fields(&request), expected);
    }

    #[test]
    fn credentials_are_not_printed() {
        let request =
            Request::post("/x").header("token", "abc").header("Authorization", "abc").body(());
        let lines = fields(&request.unwrap());
        assert!(lines.contains(r#""token" = (secret)"#), "{lines}");
        assert!(lines.contains(r#""authorization" = (secret)"#), "{lines}");
        assert!(!lines.contains("abc"), "{lines}");
    }
}
