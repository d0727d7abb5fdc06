//! Clients that speak TLS, with a certificate or without.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

use crate::PATIENCE;
use crate::client::{Client, endpoint};
use crate::http::{self, Response};

/// Whom a client trusts, and what it shows.
#[derive(Clone, Debug)]
pub struct Secure {
    authority_pem: String,
    /// The certificate and its key.
    shown: Option<(String, String)>,
}

type TlsStream = StreamOwned<ClientConnection, TcpStream>;

impl Secure {
    /// Trusts this authority, or this very certificate, and shows nothing.
    pub fn new(authority_pem: impl Into<String>) -> Secure {
        Secure { authority_pem: authority_pem.into(), shown: None }
    }

    /// Shows a certificate.
    #[must_use]
    pub fn showing(self, cert_pem: &str, key_pem: &str) -> Secure {
        Secure { shown: Some((cert_pem.to_owned(), key_pem.to_owned())), ..self }
    }

    /// A connection of its own for gRPC.
    ///
    /// # Panics
    ///
    /// If a certificate is none.
    #[track_caller]
    pub fn client(&self, address: &str) -> Client {
        let authority = Certificate::from_pem(&self.authority_pem);
        let mut config = ClientTlsConfig::new().ca_certificate(authority).domain_name("localhost");
        if let Some((cert, key)) = &self.shown {
            config = config.identity(Identity::from_pem(cert, key));
        }
        let endpoint = endpoint(&format!("https://{address}"));
        Client::over(&endpoint.tls_config(config).expect("certificates are sound"))
    }

    /// Asks by HTTP/1.1.
    ///
    /// # Panics
    ///
    /// If there is no answer, or none of HTTP.
    #[track_caller]
    pub fn get(&self, address: &str, path: &str) -> Response {
        let stream = self.connect(address).unwrap_or_else(|error| panic!("{address}: {error}"));
        http::exchange(EndingWell(stream), &http::written(address, "GET", path, &[], ""))
    }

    /// Why there is no answer by HTTP/1.1.
    ///
    /// # Panics
    ///
    /// If there is one.
    #[track_caller]
    pub fn refusal(&self, address: &str) -> String {
        let asked = self.connect(address).and_then(|mut stream| {
            stream.write_all(http::written(address, "GET", "/health", &[], "").as_bytes())?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).map(|_| answer)
        });
        match asked {
            Ok(answer) => {
                assert_eq!(answer, "", "it answers");
                "closed".to_owned()
            }
            Err(error) => error.to_string(),
        }
    }

    /// The certificate that the server shows.
    ///
    /// # Panics
    ///
    /// If there is no connection.
    #[track_caller]
    pub fn shown_by(&self, address: &str) -> Vec<u8> {
        let stream = self.connect(address).unwrap_or_else(|error| panic!("{address}: {error}"));
        let chain = stream.conn.peer_certificates().expect("a server shows a certificate");
        chain[0].to_vec()
    }

    /// A connection whose handshake is done, as far as the client knows.
    fn connect(&self, address: &str) -> io::Result<TlsStream> {
        let name = ServerName::try_from("localhost").expect("it is a name");
        let mut connection =
            ClientConnection::new(self.config(), name).map_err(io::Error::other)?;
        let mut socket = TcpStream::connect(address)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        while connection.is_handshaking() {
            connection.complete_io(&mut socket)?;
        }
        Ok(StreamOwned::new(connection, socket))
    }

    #[track_caller]
    fn config(&self) -> Arc<ClientConfig> {
        let certificate = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM");
        let mut roots = RootCertStore::empty();
        roots.add(certificate(&self.authority_pem)).expect("an authority is sound");
        let builder = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into());
        let builder = builder.with_safe_default_protocol_versions().expect("there are some");
        let builder = builder.with_root_certificates(roots);
        Arc::new(match &self.shown {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key is sound");
                builder.with_client_auth_cert(vec![certificate(cert)], key).expect("both are")
            }
        })
    }
}

/// A stream that may end without TLS having said so: an answer of HTTP says by itself where it ends.
struct EndingWell(TlsStream);

impl Read for EndingWell {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            read => read,
        }
    }
}

impl Write for EndingWell {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
