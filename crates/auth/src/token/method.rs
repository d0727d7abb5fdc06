//! Signing methods, by their names in JWT.
//!
//! | name | signature |
//! | --- | --- |
//! | `RS256` `RS384` `RS512` | RSA, PKCS #1 v1.5 |
//! | `PS256` `PS384` `PS512` | RSA, PSS with a salt as long as the hash |
//! | `ES256` `ES384` `ES512` | ECDSA on P-256, P-384, P-521: r and s concatenated |
//! | `HS256` `HS384` `HS512` | HMAC with a shared secret |
//! | `EdDSA` | Ed25519 |

use aws_lc_rs::hmac;
use aws_lc_rs::signature as sig;

use crate::error::{OptionsError, OptionsReason};

/// A signing method.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Method {
    pub(crate) name: &'static str,
    pub(crate) family: Family,
}

/// A shared secret, or a key pair.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Family {
    Secret(hmac::Algorithm),
    Pair(PairKind),
}

/// The kinds of key pairs, with the algorithms to sign and to verify.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PairKind {
    Rsa(&'static dyn sig::RsaEncoding, &'static sig::RsaParameters),
    Ecdsa(&'static sig::EcdsaSigningAlgorithm, &'static sig::EcdsaVerificationAlgorithm),
    Ed25519,
}

impl Method {
    /// Looks a method up by name.
    pub(crate) fn named(name: &str) -> Result<Method, OptionsError> {
        Ok(match name {
            "RS256" => rsa("RS256", &sig::RSA_PKCS1_SHA256, &sig::RSA_PKCS1_2048_8192_SHA256),
            "RS384" => rsa("RS384", &sig::RSA_PKCS1_SHA384, &sig::RSA_PKCS1_2048_8192_SHA384),
            "RS512" => rsa("RS512", &sig::RSA_PKCS1_SHA512, &sig::RSA_PKCS1_2048_8192_SHA512),
            "PS256" => rsa("PS256", &sig::RSA_PSS_SHA256, &sig::RSA_PSS_2048_8192_SHA256),
            "PS384" => rsa("PS384", &sig::RSA_PSS_SHA384, &sig::RSA_PSS_2048_8192_SHA384),
            "PS512" => rsa("PS512", &sig::RSA_PSS_SHA512, &sig::RSA_PSS_2048_8192_SHA512),
            "ES256" => {
                ecdsa("ES256", &sig::ECDSA_P256_SHA256_FIXED_SIGNING, &sig::ECDSA_P256_SHA256_FIXED)
            }
            "ES384" => {
                ecdsa("ES384", &sig::ECDSA_P384_SHA384_FIXED_SIGNING, &sig::ECDSA_P384_SHA384_FIXED)
            }
            "ES512" => {
                ecdsa("ES512", &sig::ECDSA_P521_SHA512_FIXED_SIGNING, &sig::ECDSA_P521_SHA512_FIXED)
            }
            "HS256" => secret("HS256", hmac::HMAC_SHA256),
            "HS384" => secret("HS384", hmac::HMAC_SHA384),
            "HS512" => secret("HS512", hmac::HMAC_SHA512),
            "EdDSA" => Method { name: "EdDSA", family: Family::Pair(PairKind::Ed25519) },
            "none" => return Err(OptionsError::UnsupportedMethod),
            _ => return Err(OptionsError::Invalid(OptionsReason::Method)),
        })
    }
}

fn rsa(
    name: &'static str,
    encoding: &'static dyn sig::RsaEncoding,
    parameters: &'static sig::RsaParameters,
) -> Method {
    Method { name, family: Family::Pair(PairKind::Rsa(encoding, parameters)) }
}

fn ecdsa(
    name: &'static str,
    signing: &'static sig::EcdsaSigningAlgorithm,
    verification: &'static sig::EcdsaVerificationAlgorithm,
) -> Method {
    Method { name, family: Family::Pair(PairKind::Ecdsa(signing, verification)) }
}

fn secret(name: &'static str, algorithm: hmac::Algorithm) -> Method {
    Method { name, family: Family::Secret(algorithm) }
}
