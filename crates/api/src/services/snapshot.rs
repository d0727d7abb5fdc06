//! Sends a snapshot of the database to a client, in chunks.
//!
//! ```text
//!   remaining_bytes   blob                      version
//!   94208             the first 32,768 bytes    3.7.0
//!   61440             the next
//!   28672
//!   0                 the last 28,672
//!   0                 SHA-256 of all the above, 32 bytes
//! ```
//!
//! A thread of its own reads the file, hashes it and waits when the client is slow: at most
//! [`CHUNKS_MAX`] chunks are in memory per client. At most [`SNAPSHOTS_MAX`] such threads run;
//! further requests are refused. The file may be written meanwhile, and its free pages are copied,
//! too. But the pages of an open snapshot cannot be reused, so the file grows: a client that reads
//! nothing for [`STALL_MAX`] is disconnected.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::digest;
use bytes::{Bytes, BytesMut};
use grpc::Code;
use proto::etcdserverpb::SnapshotResponse;
use server::Server;
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::{SendTimeoutError, TrySendError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::errors::CallError;

/// The bytes of a chunk, as in etcd.
const CHUNK_BYTES: usize = 32 * 1024;

/// The most chunks that wait to be sent.
pub(crate) const CHUNKS_MAX: usize = 8;

/// The most snapshots that are sent at once.
pub(crate) const SNAPSHOTS_MAX: usize = 16;

/// The longest time that a client may take for one chunk.
const STALL_MAX: Duration = Duration::from_secs(5 * 60);

/// Permits for the threads that send snapshots.
#[derive(Debug)]
pub(crate) struct SnapshotPermits(Arc<Semaphore>);

impl Default for SnapshotPermits {
    fn default() -> SnapshotPermits {
        SnapshotPermits(Arc::new(Semaphore::new(SNAPSHOTS_MAX)))
    }
}

impl SnapshotPermits {
    fn acquire(&self) -> Result<OwnedSemaphorePermit, CallError> {
        let text = "too many snapshots are being sent";
        let full = |_| CallError::new(Code::ResourceExhausted, text);
        Arc::clone(&self.0).try_acquire_owned().map_err(full)
    }
}

/// A snapshot that is being sent.
#[derive(Debug)]
pub(super) struct SnapshotStream {
    chunks: mpsc::Receiver<SnapshotResponse>,
    /// The result of the copy, sent before the last chunk is taken.
    result: oneshot::Receiver<io::Result<()>>,
}

impl SnapshotStream {
    /// Starts a thread that reads the database. The caller has been authorized.
    pub(super) fn start(
        server: &Server,
        permits: &SnapshotPermits,
    ) -> Result<SnapshotStream, CallError> {
        let permit = permits.acquire()?;
        let (sender, chunks) = mpsc::channel(CHUNKS_MAX);
        let (ended, result) = oneshot::channel();
        let runtime = Handle::current();
        let (server, sender) = (server.clone(), ChunkSender { sender, runtime });
        let thread = std::thread::Builder::new().name("snapshot".to_owned());
        let work = move || {
            let copied = copy(&server, &sender).inspect_err(
                |error| tracing::warn!(%error, "failed to send database snapshot to client"),
            );
            // The result precedes the end of the channel, whose receiver then waits for it. If the
            // receiver was dropped, the client has disconnected.
            let _ = ended.send(copied);
            drop((sender, permit));
        };
        thread.spawn(work).map_err(|error| CallError::unknown(&error))?;
        Ok(SnapshotStream { chunks, result })
    }

    /// Receives the next chunk; none after the last. Must not be called after an error.
    pub(super) async fn next(&mut self) -> Result<Option<SnapshotResponse>, CallError> {
        if let Some(chunk) = self.chunks.recv().await {
            return Ok(Some(chunk));
        }
        match (&mut self.result).await {
            Ok(Ok(())) => Ok(None),
            Ok(Err(error)) => Err(CallError::unknown(&error)),
            // The thread has panicked.
            Err(error) => Err(CallError::unknown(&error)),
        }
    }
}

/// The sending end of the chunks, for the thread.
struct ChunkSender {
    sender: mpsc::Sender<SnapshotResponse>,
    /// The runtime whose clock measures the stall.
    runtime: Handle,
}

impl ChunkSender {
    /// Sends a chunk. Blocks while the client has too many chunks to read.
    fn send(&self, chunk: SnapshotResponse) -> io::Result<()> {
        let sent = match self.sender.try_send(chunk) {
            Err(TrySendError::Full(chunk)) => {
                self.runtime.block_on(self.sender.send_timeout(chunk, STALL_MAX))
            }
            Err(TrySendError::Closed(chunk)) => Err(SendTimeoutError::Closed(chunk)),
            Ok(()) => Ok(()),
        };
        sent.map_err(|error| match error {
            SendTimeoutError::Closed(_) => {
                io::Error::new(io::ErrorKind::BrokenPipe, "client disconnected")
            }
            SendTimeoutError::Timeout(_) => {
                io::Error::new(io::ErrorKind::TimedOut, "the client has stopped reading")
            }
        })
    }
}

fn copy(server: &Server, sender: &ChunkSender) -> io::Result<()> {
    let (snapshot, version) = server.snapshot_database()?;
    let (started, total_bytes) = (Instant::now(), snapshot.size());
    tracing::info!(total_bytes, storage_version = %version, "sending database snapshot to client");
    let mut writer = ChunkWriter::new(sender, total_bytes, version);
    let copied = snapshot.write_to(&mut writer).and_then(|_| writer.finish());
    let took = started.elapsed();
    // Canceled snapshots are measured, too.
    server.metrics().backend_snapshot_duration.observe(took.as_secs_f64());
    copied?;
    tracing::info!(total_bytes, ?took, "successfully sent database snapshot to client");
    Ok(())
}

/// Cuts the written bytes into chunks, and hashes them.
struct ChunkWriter<'a> {
    sender: &'a ChunkSender,
    version: String,
    remaining_bytes: u64,
    hash: digest::Context,
    chunk: BytesMut,
}

