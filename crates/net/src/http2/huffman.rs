//! Finds `#` in a string in HPACK's Huffman coding, without decoding it.
//!
//! The code is canonical: codes of one length are consecutive numbers, and the first code of a
//! length follows the last of the length before it. So the number of codes of each length describes
//! where each code ends, and `#` is the first of 12 bits.
//!
//! ```text
//!   '0'  00000          the first of 10 codes of 5 bits
//!   ' '  010100         the first of 26 codes of 6 bits
//!   '#'  111111111010   the first of 2 codes of 12 bits
//! ```

/// The number of codes of each length, the end-of-string code included. RFC 7541, appendix B.
const COUNTS: [u32; 31] = [
    0, 0, 0, 0, 0, 10, 26, 32, 6, 0, 5, 3, 2, 6, 2, 3, 0, 0, 0, 3, 8, 13, 26, 29, 12, 4, 15, 19,
    29, 0, 4,
];
/// The longest code.
const BITS_MAX: u32 = 30;
/// The length of the code of `#`, which is the first of this length.
const FRAGMENT_BITS: u32 = 12;

/// For each length, the first code that is longer, aligned to the top of 32 bits.
const LIMITS: [u64; 31] = {
    let (mut limits, mut code, mut bits) = ([0; 31], 0u64, 1);
    while bits <= 30 {
        code = (code << 1) + COUNTS[bits] as u64;
        limits[bits] = code << (32 - bits);
        bits += 1;
    }
    limits
};

/// The code of `#`, aligned to the top of 32 bits.
const FRAGMENT: u64 = LIMITS[FRAGMENT_BITS as usize - 1];

/// The length of the code that begins with each byte; 0 if it is longer than 8 bits.
const SHORT_BITS: [u8; 256] = {
    let (mut lengths, mut byte) = ([0; 256], 0);
    while byte < 256 {
        let mut bits = 5u8;
        while bits <= 8 && (byte as u64) << 24 >= LIMITS[bits as usize] {
            bits += 1;
        }
        lengths[byte] = if bits <= 8 { bits } else { 0 };
        byte += 1;
    }
    lengths
};

/// Scans a string in portions of any size.
#[derive(Debug, Default)]
pub(super) struct HuffmanScanner {
    /// Bits that are not scanned: the lowest `count`.
    bits: u64,
    count: u32,
}

impl HuffmanScanner {
    /// Scans the next bytes. Returns whether a `#` ends in them.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> bool {
        let mut found = false;
        for byte in bytes {
            self.bits = self.bits << 8 | u64::from(*byte);
            self.count += 8;
            found |= self.scan();
        }
        found
    }

    /// Drops all complete codes. Returns whether one was that of `#`.
    fn scan(&mut self) -> bool {
        let mut found = false;
        while self.count > 0 {
            // Aligned to the top of 32 bits, with zeros after the bits that are known.
            let top = (self.bits << (u64::BITS - self.count)) >> 32;
            let length = code_bits(top);
            if length > self.count {
                break;
            }
            found |= length == FRAGMENT_BITS && top >> (32 - FRAGMENT_BITS) == FRAGMENT >> 20;
            self.count -= length;
        }
        found
    }
}

/// Returns the length of the code that begins at the top of 32 bits.
fn code_bits(top: u64) -> u32 {
    let short = SHORT_BITS[usize::try_from(top >> 24).unwrap_or(0)];
    if short > 0 {
        return short.into();
    }
    (9..BITS_MAX).find(|bits| top < LIMITS[*bits as usize]).unwrap_or(BITS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Codes of RFC 7541, appendix B.
    #[test]
    fn codes_have_the_lengths_of_the_rfc() {
        let cases: [(u64, u32); 10] = [
            (0x0, 5),
            (0x14, 6),
            (0x5c, 7),
            (0xf8, 8),
            (0x3f8, 10),
            (0x7fa, 11),
            (0xffa, 12),
            (0x1ff8, 13),
            (0x0fff_ffe2, 28),
            (0x3fff_ffff, 30),
        ];
        for (code, bits) in cases {
            assert_eq!(code_bits(code << (32 - bits)), bits, "{code:x}");
        }
        assert_eq!(FRAGMENT >> 20, 0xffa);
    }

    #[test]
    fn a_number_sign_is_found_in_any_portions() {
        // The codes of "/a", of "#" or ">", and of "b", filled with ones to the end.
        let text =
            |code: u32| (((0b01_1000 << 5 | 0b00011) << 12 | code) << 6 | 0b10_0011) << 3 | 7;
        for split in 0..4 {
            for (code, expected) in [(0xffa, true), (0xffb, false)] {
                let text = text(code).to_be_bytes();
                let mut scanner = HuffmanScanner::default();
                let first = scanner.feed(&text[..split]);
                assert_eq!(first | scanner.feed(&text[split..]), expected, "{split}");
            }
        }
    }
}
