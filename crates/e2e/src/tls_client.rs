//! Clients over TLS, with or without a certificate.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

use crate::TIMEOUT;
use crate::client::{Client, endpoint};
use crate::http::{self, Response};

/// The trusted authority and the certificate of a client.
#[derive(Clone, Debug)]
pub struct TlsClient {
    authority_pem: String,
    /// Client certificate and key.
    identity: Option<(String, String)>,
}

type TlsStream = StreamOwned<ClientConnection, TcpStream>;

impl TlsClient {
    /// Trusts this authority, or this very certificate, and presents no certificate.
    pub fn new(authority_pem: impl Into<String>) -> TlsClient {
        TlsClient { authority_pem: authority_pem.into(), identity: None }
    }

    /// Presents a certificate.
    #[must_use]
    pub fn with_identity(self, cert_pem: &str, key_pem: &str) -> TlsClient {
        TlsClient { identity: Some((cert_pem.to_owned(), key_pem.to_owned())), ..self }
    }

    /// Opens a new gRPC connection.
    ///
    /// # Panics
    ///
    /// If a certificate is invalid.
    #[track_caller]
    pub fn client(&self, address: &str) -> Client {
        let authority = Certificate::from_pem(&self.authority_pem);
        let mut config = ClientTlsConfig::new().ca_certificate(authority).domain_name("localhost");
        if let Some((cert, key)) = &self.identity {
            config = config.identity(Identity::from_pem(cert, key));
        }
        let endpoint = endpoint(&format!("https://{address}"));
        Client::over(&endpoint.tls_config(config).expect("valid certificates"))
    }

    /// Sends GET over HTTP/1.1.
    ///
    /// # Panics
    ///
    /// If no valid HTTP response arrives.
    #[track_caller]
    pub fn get(&self, address: &str, path: &str) -> Response {
        let stream = self.connect(address).unwrap_or_else(|error| panic!("{address}: {error}"));
        http::exchange(ToleratesEof(stream), &http::format_request(address, "GET", path, &[], ""))
    }

    /// Sends a request that must be rejected, and returns the error.
    ///
    /// # Panics
    ///
    /// If there is a response.
    #[track_caller]
    pub fn refusal(&self, address: &str) -> String {
        let result = self.connect(address).and_then(|mut stream| {
            stream
                .write_all(http::format_request(address, "GET", "/health", &[], "").as_bytes())?;
            let mut response = String::new();
            stream.read_to_string(&mut response).map(|_| response)
        });
        match result {
            Ok(response) => {
                assert_eq!(response, "", "the server answered");
                "closed".to_owned()
            }
            Err(error) => error.to_string(),
        }
    }

    /// Returns the certificate that the server presents.
    ///
    /// # Panics
    ///
    /// If the connection fails.
    #[track_caller]
    pub fn server_certificate(&self, address: &str) -> Vec<u8> {
        let stream = self.connect(address).unwrap_or_else(|error| panic!("{address}: {error}"));
        let chain = stream.conn.peer_certificates().expect("a server certificate");
        chain[0].to_vec()
    }

    /// Connects and completes the handshake on the client's side.
    fn connect(&self, address: &str) -> io::Result<TlsStream> {
        let name = ServerName::try_from("localhost").expect("a valid name");
        let mut connection =
            ClientConnection::new(self.config(), name).map_err(io::Error::other)?;
        let mut socket = TcpStream::connect(address)?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        while connection.is_handshaking() {
            connection.complete_io(&mut socket)?;
        }
        Ok(StreamOwned::new(connection, socket))
    }

    #[track_caller]
    fn config(&self) -> Arc<ClientConfig> {
        let certificate = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM");
        let mut roots = RootCertStore::empty();
        roots.add(certificate(&self.authority_pem)).expect("a valid authority");
        let builder = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into());
        let builder =
            builder.with_safe_default_protocol_versions().expect("default protocol versions");
        let builder = builder.with_root_certificates(roots);
        Arc::new(match &self.identity {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a valid key");
                builder
                    .with_client_auth_cert(vec![certificate(cert)], key)
                    .expect("a matching certificate and key")
            }
        })
    }
}

/// A stream that may end without a TLS close notification, since HTTP delimits its own responses.
struct ToleratesEof(TlsStream);

impl Read for ToleratesEof {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            read => read,
        }
    }
}

impl Write for ToleratesEof {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