impl<'a> ChunkWriter<'a> {
    fn new(sender: &'a ChunkSender, remaining_bytes: u64, version: String) -> ChunkWriter<'a> {
        let hash = digest::Context::new(&digest::SHA256);
        ChunkWriter { sender, version, remaining_bytes, hash, chunk: BytesMut::new() }
    }

    fn send_chunk(&mut self) -> io::Result<()> {
        let blob = self.chunk.split().freeze();
        self.hash.update(&blob);
        self.remaining_bytes = self.remaining_bytes.saturating_sub(blob.len() as u64);
        self.send(blob)
    }

    fn send(&self, blob: Bytes) -> io::Result<()> {
        let (remaining_bytes, version) = (self.remaining_bytes, self.version.clone());
        self.sender.send(SnapshotResponse { remaining_bytes, blob, version, ..Default::default() })
    }

    /// Sends the last chunk and the hash.
    fn finish(mut self) -> io::Result<()> {
        if !self.chunk.is_empty() {
            self.send_chunk()?;
        }
        let hash = self.hash.clone().finish();
        self.send(Bytes::copy_from_slice(hash.as_ref()))
    }
}

impl io::Write for ChunkWriter<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.chunk.reserve(CHUNK_BYTES - self.chunk.len());
        let taken = data.len().min(CHUNK_BYTES - self.chunk.len());
        self.chunk.extend_from_slice(&data[..taken]);
        if self.chunk.len() == CHUNK_BYTES {
            self.send_chunk()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn channel(chunks: usize) -> (ChunkSender, mpsc::Receiver<SnapshotResponse>) {
        let (sender, receiver) = mpsc::channel(chunks);
        (ChunkSender { sender, runtime: Handle::current() }, receiver)
    }

    /// Writes `bytes` bytes, `at_once` at a time. Returns the chunks without the hash.
    fn sent(bytes: usize, at_once: usize) -> Vec<SnapshotResponse> {
        let (sender, mut receiver) = channel(64);
        let data: Vec<u8> = (0..251).cycle().take(bytes).collect();
        let mut writer = ChunkWriter::new(&sender, bytes as u64, "3.7.0".to_owned());
        data.chunks(at_once).for_each(|chunk| writer.write_all(chunk).unwrap());
        writer.finish().unwrap();
        let mut all: Vec<_> = std::iter::from_fn(|| receiver.try_recv().ok()).collect();
        let hash = digest::digest(&digest::SHA256, &data);
        assert_eq!(all.pop().unwrap().blob, hash.as_ref());
        assert_eq!(
            all.iter().flat_map(|response| &response.blob[..]).copied().collect::<Vec<_>>(),
            data
        );
        all
    }

    #[tokio::test]
    async fn chunks_have_the_sizes_of_etcd() {
        for at_once in [4096, 5000, CHUNK_BYTES, 1 << 20] {
            let sizes = |bytes| {
                let all = sent(bytes, at_once);
                all.iter().map(|sent| (sent.blob.len(), sent.remaining_bytes)).collect::<Vec<_>>()
            };
            assert_eq!(
                sizes(2 * CHUNK_BYTES),
                [(CHUNK_BYTES, 32_768), (CHUNK_BYTES, 0)],
                "{at_once}"
            );
            assert_eq!(sizes(CHUNK_BYTES + 4096), [(CHUNK_BYTES, 4096), (4096, 0)], "{at_once}");
        }
    }

    #[tokio::test]
    async fn a_disconnected_client_ends_the_copy() {
        let (sender, receiver) = channel(1);
        drop(receiver);
        let mut writer = ChunkWriter::new(&sender, 1 << 20, String::new());
        let error = writer.write_all(&[0; CHUNK_BYTES]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stalled_client_ends_the_copy() {
        let (sender, _receiver) = channel(1);
        let (ended, result) = oneshot::channel();
        std::thread::spawn(move || {
            let mut writer = ChunkWriter::new(&sender, 1 << 20, String::new());
            ended.send(writer.write_all(&[0; 2 * CHUNK_BYTES]).unwrap_err().kind()).unwrap();
        });
        let started = tokio::time::Instant::now();
        assert_eq!(result.await.unwrap(), io::ErrorKind::TimedOut);
        assert!(started.elapsed() >= STALL_MAX);
    }

    #[test]
    fn the_number_of_snapshots_is_bounded() {
        let permits = SnapshotPermits::default();
        let mut taken: Vec<_> = (0..SNAPSHOTS_MAX).map(|_| permits.acquire().unwrap()).collect();
        assert_eq!(permits.acquire().unwrap_err().0.code, Code::ResourceExhausted);
        taken.pop();
        assert!(permits.acquire().is_ok());
    }
}
