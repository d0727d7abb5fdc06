pub(crate) const GO_HASHES: [(&str, &str); 0] = [];
