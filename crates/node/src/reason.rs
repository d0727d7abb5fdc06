//! What the system says of a failure, in the words that Go has for it: they stand in etcd's logs, and so in ours.

use std::io;

/// Without its number, and with a small letter before: `no such file or directory`.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.rsplit_once(" (os error ").map_or(text.as_str(), |(reason, _)| reason);
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_read_as_in_go() {
        assert_eq!(reason(&io::Error::from_raw_os_error(2)), "no such file or directory");
        assert_eq!(reason(&io::Error::other("Odd")), "odd");
    }
}
