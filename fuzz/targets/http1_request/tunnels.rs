//! Opens tunnels over sockets that answer with arbitrary bytes.

use std::sync::LazyLock;

use crate::dial::open_tunnel;
use crate::dial::proxy::CONNECT_BYTES_MAX;
use crate::socket::Socket;

/// More fields than a valid answer of the fuzzer has.
const FIELDS_MAX: usize = 256;

static RUNTIME: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("create a runtime")
});

/// The input has the length of the pieces, and the answer.
pub(crate) fn check_connect(input: &[u8]) {
    let Some((&piece, answer)) = input.split_first() else { return };
    let (opened, read) = open(answer, answer.len().max(1), "http://u:p@proxy:3128");
    let cut = open(answer, usize::from(piece) + 1, "http://u:p@proxy:3128");
    assert_eq!(cut, (opened.clone(), read), "independent of the cuts");
    assert!(read <= CONNECT_BYTES_MAX);
    let blank = (1..=answer.len()).find(|end| {
        let head = &answer[..*end];
        head.ends_with(b"\n\n") || head.ends_with(b"\n\r\n")
    });
    assert_eq!(read, blank.unwrap_or(answer.len()).min(CONNECT_BYTES_MAX));
    if opened.is_ok() {
        assert!(answer.starts_with(b"HTTP/1.") && answer[..read].windows(4).any(|w| w == b" 200"));
    }
    check_with_httparse(answer, opened.is_ok(), read);
}

/// A valid answer opens the tunnel exactly if its status is 200, and ends where httparse ends.
fn check_with_httparse(answer: &[u8], is_open: bool, read: usize) {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut fields);
    // httparse skips empty lines before an answer.
    let is_first = answer.first().is_some_and(|byte| !b"\r\n".contains(byte));
    if let Ok(httparse::Status::Complete(length)) = response.parse(answer)
        && is_first
        && length <= CONNECT_BYTES_MAX
    {
        assert_eq!((is_open, read), (response.code == Some(200), length));
    }
}

/// The input has the length of the pieces, whether the proxy has a user, and the answers.
pub(crate) fn check_socks(input: &[u8]) {
    let Some((&[piece, user], answers)) = input.split_first_chunk() else { return };
    let has_user = user % 2 == 1;
    let url = if has_user { "socks5://u:p@proxy:1080" } else { "socks5://proxy:1080" };
    let (opened, read) = open(answers, answers.len().max(1), url);
    let cut = open(answers, usize::from(piece) + 1, url);
    // A read that fails may have taken a part of the answer.
    assert_eq!(cut.0, opened, "independent of the cuts");
    assert_eq!(opened.is_ok().then_some(read), socks_length(answers, has_user));
}

/// Returns the length of the answers that open a tunnel.
fn socks_length(answers: &[u8], has_user: bool) -> Option<usize> {
    let rest = match answers {
        [5, 0, rest @ ..] => rest,
        [5, 2, _, 0, rest @ ..] if has_user => rest,
        _ => return None,
    };
    let address = match rest {
        [5, 0, _, 1, ..] => 4,
        [5, 0, _, 3, length, ..] => 1 + usize::from(*length),
        [5, 0, _, 4, ..] => 16,
        _ => return None,
    };
    let length = answers.len() - rest.len() + 4 + address + 2;
    (length <= answers.len()).then_some(length)
}

/// Opens a tunnel. Returns the result, and the number of bytes that were read for it.
fn open(answer: &[u8], piece: usize, url: &str) -> (Result<(), String>, usize) {
    let mut socket = Socket::new(answer, piece);
    let opened = RUNTIME.block_on(open_tunnel(&mut socket, url));
    (opened.map_err(|error| error.to_string()), socket.read)
}
