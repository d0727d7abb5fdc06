//! Formats requests for log lines: protobuf's text form, with sizes instead of values.
//!
//! ```text
//!   key:"a" value_size:5 lease:7
//!   compare:<target:MOD key:"a" mod_revision:5> success:<request_put:<key:"a">> failure:<>
//!   header:<ID:7587891523440 username:"alice"> put:<key:"a" value_size:5>   a request of the log
//! ```
//!
//! Passwords, their hashes and tokens are never printed.

use std::fmt::{self, Display, Formatter};

use proto::command::{Command, RaftRequest};
use proto::etcdserverpb::compare::TargetUnion;
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestHeader, RequestOp, TxnRequest,
};

use crate::metrics::Op;

/// Formats a request with `Display`.
#[derive(Clone, Copy, Debug)]
pub struct Loggable<T>(pub T);

/// Writes the fields that are set, separated by spaces.
struct Fields<'a, 'b> {
    f: &'a mut Formatter<'b>,
    first: bool,
}

impl<'a, 'b> Fields<'a, 'b> {
    fn new(f: &'a mut Formatter<'b>) -> Fields<'a, 'b> {
        Fields { f, first: true }
    }

    fn field(&mut self, name: &str, value: &dyn Display) -> fmt::Result {
        let space = if std::mem::take(&mut self.first) { "" } else { " " };
        write!(self.f, "{space}{name}:{value}")
    }

    fn bytes(&mut self, name: &str, value: &[u8]) -> fmt::Result {
        match value {
            [] => Ok(()),
            value => self.field(name, &format_args!("\"{}\"", value.escape_ascii())),
        }
    }

    fn number(&mut self, name: &str, value: i64) -> fmt::Result {
        if value == 0 { Ok(()) } else { self.field(name, &value) }
    }

    fn size(&mut self, name: &str, value: &[u8]) -> fmt::Result {
        if value.is_empty() { Ok(()) } else { self.field(name, &value.len()) }
    }

    fn flag(&mut self, name: &str, value: bool) -> fmt::Result {
        if value { self.field(name, &true) } else { Ok(()) }
    }

    /// Writes an enum value unless it is zero.
    fn choice(&mut self, name: &str, number: i32, value: &str) -> fmt::Result {
        if number == 0 { Ok(()) } else { self.field(name, &value) }
    }
}

impl Display for Loggable<&RangeRequest> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let range = self.0;
        let mut fields = Fields::new(f);
        fields.bytes("key", &range.key)?;
        fields.bytes("range_end", &range.range_end)?;
        fields.number("limit", range.limit)?;
        fields.number("revision", range.revision)?;
        fields.choice("sort_order", range.sort_order, range.sort_order().as_str_name())?;
        fields.choice("sort_target", range.sort_target, range.sort_target().as_str_name())?;
        fields.flag("serializable", range.serializable)?;
        fields.flag("keys_only", range.keys_only)?;
        fields.flag("count_only", range.count_only)?;
        fields.number("min_mod_revision", range.min_mod_revision)?;
        fields.number("max_mod_revision", range.max_mod_revision)?;
        fields.number("min_create_revision", range.min_create_revision)?;
        fields.number("max_create_revision", range.max_create_revision)
    }
}

impl Display for Loggable<&PutRequest> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let put = self.0;
        let mut fields = Fields::new(f);
        fields.bytes("key", &put.key)?;
        fields.size("value_size", &put.value)?;
        fields.number("lease", put.lease)?;
        fields.flag("prev_kv", put.prev_kv)?;
        fields.flag("ignore_value", put.ignore_value)?;
        fields.flag("ignore_lease", put.ignore_lease)
    }
}

impl Display for Loggable<&DeleteRangeRequest> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut fields = Fields::new(f);
        fields.bytes("key", &self.0.key)?;
        fields.bytes("range_end", &self.0.range_end)?;
        fields.flag("prev_kv", self.0.prev_kv)
    }
}

impl Display for Loggable<&TxnRequest> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        // Recursion is safe: see `proto::nested`.
        let TxnRequest { compare, success, failure } = self.0;
        write!(f, "compare:<{}> ", Separated(compare))?;
        write!(f, "success:<{}> failure:<{}>", Separated(success), Separated(failure))
    }
}

/// Formats items separated by spaces.
struct Separated<'a, T>(&'a [T]);

impl<'a, T> Display for Separated<'a, T>
where
    Loggable<&'a T>: Display,
{
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().enumerate().try_for_each(|(at, item)| {
            let space = if at == 0 { "" } else { " " };
            write!(f, "{space}{}", Loggable(item))
        })
    }
}

impl Display for Loggable<&RequestOp> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.0.request {
            Some(Request::RequestRange(range)) => write!(f, "request_range:<{}>", Loggable(range)),
            Some(Request::RequestPut(put)) => write!(f, "request_put:<{}>", Loggable(put)),
            Some(Request::RequestDeleteRange(delete)) => {
                write!(f, "request_delete_range:<{}>", Loggable(delete))
            }
            Some(Request::RequestTxn(txn)) => write!(f, "request_txn:<{}>", Loggable(txn)),
            None => Ok(()),
        }
    }
}

