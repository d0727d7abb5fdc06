//! Transactions, nested as deep as members accept them.

use http::uri::PathAndQuery;
use proto::etcdserverpb::TxnResponse;
use proto::nested::{NestedTxn, NestedTxnResponse};
use tonic::client::Grpc;
use tonic::{GrpcMethod, Request, Status};
use tonic_prost::ProstCodec;

use super::Upstream;

impl Upstream {
    /// Runs a transaction on a member.
    pub(crate) async fn txn(&self, request: Request<NestedTxn>) -> Result<TxnResponse, Status> {
        self.txn_within(request, self.recv_bytes_max()).await
    }

    /// Runs a transaction on a member, with a limit on its response. The generated client would not
    /// decode a response with more than 49 levels.
    pub(crate) async fn txn_within(
        &self,
        mut request: Request<NestedTxn>,
        bytes_max: usize,
    ) -> Result<TxnResponse, Status> {
        let mut client = Grpc::new(self.channel())
            .max_encoding_message_size(usize::MAX)
            .max_decoding_message_size(bytes_max);
        client.ready().await?;
        request.extensions_mut().insert(GrpcMethod::new("etcdserverpb.KV", "Txn"));
        let path = PathAndQuery::from_static("/etcdserverpb.KV/Txn");
        let codec = ProstCodec::<NestedTxn, NestedTxnResponse>::default();
        let response = client.unary(request, path, codec).await?;
        Ok(response.into_inner().0)
    }
}
