//! The response to a nested transaction: a tree of the same depth.

use prost::bytes::{Buf, BufMut, Bytes};
use prost::encoding::{DecodeContext, WireType};
use prost::{DecodeError, Message};

use super::{LEVELS_MAX, message_reversed, put_reversed};
use crate::etcdserverpb::response_op::Response;
use crate::etcdserverpb::{ResponseOp, TxnResponse};
use crate::fields::{Field, Fields, Malformed};

/// Field numbers on the way down a nested response.
const TXN_RESPONSES: u32 = 3;
const OP_TXN: u32 = 4;

/// The response to a [`NestedTxn`](super::NestedTxn), as a member sends it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NestedTxnResponse(pub TxnResponse);

impl Message for NestedTxnResponse {
    fn encode_raw(&self, out: &mut impl BufMut) {
        match self.0.responses.iter().any(|op| nested(op).is_some()) {
            true => put_reversed(out, |reversed| response_reversed(&self.0, reversed)),
            false => self.0.encode_raw(out),
        }
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire: WireType,
        buf: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        self.0.merge_field(tag, wire, buf, context)
    }

    fn encoded_len(&self) -> usize {
        self.0.encoded_len()
    }

    fn clear(&mut self) {
        self.0.clear();
    }

    fn decode(mut buf: impl Buf) -> Result<NestedTxnResponse, DecodeError> {
        let data = buf.copy_to_bytes(buf.remaining());
        TxnResponse::decode(data.clone())
            .or_else(|error| decode_response(data).map_err(|_| error))
            .map(NestedTxnResponse)
    }
}

fn nested(op: &ResponseOp) -> Option<&TxnResponse> {
    match &op.response {
        Some(Response::ResponseTxn(nested)) => Some(nested),
        _ => None,
    }
}

/// Writes a response from its end to its start.
fn response_reversed(response: &TxnResponse, out: &mut Vec<u8>) {
    for op in response.responses.iter().rev() {
        message_reversed(TXN_RESPONSES, out, |out| match nested(op) {
            Some(nested) => message_reversed(OP_TXN, out, |out| response_reversed(nested, out)),
            None => out.extend(op.encode_to_vec().iter().rev()),
        });
    }
    let TxnResponse { header, succeeded, .. } = *response;
    let around = TxnResponse { header, succeeded, responses: Vec::new() };
    out.extend(around.encode_to_vec().iter().rev());
}

/// A response whose fields are being read.
struct OpenResponse {
    /// The encoded fields other than the responses of operations.
    around: Vec<u8>,
    responses: Vec<ResponseOp>,
    rest: Fields,
}

impl OpenResponse {
    fn new(data: Bytes) -> OpenResponse {
        OpenResponse { around: Vec::new(), responses: Vec::new(), rest: Fields(data) }
    }

    fn finish(self) -> Result<TxnResponse, DecodeError> {
        let around = TxnResponse::decode(&self.around[..])?;
        Ok(TxnResponse { responses: self.responses, ..around })
    }
}

/// Decodes a response, with a list of the open responses in place of the stack.
fn decode_response(data: Bytes) -> Result<TxnResponse, Malformed> {
    let mut innermost = OpenResponse::new(data);
    let mut outer: Vec<OpenResponse> = Vec::new();
    loop {
        match innermost.rest.next()? {
            Some(Field { number: TXN_RESPONSES, payload, .. }) => {
                let is_bounded = 2 * outer.len() + 2 < LEVELS_MAX;
                let op = payload.filter(|_| is_bounded).ok_or(Malformed)?;
                match super::only_field(&op, OP_TXN) {
                    Some(data) => {
                        outer.push(std::mem::replace(&mut innermost, OpenResponse::new(data)));
                    }
                    None => innermost.responses.push(ResponseOp::decode(op)?),
                }
            }
            Some(field) => innermost.around.extend_from_slice(&field.whole),
            None => {
                let Some(parent) = outer.pop() else { return Ok(innermost.finish()?) };
                let nested = std::mem::replace(&mut innermost, parent).finish()?;
                let response = Some(Response::ResponseTxn(nested));
                innermost.responses.push(ResponseOp { response });
            }
        }
    }
}