impl Display for Loggable<&Compare> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let compare = self.0;
        let mut fields = Fields::new(f);
        fields.choice("result", compare.result, compare.result().as_str_name())?;
        fields.choice("target", compare.target, compare.target().as_str_name())?;
        fields.bytes("key", &compare.key)?;
        match &compare.target_union {
            Some(TargetUnion::Version(version)) => fields.field("version", version)?,
            Some(TargetUnion::CreateRevision(at)) => fields.field("create_revision", at)?,
            Some(TargetUnion::ModRevision(at)) => fields.field("mod_revision", at)?,
            Some(TargetUnion::Value(value)) => fields.size("value_size", value)?,
            Some(TargetUnion::Lease(lease)) => fields.field("lease", lease)?,
            None => {}
        }
        fields.bytes("range_end", &compare.range_end)
    }
}

impl Display for Loggable<&RaftRequest> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let header = self.0.header.as_ref();
        write!(f, "header:<{}> ", header.map(Loggable).map_or(String::new(), |it| it.to_string()))?;
        write!(f, "{}", Loggable(&self.0.command))
    }
}

impl Display for Loggable<&Command> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Command::Put(put) => write!(f, "put:<{}>", Loggable(put)),
            Command::Txn(txn) => write!(f, "txn:<{}>", Loggable(txn)),
            Command::Range(range) => write!(f, "range:<{}>", Loggable(range)),
            Command::DeleteRange(delete) => write!(f, "delete_range:<{}>", Loggable(delete)),
            Command::Compaction(compaction) => {
                write!(f, "compaction:<revision:{}>", compaction.revision)
            }
            Command::LeaseGrant(grant) => {
                write!(f, "lease_grant:<ttl:{}-second id:{:016x}>", grant.ttl, grant.id)
            }
            Command::LeaseRevoke(revoke) => write!(f, "lease_revoke:<id:{:016x}>", revoke.id),
            Command::Authenticate(request) => write!(f, "authenticate:<name:{}>", request.name),
            Command::AuthUserAdd(add) => write!(f, "auth_user_add:<name:{}>", add.name),
            Command::AuthUserChangePassword(change) => {
                write!(f, "auth_user_change_password:<name:{}>", change.name)
            }
            // The others are short, so only the name of the command is logged.
            other => f.write_str(Op::of(other).name()),
        }
    }
}

impl Display for Loggable<&RequestHeader> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let RequestHeader { id, username, auth_revision } = self.0;
        let mut fields = Fields::new(f);
        fields.field("ID", id)?;
        fields.bytes("username", username.as_bytes())?;
        if *auth_revision == 0 { Ok(()) } else { fields.field("auth_revision", auth_revision) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::etcdserverpb::compare::{CompareResult, CompareTarget};
    use proto::etcdserverpb::range_request::{SortOrder, SortTarget};

    #[test]
    fn unset_fields_are_left_out() {
        let range = RangeRequest {
            key: "a\0".into(),
            limit: 5,
            sort_order: SortOrder::Descend.into(),
            sort_target: SortTarget::Mod.into(),
            serializable: true,
            ..RangeRequest::default()
        };
        let text = r#"key:"a\x00" limit:5 sort_order:DESCEND sort_target:MOD serializable:true"#;
        assert_eq!(Loggable(&range).to_string(), text);
        assert_eq!(Loggable(&RangeRequest::default()).to_string(), "");
    }

    #[test]
    fn values_are_not_printed_at_any_depth() {
        let put = PutRequest { key: "k".into(), value: "secret".into(), ..PutRequest::default() };
        let op = |request| RequestOp { request: Some(request) };
        let nested =
            TxnRequest { success: vec![op(Request::RequestPut(put))], ..TxnRequest::default() };
        let compare = Compare {
            result: CompareResult::Greater.into(),
            target: CompareTarget::Value.into(),
            key: "c".into(),
            target_union: Some(TargetUnion::Value("secret".into())),
            ..Compare::default()
        };
        let delete = DeleteRangeRequest { key: "d".into(), ..DeleteRangeRequest::default() };
        let txn = TxnRequest {
            compare: vec![compare],
            success: vec![op(Request::RequestTxn(nested)), op(Request::RequestDeleteRange(delete))],
            failure: vec![],
        };
        let put = r#"request_put:<key:"k" value_size:6>"#;
        let nested = format!("request_txn:<compare:<> success:<{put}> failure:<>>");
        assert_eq!(
            Loggable(&txn).to_string(),
            format!(
                "compare:<result:GREATER target:VALUE key:\"c\" value_size:6> \
                 success:<{nested} request_delete_range:<key:\"d\">> failure:<>"
            )
        );
    }

    #[test]
    fn a_log_request_shows_the_user_and_no_secrets() {
        let header = RequestHeader { id: 7, username: "alice".to_owned(), auth_revision: 3 };
        let put = PutRequest { key: "k".into(), value: "xyz".into(), ..Default::default() };
        assert_eq!(
            Loggable(&RaftRequest::new(header, put)).to_string(),
            r#"header:<ID:7 username:"alice" auth_revision:3> put:<key:"k" value_size:3>"#
        );
        let add = proto::etcdserverpb::AuthUserAddRequest {
            name: "bob".to_owned(),
            password: "secret".to_owned(),
            ..Default::default()
        };
        let request = RaftRequest { id: 7, header: None, command: add.into() };
        assert_eq!(Loggable(&request).to_string(), "header:<> auth_user_add:<name:bob>");
        let grant = proto::etcdserverpb::LeaseGrantRequest { id: 0xab, ttl: 60 };
        let text = "lease_grant:<ttl:60-second id:00000000000000ab>";
        assert_eq!(Loggable(&Command::from(grant)).to_string(), text);
        let list = proto::etcdserverpb::AuthUserListRequest {};
        assert_eq!(Loggable(&Command::from(list)).to_string(), "AuthUserList");
    }
}
