//! The texts of operating system errors.

use std::io;

/// Returns the text that Go prints for an operating system error: `no such file or directory`.
///
/// Rust prints `No such file or directory (os error 2)`. Go's text has no number and begins with a
/// small letter, and that is the text in etcd's logs.
pub fn os_error_text(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.rsplit_once(" (os error ").map_or(text.as_str(), |(reason, _)| reason);
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

/// Returns Go's text for the failure of a name lookup: `no such host` for an unknown name.
pub fn lookup_error_text(error: &io::Error) -> String {
    let text = os_error_text(error);
    match text.contains("not known") || text.contains("No address") {
        true => "no such host".to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_errors_lose_their_number_and_capital_letter() {
        let cases = [
            (2, "no such file or directory"),
            (13, "permission denied"),
            (21, "is a directory"),
            (28, "no space left on device"),
            (98, "address already in use"),
            (104, "connection reset by peer"),
            (111, "connection refused"),
        ];
        for (code, text) in cases {
            assert_eq!(os_error_text(&io::Error::from_raw_os_error(code)), text);
        }
    }

    #[test]
    fn an_unknown_name_is_no_such_host() {
        let unknown = "failed to lookup address information: Name or service not known";
        assert_eq!(lookup_error_text(&io::Error::other(unknown)), "no such host");
        assert_eq!(lookup_error_text(&io::Error::other("Try again")), "try again");
    }

    #[test]
    fn other_errors_begin_with_a_small_letter_too() {
        assert_eq!(os_error_text(&io::Error::other("Odd")), "odd");
        assert_eq!(os_error_text(&io::Error::other("")), "");
    }
}
