//! Encoding of the keys of leases, members and alarms. Users and roles are keyed by name.

use bytes::Bytes;
use prost::Message as _;
use proto::etcdserverpb::AlarmMember;
use types::{LeaseId, MemberId};

/// Value of each member in the bucket `members_removed`.
pub const REMOVED: &[u8] = b"removed";

/// Maximum number of digits of a member id.
const MEMBER_DIGITS_MAX: usize = 16;

/// Encodes the key of a lease: its id as 8 bytes, big-endian.
#[must_use]
pub fn lease(id: LeaseId) -> Bytes {
    Bytes::copy_from_slice(&id.0.to_be_bytes())
}

/// Decodes the key of a lease.
#[must_use]
pub fn decode_lease(key: &[u8]) -> Option<LeaseId> {
    Some(LeaseId(i64::from_be_bytes(key.try_into().ok()?)))
}

/// Encodes the key of a member, in `members` and `members_removed`: its id in hexadecimal, without
/// leading zeros.
#[must_use]
pub fn member(id: MemberId) -> Bytes {
    Bytes::from(id.to_string().into_bytes())
}

/// Decodes the key of a member.
#[must_use]
pub fn decode_member(key: &[u8]) -> Option<MemberId> {
    if key.is_empty() || key.len() > MEMBER_DIGITS_MAX || !key.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let digits = std::str::from_utf8(key).ok()?;
    u64::from_str_radix(digits, 16).ok().map(MemberId)
}

/// Encodes the key of an alarm: the whole message. The value is empty.
#[must_use]
pub fn alarm(alarm: &AlarmMember) -> Bytes {
    Bytes::from(alarm.encode_to_vec())
}

/// Decodes the key of an alarm.
#[must_use]
pub fn decode_alarm(key: &[u8]) -> Option<AlarmMember> {
    AlarmMember::decode(key).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_keys_are_eight_bytes() {
        assert_eq!(&lease(LeaseId(0x0102))[..], b"\0\0\0\0\0\0\x01\x02");
        assert_eq!(decode_lease(&lease(LeaseId(-5))), Some(LeaseId(-5)));
        assert_eq!(decode_lease(b"short"), None);
    }

    #[test]
    fn alarm_keys_are_messages() {
        let nospace = AlarmMember { member_id: 5, alarm: 1 };
        assert_eq!(&alarm(&nospace)[..], b"\x08\x05\x10\x01");
        assert_eq!(decode_alarm(&alarm(&nospace)), Some(nospace));
        assert_eq!(decode_alarm(b"\x08"), None);
    }

    #[test]
    fn member_keys_are_hexadecimal_text() {
        assert_eq!(&member(MemberId(0x0e9e_05c5_2164_694d))[..], b"e9e05c52164694d");
        let id = MemberId(u64::MAX);
        assert_eq!(decode_member(&member(id)), Some(id));
        for text in ["", "+1", "xyz", "11112222333344445"] {
            assert_eq!(decode_member(text.as_bytes()), None, "{text:?}");
        }
    }
}
