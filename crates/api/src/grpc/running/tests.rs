use std::future::pending;
use std::time::Duration;

use http_body_util::BodyExt as _;
use tokio::sync::oneshot;

use super::*;
use crate::body::Body;
use crate::grpc::metrics::Metrics;
use crate::grpc::rpc::Method;
use crate::grpc::status::Code;

/// Streams of one method, and how they ended.
struct Streams {
    ends: Arc<Ends>,
    metrics: Metrics,
    registry: prometheus::Registry,
}

impl Streams {
    fn new() -> Streams {
        let registry = prometheus::Registry::new();
        let metrics = Metrics::new(&registry, false).unwrap();
        Streams { ends: Arc::default(), metrics, registry }
    }

    fn begin<F>(&self, deadline: Deadline, work: impl FnOnce(Sink) -> F) -> Arc<Running>
    where
        F: Future<Output = Result<(), Status>> + Send + 'static,
    {
        let counted = self.metrics.method(0).begin();
        let (_, method) = Method::find("/etcdserverpb.Watch/Watch").unwrap();
        let open = Open::new(None, method);
        let terms = Terms { ends: &self.ends, needs_leader: false, deadline, counted, open };
        let sink = Sink::default();
        Running::new(terms, &sink, work(sink.clone()))
    }

    /// How many ended with a code.
    fn ended(&self, code: Code) -> usize {
        let text = prometheus::TextEncoder::new();
        let text = text.encode_to_string(&self.registry.gather()).unwrap();
        let label = format!("grpc_server_handled_total{{grpc_code=\"{}\"", code.name());
        let of_code = text.lines().filter(|line| line.starts_with(&label));
        of_code.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok()).sum()
    }
}

/// Writes something, and then never ends by itself. Who is told knows when it is gone.
async fn talk(sink: Sink, _held: oneshot::Sender<()>) -> Result<(), Status> {
    sink.write(|out| out.resize(PIECE, 0));
    pending().await
}

/// What goes out until the end, as lengths, and the code in the trailers.
async fn frames(mut body: Body) -> (Vec<usize>, String) {
    let mut lengths = Vec::new();
    while let Some(frame) = body.frame().await {
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
async fn what_is_written_at_once_goes_out_at_once() {
    let streams = Streams::new();
    let running = streams.begin(Deadline::default(), |sink| async move {
        for size in [1, 2] {
            sink.write(|out| out.resize(out.len() + size, 0));
            assert!(!sink.room().await);
        }
        tokio::task::yield_now().await;
        sink.write(|out| out.resize(4, 0));
        Ok(())
    });
    assert_eq!(frames(Body::stream(running)).await, (vec![3, 4], "0".to_owned()));
    assert_eq!(streams.ended(Code::Ok), 1);
}

#[tokio::test]
async fn work_waits_for_room() {
    let running = Streams::new().begin(Deadline::default(), |sink| async move {
        for _ in 0..3 {
            sink.write(|out| out.resize(out.len() + PIECE, 0));
            assert!(sink.room().await);
        }
        Ok(())
    });
    let (lengths, code) = frames(Body::stream(running)).await;
    assert_eq!((lengths, &code[..]), (vec![PIECE; 3], "0"));
}

#[tokio::test]
async fn a_large_piece_leaves_nothing_behind() {
    let sink = Sink::default();
    sink.write(|out| out.resize(1 << 20, 0));
    assert_eq!(sink.slot.take().len(), 1 << 20);
    assert_eq!(sink.slot.lock().capacity(), 0);
}

/// What ends a stream.
async fn ended(deadline: Deadline, end: impl AsyncFnOnce(&Streams)) -> (String, Streams) {
    let streams = Streams::new();
    let (held, gone) = oneshot::channel();
    let running = streams.begin(deadline, |sink| talk(sink, held));
    let mut body = Body::stream(running);
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap().len(), PIECE);
    // From here on nobody polls it: its client has not taken that piece.
    end(&streams).await;
    assert!(gone.await.is_err(), "what it held is free all the same");
    // And when the client has, it is told.
    (frames(body).await.1, streams)
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_a_stream_that_nobody_polls() {
    let deadline = Deadline::after(Duration::from_secs(5));
    let (code, streams) = ended(deadline, async |_| {}).await;
    assert_eq!((&code[..], streams.ended(Code::DeadlineExceeded)), ("4", 1));
}

#[tokio::test]
async fn a_member_that_stops_ends_a_stream_that_nobody_polls() {
    let (code, streams) = ended(Deadline::default(), async |streams| streams.ends.close()).await;
    assert_eq!((&code[..], streams.ended(Code::Unavailable)), ("14", 1));
    // And one that begins later.
    let (held, _gone) = oneshot::channel();
    let later = streams.begin(Deadline::default(), |sink| talk(sink, held));
    assert_eq!(frames(Body::stream(later)).await, (vec![], "14".to_owned()));
}

#[tokio::test]
async fn a_stream_that_waits_is_woken_by_its_end() {
    let streams = Streams::new();
    let running = streams.begin(Deadline::default(), |_| pending());
    let ended = async {
        tokio::task::yield_now().await;
        streams.ends.close();
    };
    let (told, ()) = tokio::join!(frames(Body::stream(running)), ended);
    assert_eq!(told, (vec![], "14".to_owned()));
}

#[tokio::test]
async fn a_stream_that_is_dropped_was_canceled() {
    let streams = Streams::new();
    let (held, gone) = oneshot::channel();
    let running = streams.begin(Deadline::default(), |sink| talk(sink, held));
    drop(Body::stream(running));
    assert!(gone.await.is_err());
    assert_eq!(streams.ended(Code::Canceled), 1);
}
