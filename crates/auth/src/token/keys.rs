//! Keys that sign tokens and verify signatures.

use std::fmt;

use aws_lc_rs::error::KeyRejected;
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    self as sig, EcdsaKeyPair, Ed25519KeyPair, KeyPair, ParsedPublicKey, RsaKeyPair,
};

use crate::error::{Error, OptionsError};
use crate::token::method::{Family, PairKind};
use crate::token::options::JwtOptions;
use crate::token::pem;

/// The keys of a method; at least one verifies signatures.
pub(crate) enum Keys {
    Secret(Box<hmac::Key>),
    Pair { signer: Signer, public: ParsedPublicKey },
    PublicOnly(ParsedPublicKey),
}

/// A private key.
pub(crate) enum Signer {
    Rsa(RsaKeyPair, &'static dyn sig::RsaEncoding),
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Keys {
    /// Parses the key files of the options.
    pub(crate) fn read(options: &JwtOptions) -> Result<Keys, OptionsError> {
        match options.method.family {
            Family::Secret(algorithm) => secret(algorithm, &options.private_key),
            Family::Pair(kind) => Keys::read_pair(kind, options),
        }
    }

    fn read_pair(kind: PairKind, options: &JwtOptions) -> Result<Keys, OptionsError> {
        let signer = non_empty(&options.private_key).map(|file| kind.signer(file)).transpose()?;
        let public = non_empty(&options.public_key).map(|file| kind.public(file)).transpose()?;
        match (signer, public) {
            (None, None) => Err(OptionsError::MissingKey),
            (None, Some(public)) => Ok(Keys::PublicOnly(public)),
            (Some(signer), None) => {
                let public = kind.parse_public(signer.public_bytes())?;
                Ok(Keys::Pair { signer, public })
            }
            (Some(signer), Some(public)) if are_pair(&signer, &public) => {
                Ok(Keys::Pair { signer, public })
            }
            (Some(_), Some(_)) => Err(OptionsError::KeyMismatch),
        }
    }

    /// Signs a message.
    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        match self {
            Keys::Secret(secret) => Ok(hmac::sign(secret, message).as_ref().to_vec()),
            Keys::Pair { signer, .. } => signer.sign(message).ok_or(Error::Signing),
            Keys::PublicOnly(_) => Err(Error::VerifyOnly),
        }
    }

    /// Verifies a signature.
    pub(crate) fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Keys::Secret(secret) => hmac::verify(secret, message, signature).is_ok(),
            Keys::Pair { public, .. } | Keys::PublicOnly(public) => {
                public.verify_sig(message, signature).is_ok()
            }
        }
    }
}

/// Prints no key material.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Keys::Secret(_) => "Secret",
            Keys::Pair { .. } => "Pair",
            Keys::PublicOnly(_) => "PublicOnly",
        })
    }
}

impl Signer {
    /// Signs a message. Returns `None` if the library refuses.
    fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match self {
            Signer::Rsa(pair, encoding) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(*encoding, &random, message, &mut signature).ok()?;
                Some(signature)
            }
            Signer::Ecdsa(pair) => Some(pair.sign(&random, message).ok()?.as_ref().to_vec()),
            Signer::Ed25519(pair) => Some(pair.try_sign(message).ok()?.as_ref().to_vec()),
        }
    }

    fn public_bytes(&self) -> &[u8] {
        match self {
            Signer::Rsa(pair, _) => pair.public_key().as_ref(),
            Signer::Ecdsa(pair) => pair.public_key().as_ref(),
            Signer::Ed25519(pair) => pair.public_key().as_ref(),
        }
    }
}

impl PairKind {
    fn name(self) -> &'static str {
        match self {
            PairKind::Rsa(..) => "RSA",
            PairKind::Ecdsa(..) => "ECDSA",
            PairKind::Ed25519 => "Ed25519",
        }
    }

    /// Parses a private key, in the format of its kind (PKCS #1, SEC 1) or in PKCS #8.
    fn signer(self, file: &[u8]) -> Result<Signer, OptionsError> {
        let der = pem::first_block(file).ok_or(OptionsError::NotPem)?;
        let signer = match self {
            PairKind::Rsa(encoding, _) => RsaKeyPair::from_der(&der)
                .or_else(|_| RsaKeyPair::from_pkcs8(&der))
                .map(|pair| Signer::Rsa(pair, encoding)),
            PairKind::Ecdsa(algorithm, _) => {
                EcdsaKeyPair::from_private_key_der(algorithm, &der).map(Signer::Ecdsa)
            }
            PairKind::Ed25519 => {
                Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).map(Signer::Ed25519)
            }
        };
        signer.map_err(|reason| self.not_a_key("private", reason))
    }

    /// Parses a public key or a certificate.
    fn public(self, file: &[u8]) -> Result<ParsedPublicKey, OptionsError> {
        let der = pem::first_block(file).ok_or(OptionsError::NotPem)?;
        self.parse_public(&der)
            .or_else(|error| self.parse_public(pem::key_of_certificate(&der).ok_or(error)?))
    }

    fn parse_public(self, bytes: &[u8]) -> Result<ParsedPublicKey, OptionsError> {
        let key = match self {
            PairKind::Rsa(_, parameters) => ParsedPublicKey::new(parameters, bytes),
            PairKind::Ecdsa(_, algorithm) => ParsedPublicKey::new(algorithm, bytes),
            PairKind::Ed25519 => ParsedPublicKey::new(&sig::ED25519, bytes),
        };
        key.map_err(|reason| self.not_a_key("public", reason))
    }

    fn not_a_key(self, half: &'static str, reason: KeyRejected) -> OptionsError {
        OptionsError::NotAKey { kind: self.name(), half, reason: reason.to_string() }
    }
}

/// Takes all bytes of a file as the secret. A public key file is ignored: a secret has none.
fn secret(algorithm: hmac::Algorithm, file: &[u8]) -> Result<Keys, OptionsError> {
    let secret = non_empty(file).ok_or(OptionsError::MissingKey)?;
    Ok(Keys::Secret(Box::new(hmac::Key::new(algorithm, secret))))
}

fn non_empty(file: &[u8]) -> Option<&[u8]> {
    (!file.is_empty()).then_some(file)
}

/// Returns whether a public key verifies the signatures of a private key.
fn are_pair(signer: &Signer, public: &ParsedPublicKey) -> bool {
    const PROBE: &[u8] = b"key pair check";
    signer.sign(PROBE).is_some_and(|signature| public.verify_sig(PROBE, &signature).is_ok())
}
