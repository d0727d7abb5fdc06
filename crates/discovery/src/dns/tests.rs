use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::thread;

use hickory_resolver::config::{ConnectionConfig, NameServerConfig};

use super::*;

/// Starts a DNS server that knows one service with two hosts. It ends with the process.
fn server() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut bytes = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut bytes) {
            let _ = socket.send_to(&answer(&bytes[..length]), from);
        }
    });
    address
}

/// Builds a response: a header of 12 bytes, the question, and the records.
fn answer(query: &[u8]) -> Vec<u8> {
    let name_end = 12 + query[12..].iter().position(|byte| *byte == 0).unwrap() + 1;
    let question = &query[12..name_end + 4];
    let is_known = question.starts_with(&name("_etcd-server-ssl._tcp.example.com"));
    let records: Vec<Vec<u8>> = match is_known {
        true => vec![srv("m2.example.com", 20, 2380), srv("m1.example.com", 10, 2381)],
        false => Vec::new(),
    };
    let code = if is_known { 0 } else { 3 };
    let count = u8::try_from(records.len()).unwrap();
    let header = [query[0], query[1], 0x81, 0x80 | code, 0, 1, 0, count, 0, 0, 0, 0];
    [&header[..], question, &records.concat()].concat()
}

fn name(text: &str) -> Vec<u8> {
    let labels = text
        .split('.')
        .flat_map(|label| [&[u8::try_from(label.len()).unwrap()], label.as_bytes()].concat());
    labels.collect()
}

/// Encodes an SRV record of the queried name, with a TTL of one minute.
fn srv(target: &str, priority: u8, port: u16) -> Vec<u8> {
    let mut data = vec![0, priority, 0, 0];
    data.extend(port.to_be_bytes());
    data.extend(name(target));
    data.push(0);
    let length = u8::try_from(data.len()).unwrap();
    [&[0xc0, 12, 0, 33, 0, 1, 0, 0, 0, 60, 0, length], &data[..]].concat()
}

fn dns(server: SocketAddr) -> SystemDns {
    let mut connection = ConnectionConfig::udp();
    connection.port = server.port();
    let mut server = NameServerConfig::udp(IpAddr::V4(Ipv4Addr::LOCALHOST));
    server.connections = vec![connection];
    SystemDns { servers: Some(ResolverConfig::from_parts(None, Vec::new(), vec![server])) }
}

#[test]
fn srv_records_are_queried() {
    let dns = dns(server());
    let mut records = dns.srv("etcd-server-ssl", "example.com").unwrap();
    records.sort();
    let record = |target: &str, priority, port| SrvRecord {
        priority,
        target: target.into(),
        port,
        weight: 0,
    };
    let expected = [record("m1.example.com.", 10, 2381), record("m2.example.com.", 20, 2380)];
    assert_eq!(records, expected);
    assert_eq!(
        dns.srv("etcd-server", "example.com").unwrap_err(),
        "lookup _etcd-server._tcp.example.com: no such host"
    );
}

#[test]
fn addresses_are_resolved_by_the_system() {
    let dns = SystemDns::default();
    assert_eq!(dns.address("localhost", 7).unwrap().to_string(), "127.0.0.1:7");
    assert_eq!(dns.address("10.0.0.7", 7).unwrap().to_string(), "10.0.0.7:7");
}
