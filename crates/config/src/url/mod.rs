//! URLs to listen on. The rules for URLs are in [`gocompat::member_url`]; [`list`] has the values
//! of URL flags and the initial cluster. Whether a member may listen on a host is decided in
//! `check`.

pub mod list;

use std::fmt;

pub use gocompat::member_url::{Address, AddressError, Scheme, Url, UrlError};

/// A URL to listen on, with its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenUrl {
    url: Url,
    address: Address,
}

impl ListenUrl {
    /// Creates a listen URL.
    ///
    /// # Errors
    /// If the port does not fit 16 bits.
    pub fn new(url: Url) -> Result<Self, AddressError> {
        let address = url.address()?;
        Ok(Self { url, address })
    }

    /// Returns the URL.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the address.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Returns whether the listener uses TLS.
    pub fn is_secure(&self) -> bool {
        self.url.scheme().is_secure()
    }
}

impl fmt::Display for ListenUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

#[cfg(test)]
mod tests;
