//! Texts of handshake errors, in Go's words where users search etcd's logs for them.

use std::io;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

const UNVERIFIED: &str = "tls: failed to verify certificate: x509:";

/// Returns the text of a handshake error.
pub fn handshake_error_text(error: &io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(error) => rustls_error_text(error),
        None if error.kind() == io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        None => gocompat::os_error_text(error),
    }
}

fn rustls_error_text(error: &Error) -> String {
    match error {
        Error::NoCertificatesPresented => "tls: client didn't provide a certificate".to_owned(),
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "tls: first record does not look like a TLS handshake".to_owned()
        }
        Error::AlertReceived(alert) => format!("remote error: tls: {}", alert_text(*alert)),
        Error::InvalidCertificate(error) => certificate_error_text(error),
        other => format!("tls: {other}"),
    }
}

fn certificate_error_text(error: &CertificateError) -> String {
    match error {
        CertificateError::NotValidForName => "client certificate authentication failed".to_owned(),
        CertificateError::NotValidForNameContext { expected, presented } => {
            let (valid, name) = (presented.join(", "), expected.to_str());
            format!("{UNVERIFIED} certificate is valid for {valid}, not {name}")
        }
        CertificateError::Other(error) => error.to_string(),
        CertificateError::UnknownIssuer => {
            format!("{UNVERIFIED} certificate signed by unknown authority")
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => {
            format!("{UNVERIFIED} certificate has expired or is not yet valid: {error}")
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            format!("{UNVERIFIED} certificate specifies an incompatible key usage")
        }
        other => format!("{UNVERIFIED} {other}"),
    }
}

/// Returns Go's text for an alert of the remote end.
fn alert_text(alert: AlertDescription) -> String {
    let text = match alert {
        AlertDescription::BadCertificate => "bad certificate",
        AlertDescription::UnknownCA => "unknown certificate authority",
        AlertDescription::CertificateExpired => "expired certificate",
        AlertDescription::CertificateRevoked => "revoked certificate",
        AlertDescription::CertificateUnknown => "unknown certificate",
        AlertDescription::CertificateRequired => "certificate required",
        AlertDescription::UnsupportedCertificate => "unsupported certificate",
        AlertDescription::HandshakeFailure => "handshake failure",
        AlertDescription::ProtocolVersion => "protocol version not supported",
        AlertDescription::NoApplicationProtocol => "no application protocol",
        other => return format!("{other:?}"),
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshake_errors_read_as_in_go() {
        let of =
            |error: Error| handshake_error_text(&io::Error::new(io::ErrorKind::InvalidData, error));
        for (error, text) in [
            (Error::NoCertificatesPresented, "tls: client didn't provide a certificate"),
            (
                Error::AlertReceived(AlertDescription::UnknownCA),
                "remote error: tls: unknown certificate authority",
            ),
            (
                CertificateError::UnknownIssuer.into(),
                "tls: failed to verify certificate: x509: certificate signed by unknown authority",
            ),
            (
                InvalidMessage::InvalidContentType.into(),
                "tls: first record does not look like a TLS handshake",
            ),
        ] {
            assert_eq!(of(error), text);
        }
        assert_eq!(handshake_error_text(&io::ErrorKind::UnexpectedEof.into()), "EOF");
        let reset = io::Error::from_raw_os_error(104);
        assert_eq!(handshake_error_text(&reset), "connection reset by peer");
    }
}
