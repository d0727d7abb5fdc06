//! Requests that the generated decoders reject, through `grpc-proxy start`.

use e2e::{Member, Options, Proxy};
use http::uri::PathAndQuery;
use prost::Message;
use proto::etcdserverpb as pb;
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::response_op::Response;
use proto::nested::{NestedTxn, NestedTxnResponse, STACK_BYTES};
use tonic::Status;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic_prost::ProstCodec;

/// Nests a put of `key` into this many transactions.
fn nested(depth: usize, key: &str) -> NestedTxn {
    let put = pb::PutRequest { key: key.to_owned().into(), ..Default::default() };
    let innermost = Request::RequestPut(put);
    let op = (1..depth).fold(innermost, |op, _| {
        let success = vec![pb::RequestOp { request: Some(op) }];
        Request::RequestTxn(pb::TxnRequest { success, ..Default::default() })
    });
    let success = vec![pb::RequestOp { request: Some(op) }];
    NestedTxn(pb::TxnRequest { success, ..Default::default() })
}

/// Returns the number of nested transactions in a response.
fn depth_of(response: &pb::TxnResponse) -> usize {
    let (mut depth, mut response) = (1, response);
    while let [pb::ResponseOp { response: Some(Response::ResponseTxn(nested)) }] =
        &response.responses[..]
    {
        (depth, response) = (depth + 1, nested);
    }
    depth
}

async fn call<Q, R>(channel: Channel, path: &'static str, request: Q) -> Result<R, Status>
where
    Q: Message + Send + Sync + 'static,
    R: Message + Default + Send + Sync + 'static,
{
    let mut client = Grpc::new(channel);
    client.ready().await.unwrap();
    let codec = ProstCodec::<Q, R>::default();
    let request = tonic::Request::new(request);
    client
        .unary(request, PathAndQuery::from_static(path), codec)
        .await
        .map(tonic::Response::into_inner)
}

/// Runs a test on a thread with the stack that deep transactions take.
fn with_stack<F: Future<Output = ()>>(test: impl FnOnce() -> F + Send + 'static) {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test());
    };
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run).unwrap().join().unwrap();
}

#[test]
fn transactions_are_nested_as_deep_as_the_member_accepts_them() {
    with_stack(|| async {
        let member = Member::start(Options::new().flag("max-txn-ops", "5000"));
        let endpoints = format!("--endpoints={}", member.sandbox().client_address());
        let proxy = Proxy::start("grpc-proxy", &[&endpoints, "--namespace=n/"]);
        for depth in [1, 49, 50, 100, 1000, 4999] {
            let key = format!("key{depth}");
            let path = "/etcdserverpb.KV/Txn";
            let sent = call(proxy.client().channel(), path, nested(depth, &key)).await;
            let NestedTxnResponse(response) = sent.unwrap();
            assert_eq!(depth_of(&response), depth);
            let found = member.client().get(&format!("n/{key}")).await.unwrap();
            assert_eq!(found.kvs.len(), 1, "depth {depth}: the namespace applies at any depth");
        }
        let beyond = call::<_, NestedTxnResponse>(
            proxy.client().channel(),
            "/etcdserverpb.KV/Txn",
            nested(5001, "k"),
        );
        let refused = beyond.await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::Internal, "{refused}");
    });
}

/// A message of any bytes.
#[derive(Clone, Debug, Default)]
struct RawMessage(Vec<u8>);

impl Message for RawMessage {
    fn encode_raw(&self, out: &mut impl prost::bytes::BufMut) {
        out.put_slice(&self.0);
    }

    fn merge_field(
        &mut self,
        _: u32,
        _: prost::encoding::WireType,
        _: &mut impl prost::bytes::Buf,
        _: prost::encoding::DecodeContext,
    ) -> Result<(), prost::DecodeError> {
        Ok(())
    }

    fn encoded_len(&self) -> usize {
        self.0.len()
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

#[tokio::test]
async fn fields_of_another_wire_type_are_ignored() {
    let member = Member::start(Options::new());
    let endpoints = format!("--endpoints={}", member.sandbox().client_address());
    let proxy = Proxy::start("grpc-proxy", &[&endpoints]);
    let put = |bytes: &[u8]| {
        let request = RawMessage(bytes.to_vec());
        call::<_, pb::PutResponse>(proxy.client().channel(), "/etcdserverpb.KV/Put", request)
    };
    // The value, field 2, as a number; then key and value.
    put(b"\x10\x05\x0a\x01k\x12\x01v").await.unwrap();
    assert_eq!(member.client().get("k").await.unwrap().kvs[0].value, "v");
    let malformed = put(b"\x0a\x05k").await.unwrap_err();
    let text = "grpc: error unmarshalling request: proto: cannot parse invalid wire-format data";
    assert_eq!((malformed.code(), malformed.message()), (tonic::Code::Internal, text));
}
