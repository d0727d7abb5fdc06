use std::future::pending;
use std::time::Duration;

use http_body_util::BodyExt as _;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::*;
use crate::body::Body;
use crate::observer::tests::{CodeObserver, Codes};
use crate::status::Code;
use crate::transport::tests::STOPPED;

/// Bound on the wait for a frame. Far above the usual time, since test machines are busy.
const FRAME_TIMEOUT: Duration = Duration::from_secs(120);

/// Streams with the codes that they ended with.
struct Streams {
    registry: Arc<StreamRegistry>,
    codes: Codes,
}

impl Streams {
    fn new() -> Streams {
        Streams { registry: Arc::new(StreamRegistry::new(STOPPED)), codes: Codes::default() }
    }

    fn start<F>(
        &self,
        deadline: Deadline,
        handler: impl FnOnce(Sink) -> F,
    ) -> Arc<StreamTask<CodeObserver>>
    where
        F: Future<Output = Result<(), Status>> + Send + 'static,
    {
        let (registry, observer) = (&self.registry, self.codes.observer());
        let setup = StreamSetup { registry, conditional: false, deadline, observer };
        let sink = Sink::default();
        StreamTask::new(setup, &sink, handler(sink.clone()))
    }
}

/// Writes one chunk and then never ends. The receiver of `_held` completes when the handler is
/// dropped.
async fn write_and_hang(sink: Sink, _held: oneshot::Sender<()>) -> Result<(), Status> {
    sink.write(|out| out.resize(CHUNK_BYTES, 0));
    pending().await
}

/// Returns the lengths of the chunks of a stream, and its status.
async fn frames(mut body: Body<CodeObserver>) -> (Vec<usize>, String) {
    let mut lengths = Vec::new();
    while let Some(frame) = timeout(FRAME_TIMEOUT, body.frame()).await.expect("a frame in time") {
        match frame.unwrap().into_data() {
            Ok(data) => lengths.push(data.len()),
            Err(frame) => {
                let trailers = frame.into_trailers().unwrap();
                return (lengths, trailers["grpc-status"].to_str().unwrap().to_owned());
            }
        }
    }
    panic!("a stream ends with trailers")
}

#[tokio::test]
async fn messages_written_in_one_poll_share_a_chunk() {
    let streams = Streams::new();
    let task = streams.start(Deadline::default(), |sink| async move {
        for size in [1, 2] {
            sink.write(|out| out.resize(out.len() + size, 0));
            assert!(!sink.room().await);
        }
        tokio::task::yield_now().await;
        sink.write(|out| out.resize(4, 0));
        Ok(())
    });
    assert_eq!(frames(Body::stream(task)).await, (vec![3, 4], "0".to_owned()));
    assert_eq!(streams.codes.count(Code::Ok), 1);
}

#[tokio::test]
async fn a_handler_waits_for_room() {
    let task = Streams::new().start(Deadline::default(), |sink| async move {
        for _ in 0..3 {
            sink.write(|out| out.resize(out.len() + CHUNK_BYTES, 0));
            assert!(sink.room().await);
        }
        Ok(())
    });
    let (lengths, code) = frames(Body::stream(task)).await;
    assert_eq!((lengths, &code[..]), (vec![CHUNK_BYTES; 3], "0"));
}

#[tokio::test]
async fn a_large_chunk_keeps_no_capacity() {
    let sink = Sink::default();
    sink.write(|out| out.resize(1 << 20, 0));
    assert_eq!(sink.buffer.take().len(), 1 << 20);
    assert_eq!(sink.buffer.bytes.lock().open.capacity(), 0);
}

#[tokio::test]
async fn a_long_chunk_is_charged_until_it_is_sent() {
    let budget = Arc::new(SendBudget::default());
    let sink = Sink::new(&budget);
    sink.write(|out| out.resize(COUNTED_BYTES_MIN - 1, 1));
    assert_eq!(budget.unsent_bytes(), 0, "a short chunk is not charged");
    sink.write(|out| out.resize(net::UNSENT_BYTES_MAX, 2));
    assert!(!budget.has_room(), "charged before the body takes it");
    // A handler that does not wait for room loses nothing.
    sink.write(|out| out.extend_from_slice(&[3]));
    let chunk = sink.buffer.take();
    assert_eq!((chunk[0], chunk[COUNTED_BYTES_MIN], chunk.last()), (1, 2, Some(&3)));
    assert_eq!(chunk.len(), net::UNSENT_BYTES_MAX + 1);
    drop(chunk);
    assert_eq!(budget.unsent_bytes(), 0);
}

/// Ends a stream whose body is not polled. Returns the code that the client sees later.
async fn end_unpolled(deadline: Deadline, end: impl AsyncFnOnce(&Streams)) -> (String, Streams) {
    let streams = Streams::new();
    let (held, dropped) = oneshot::channel();
    let task = streams.start(deadline, |sink| write_and_hang(sink, held));
    let mut body = Body::stream(task);
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap().len(), CHUNK_BYTES);
    // From here on the body is not polled: the client has not taken the chunk.
    end(&streams).await;
    assert!(dropped.await.is_err(), "the handler is dropped nevertheless");
    // Once the client has taken the chunk, it receives the status.
    (frames(body).await.1, streams)
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_an_unpolled_stream() {
    let deadline = Deadline::after(Duration::from_secs(5));
    let (code, streams) = end_unpolled(deadline, async |_| {}).await;
    assert_eq!((&code[..], streams.codes.count(Code::DeadlineExceeded)), ("4", 1));
}

#[tokio::test]
async fn a_stopping_server_ends_unpolled_and_new_streams() {
    let close = async |streams: &Streams| streams.registry.close();
    let (code, streams) = end_unpolled(Deadline::default(), close).await;
    assert_eq!((&code[..], streams.codes.count(Code::Unavailable)), ("14", 1));
    let (held, _dropped) = oneshot::channel();
    let later = streams.start(Deadline::default(), |sink| write_and_hang(sink, held));
    assert_eq!(frames(Body::stream(later)).await, (vec![], "14".to_owned()));
}

#[tokio::test]
async fn ending_a_waiting_stream_wakes_it() {
    let streams = Streams::new();
    let task = streams.start(Deadline::default(), |_| pending());
    let close = async {
        tokio::task::yield_now().await;
        streams.registry.close();
    };
    let (ended, ()) = tokio::join!(frames(Body::stream(task)), close);
    assert_eq!(ended, (vec![], "14".to_owned()));
}

#[tokio::test]
async fn dropping_a_stream_cancels_it() {
    let streams = Streams::new();
    let (held, dropped) = oneshot::channel();
    let task = streams.start(Deadline::default(), |sink| write_and_hang(sink, held));
    drop(Body::stream(task));
    assert!(dropped.await.is_err());
    assert_eq!(streams.codes.count(Code::Canceled), 1);
}
