//! Tunnels through a proxy: `CONNECT` of HTTP, and SOCKS 5.
//!
//! ```text
//!   CONNECT m1:2380 HTTP/1.1          05 02 00 02                 no login, or user and password
//!   Host: m1:2380                     ◄ 05 00                     no login
//!   User-Agent: Go-http-client/1.1    05 01 00 03 02 'm1' 09 4c   connect to m1, port 2380
//!   ◄ HTTP/1.1 200 OK                 ◄ 05 00 00 01 …             connected
//! ```
//!
//! Both are bounded in bytes and time.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use gocompat::{join_host_port, os_error_text};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use super::{Proxy, ProxyKind};
use crate::dial::client_stream::ClientStream;

/// The longest response to `CONNECT`.
pub const CONNECT_BYTES_MAX: usize = 16 << 10;
/// The time for opening a tunnel. As in Go.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);

const SOCKS_VERSION: u8 = 5;
const SOCKS_NO_LOGIN: u8 = 0;
const SOCKS_PASSWORD: u8 = 2;

/// The reason there is no tunnel.
#[derive(Debug, thiserror::Error)]
pub enum TunnelError {
    /// The proxy refused.
    #[error("proxy refused the connection: {0}")]
    Refused(String),
    /// The proxy does not speak its protocol.
    #[error("the answer of the proxy is malformed: {0}")]
    Malformed(&'static str),
    /// The proxy did not answer in time.
    #[error("the proxy did not answer within {CONNECT_TIMEOUT:?}")]
    Late,
    /// The connection to the proxy failed.
    #[error("the connection to the proxy failed: {}", os_error_text(.0))]
    Io(#[from] io::Error),
}

/// Opens a tunnel to a host over a connection to the proxy.
pub(in crate::dial) async fn open(
    stream: &mut ClientStream,
    proxy: &Proxy,
    (host, port): (&str, u16),
) -> Result<(), TunnelError> {
    let opened = async {
        match proxy.kind {
            ProxyKind::Http | ProxyKind::Https => connect(stream, proxy, host, port).await,
            ProxyKind::Socks5 => socks(stream, proxy, host, port).await,
        }
    };
    timeout(CONNECT_TIMEOUT, opened).await.unwrap_or(Err(TunnelError::Late))
}

async fn connect(
    stream: &mut ClientStream,
    proxy: &Proxy,
    host: &str,
    port: u16,
) -> Result<(), TunnelError> {
    let target = join_host_port(host, port);
    // Compat: proxies log the name of the program; it is that of etcd's.
    let mut request = format!(
        "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nUser-Agent: Go-http-client/1.1\r\n"
    );
    if let Some(authorization) = proxy.authorization() {
        request.push_str(&format!("Proxy-Authorization: {authorization}\r\n"));
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let response = read_head(stream).await?;
    let (status, _) = response.split_once('\n').unwrap_or((&response, ""));
    check_status(status.trim_end())
}

/// Reads up to an empty line, byte by byte: what follows belongs to the tunnel. As in Go, a line
/// may end without a carriage return, and the text need not be UTF-8.
async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> Result<String, TunnelError> {
    let mut head = Vec::new();
    while !head.ends_with(b"\n\r\n") && !head.ends_with(b"\n\n") {
        if head.len() == CONNECT_BYTES_MAX {
            return Err(TunnelError::Malformed("it is too long"));
        }
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// Checks `HTTP/1.1 200 Connection established`.
fn check_status(line: &str) -> Result<(), TunnelError> {
    let (version, status) = line.split_once(' ').unwrap_or((line, ""));
    if !version.starts_with("HTTP/1.") || status.is_empty() {
        return Err(TunnelError::Malformed("it is not HTTP"));
    }
    match status.split(' ').next() {
        Some("200") => Ok(()),
        _ => Err(TunnelError::Refused(status.to_owned())),
    }
}

async fn socks(
    stream: &mut ClientStream,
    proxy: &Proxy,
    host: &str,
    port: u16,
) -> Result<(), TunnelError> {
    let hello: &[u8] = match proxy.user {
        None => &[SOCKS_VERSION, 1, SOCKS_NO_LOGIN],
        Some(_) => &[SOCKS_VERSION, 2, SOCKS_NO_LOGIN, SOCKS_PASSWORD],
    };
    stream.write_all(hello).await?;
    stream.flush().await?;
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).await?;
    match (answer, &proxy.user) {
        ([SOCKS_VERSION, SOCKS_NO_LOGIN], _) => {}
        ([SOCKS_VERSION, SOCKS_PASSWORD], Some((name, password))) => {
            socks_login(stream, name, password).await?;
        }
        ([SOCKS_VERSION, _], _) => {
            return Err(TunnelError::Refused("unsupported authentication method".to_owned()));
        }
        _ => return Err(TunnelError::Malformed("it is not SOCKS 5")),
    }
    stream.write_all(&socks_request(host, port)?).await?;
    stream.flush().await?;
    read_socks_reply(stream).await
}

async fn socks_login(
    stream: &mut ClientStream,
    name: &str,
    password: &str,
) -> Result<(), TunnelError> {
    let too_long = |_| TunnelError::Malformed("its user name or password is too long for SOCKS 5");
    let mut login = vec![1, u8::try_from(name.len()).map_err(too_long)?];
    login.extend_from_slice(name.as_bytes());
    login.push(u8::try_from(password.len()).map_err(too_long)?);
    login.extend_from_slice(password.as_bytes());
    stream.write_all(&login).await?;
    stream.flush().await?;
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).await?;
    match answer {
        [_, 0] => Ok(()),
        _ => Err(TunnelError::Refused("authentication failed".to_owned())),
    }
}

/// Returns the request to connect to a host.
fn socks_request(host: &str, port: u16) -> Result<Vec<u8>, TunnelError> {
    let mut request = vec![SOCKS_VERSION, 1, 0];
    match host.parse() {
        Ok(IpAddr::V4(address)) => {
            request.push(1);
            request.extend_from_slice(&address.octets());
        }
        Ok(IpAddr::V6(address)) => {
            request.push(4);
            request.extend_from_slice(&address.octets());
        }
        Err(_) => {
            let too_long = |_| TunnelError::Malformed("the host name is too long for SOCKS 5");
            request.extend_from_slice(&[3, u8::try_from(host.len()).map_err(too_long)?]);
            request.extend_from_slice(host.as_bytes());
        }
    }
    request.extend_from_slice(&port.to_be_bytes());
    Ok(request)
}

/// Reads the reply with the address that the proxy connected from, which does not matter.
async fn read_socks_reply(stream: &mut ClientStream) -> Result<(), TunnelError> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    let [version, code, _, kind] = head;
    if version != SOCKS_VERSION {
        return Err(TunnelError::Malformed("it is not SOCKS 5"));
    }
    if code != 0 {
        return Err(TunnelError::Refused(socks_error(code).to_owned()));
    }
    let len = match kind {
        1 => 4,
        3 => usize::from(stream.read_u8().await?),
        4 => 16,
        _ => return Err(TunnelError::Malformed("it has an unknown kind of address")),
    };
    let mut address = vec![0; len + 2];
    stream.read_exact(&mut address).await?;
    Ok(())
}

/// Returns the meaning of an error code, in Go's words.
fn socks_error(code: u8) -> &'static str {
    match code {
        1 => "general SOCKS server failure",
        2 => "connection not allowed by ruleset",
        3 => "network unreachable",
        4 => "host unreachable",
        5 => "connection refused",
        6 => "TTL expired",
        7 => "command not supported",
        8 => "address type not supported",
        _ => "an unknown error code",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_status_200_opens_a_tunnel() {
        let check = |line| check_status(line).map_err(|error| error.to_string());
        assert_eq!(check("HTTP/1.1 200 Connection established"), Ok(()));
        assert_eq!(check("HTTP/1.0 200"), Ok(()));
        for (line, text) in [
            ("HTTP/1.1 403 Forbidden", "proxy refused the connection: 403 Forbidden"),
            (
                "HTTP/1.1 407 Proxy Authentication Required",
                "proxy refused the connection: 407 Proxy Authentication Required",
            ),
            ("HTTP/1.1 2000", "proxy refused the connection: 2000"),
            ("HTTP/1.1", "the answer of the proxy is malformed: it is not HTTP"),
            ("SSH-2.0-x", "the answer of the proxy is malformed: it is not HTTP"),
        ] {
            assert_eq!(check(line), Err(text.to_owned()), "{line}");
        }
    }

    #[tokio::test]
    async fn an_answer_ends_with_its_first_empty_line() {
        for head in [
            &b"HTTP/1.1 200 OK\r\nVia: p\r\n\r\n"[..],
            b"HTTP/1.1 200 OK\n\n",
            b"HTTP/1.1 200 OK\n\r\n",
            b"HTTP/1.1 200 OK\r\n\n",
            b"HTTP/1.1 200 Verbindung ge\xf6ffnet\r\n\r\n",
        ] {
            let answer = [head, b"tunnel"].concat();
            let mut stream = &answer[..];
            let read = read_head(&mut stream).await.unwrap();
            assert_eq!(stream, b"tunnel", "{read:?}");
            assert!(check_status(read.lines().next().unwrap()).is_ok(), "{read:?}");
        }
        let long = vec![b'x'; CONNECT_BYTES_MAX + 1];
        assert!(matches!(read_head(&mut &long[..]).await, Err(TunnelError::Malformed(_))));
        assert!(matches!(read_head(&mut &b"HTTP/1.1"[..]).await, Err(TunnelError::Io(_))));
    }

    #[test]
    fn hosts_are_sent_as_names_or_addresses() {
        let port = 2380_u16.to_be_bytes();
        let request = |host| socks_request(host, 2380).unwrap();
        assert_eq!(request("m1"), [&[5, 1, 0, 3, 2][..], b"m1", &port].concat());
        assert_eq!(request("10.0.0.7"), [&[5, 1, 0, 1, 10, 0, 0, 7][..], &port].concat());
        assert_eq!(request("::1").len(), 4 + 16 + 2);
        assert!(socks_request(&"a".repeat(256), 1).is_err());
    }
}
