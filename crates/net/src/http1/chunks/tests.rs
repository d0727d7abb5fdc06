//! Expected errors were taken from Go 1.26.

use super::*;

/// The bytes that hyper gets of a complete body, and the bytes after it.
type Complete = (Vec<u8>, Vec<u8>);

/// Reads a body that arrives in portions; none if it is incomplete.
fn read(body: &[u8], portion: usize) -> Result<Option<Complete>, &'static str> {
    let (mut chunks, mut input) = (Chunks::default(), BytesMut::new());
    let (mut out, mut portions) = (BytesMut::new(), body.chunks(portion));
    loop {
        match chunks.next(&mut input, &mut out)? {
            Next::End => {
                input.extend(portions.flatten());
                return Ok(Some((out.to_vec(), input.to_vec())));
            }
            Next::Data(left) if !input.is_empty() => {
                let size = input.len().min(usize::try_from(left).unwrap());
                out.extend_from_slice(&input.split_to(size));
                chunks.pass(size as u64);
            }
            Next::Data(_) | Next::Read => match portions.next() {
                Some(bytes) => input.extend_from_slice(bytes),
                None => return Ok(None),
            },
        }
    }
}

#[test]
fn chunks_are_rewritten_without_extensions_and_trailers() {
    let body = b"5;a=b\r\nhello\r\n00F \t\r\n123456789012345\r\n0\r\nX: y\r\nZ: 1\r\n\r\nrest";
    let expected = b"5\r\nhello\r\nf\r\n123456789012345\r\n0\r\n\r\n";
    for portion in 1..body.len() {
        let read = read(body, portion).unwrap();
        assert_eq!(read, Some((expected.to_vec(), b"rest".to_vec())), "portions of {portion}");
    }
    assert_eq!(read(b"0\r\n\r\n", 1), Ok(Some((b"0\r\n\r\n".to_vec(), Vec::new()))));
    for (trailer, rest) in [("X: y\r\n z\r\n\r\n", ""), ("X: y\n\nG: \r\n\r\n", "G: \r\n\r\n")] {
        let expected = Ok(Some((b"0\r\n\r\n".to_vec(), rest.as_bytes().to_vec())));
        assert_eq!(read(format!("0\r\n{trailer}").as_bytes(), 1), expected, "{trailer:?}");
    }
}

#[test]
fn malformed_chunks_are_refused() {
    for (body, error) in [
        ("zz\r\n", "invalid byte in chunk length"),
        (" 5\r\n", "invalid byte in chunk length"),
        ("5\nhello", "chunked line ends with bare LF"),
        ("5\r;\r\n", "invalid CR in chunked line"),
        ("\r\n", "empty hex number for chunk length"),
        (";a\r\n", "empty hex number for chunk length"),
        ("10000000000000000\r\n", "http chunk length too large"),
        ("5\r\nhelloXX0\r\n", "malformed chunked encoding"),
        ("0\r\nbad\r\n\r\n", "malformed MIME header: missing colon"),
        ("0\r\n: y\r\n\r\n", "malformed MIME header line"),
        ("0\r\n X: y\r\n\r\n", "malformed MIME header line"),
        ("0\r\nX: \0\r\n\r\n", "malformed MIME header line"),
        ("0\r\nX: y\r\n \0\r\n\r\n", "malformed MIME header line"),
    ] {
        for portion in [1, body.len()] {
            assert_eq!(read(body.as_bytes(), portion), Err(error), "{body:?}");
        }
    }
    let long = "0".repeat(LINE_BYTES_MAX);
    assert_eq!(read(long.as_bytes(), LINE_BYTES_MAX), Err("header line too long"));
    let trailer = format!("0\r\nX: {long}");
    assert_eq!(
        read(trailer.as_bytes(), 100),
        Err("http: suspiciously long trailer after chunked body")
    );
    assert_eq!(read(b"ffffffffffffffff\r\nhello", 3), Ok(None), "more is expected");
}

#[test]
fn bodies_of_little_data_in_much_framing_are_refused() {
    let chunk = format!("1;{}\r\nx\r\n", "a".repeat(100));
    let many = chunk.repeat(1000);
    assert_eq!(read(many.as_bytes(), 4096), Err("chunked encoding contains too much non-data"));
    let tiny = "1\r\nx\r\n".repeat(100_000);
    assert_eq!(read(tiny.as_bytes(), 4096), Ok(None), "single bytes are allowed");
}
