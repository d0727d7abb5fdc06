//! The database as it is, to a client, in pieces.
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
//! A thread of its own reads the file, hashes it and waits when the client is slow: at most [`PIECES_MAX`] pieces are ever in memory for a client. There are at most
//! [`SNAPSHOTS_MAX`] such threads, and whoever comes when all are busy is told so. The file goes on being written meanwhile; what was free in it when the copy
//! began is copied too. But what is being copied cannot be used again, so the file grows: a client that takes nothing for [`STALL_MAX`] is given up.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::digest;
use backend::schema::version;
use bytes::{Bytes, BytesMut};
use proto::etcdserverpb::SnapshotResponse;
use server::Server;
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::{SendTimeoutError, TrySendError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::status::{Code, Status};

/// Bytes of a piece, as in etcd.
const PIECE: usize = 32 * 1024;

/// The most pieces that wait to be sent.
pub(crate) const PIECES_MAX: usize = 8;

/// The most snapshots that are sent at once.
pub(crate) const SNAPSHOTS_MAX: usize = 16;

/// How long a client may take for one piece.
const STALL_MAX: Duration = Duration::from_secs(5 * 60);

/// The threads that snapshots are sent by.
#[derive(Debug)]
pub(crate) struct Threads(Arc<Semaphore>);

impl Default for Threads {
    fn default() -> Threads {
        Threads(Arc::new(Semaphore::new(SNAPSHOTS_MAX)))
    }
}

impl Threads {
    fn take(&self) -> Result<OwnedSemaphorePermit, Status> {
        let text = "too many snapshots are being sent";
        let full = |_| Status::new(Code::ResourceExhausted, text);
        Arc::clone(&self.0).try_acquire_owned().map_err(full)
    }
}

/// A snapshot that is being sent.
#[derive(Debug)]
pub(super) struct Snapshot {
    pieces: mpsc::Receiver<SnapshotResponse>,
    /// What came of it, from when there are no more pieces.
    outcome: oneshot::Receiver<io::Result<()>>,
}

impl Snapshot {
    /// Begins to read the database. Whether the caller may has been asked.
    pub(super) fn begin(server: &Server, threads: &Threads) -> Result<Snapshot, Status> {
        let permit = threads.take()?;
        let (sender, pieces) = mpsc::channel(PIECES_MAX);
        let (ended, outcome) = oneshot::channel();
        let (server, to) = (server.clone(), Client { sender, runtime: Handle::current() });
        let thread = std::thread::Builder::new().name("snapshot".to_owned());
        let work = move || {
            let copied = copy(&server, &to).inspect_err(
                |error| tracing::warn!(%error, "failed to send database snapshot to client"),
            );
            // In this order: whoever has the last piece is told at once what came of it. If nobody is there to be told, the client has gone.
            let _ = ended.send(copied);
            drop((to, permit));
        };
        thread.spawn(work).map_err(|error| Status::unknown(&error))?;
        Ok(Snapshot { pieces, outcome })
    }

    /// The next piece; none behind the last, and then all were there. After an error there is nothing.
    pub(super) async fn next(&mut self) -> Result<Option<SnapshotResponse>, Status> {
        if let Some(piece) = self.pieces.recv().await {
            return Ok(Some(piece));
        }
        match (&mut self.outcome).await {
            Ok(Ok(())) => Ok(None),
            Ok(Err(error)) => Err(Status::unknown(&error)),
            // The thread has ended without a word.
            Err(error) => Err(Status::unknown(&error)),
        }
    }
}

/// The client, as the thread sees it.
struct Client {
    sender: mpsc::Sender<SnapshotResponse>,
    /// Whose clock says how long it takes.
    runtime: Handle,
}

impl Client {
    /// Returns when the client has taken enough of what came before.
    fn send(&self, piece: SnapshotResponse) -> io::Result<()> {
        let sent = match self.sender.try_send(piece) {
            Err(TrySendError::Full(piece)) => {
                self.runtime.block_on(self.sender.send_timeout(piece, STALL_MAX))
            }
            Err(TrySendError::Closed(piece)) => Err(SendTimeoutError::Closed(piece)),
            Ok(()) => Ok(()),
        };
        sent.map_err(|error| match error {
            SendTimeoutError::Closed(_) => {
                io::Error::new(io::ErrorKind::BrokenPipe, "the client is gone")
            }
            SendTimeoutError::Timeout(_) => {
                io::Error::new(io::ErrorKind::TimedOut, "the client has stopped reading")
            }
        })
    }
}

fn copy(server: &Server, to: &Client) -> io::Result<()> {
    let backend = server.state().backend.clone();
    let stored = version::storage(&backend.view()).map_err(io::Error::other)?;
    let version = stored.map(|version| version.to_string()).unwrap_or_default();
    let snapshot = backend.snapshot().map_err(io::Error::other)?;
    let (began, total_bytes) = (Instant::now(), snapshot.size());
    tracing::info!(total_bytes, storage_version = %version, "sending database snapshot to client");
    let mut pieces = Pieces::new(to, total_bytes, version);
    let copied = snapshot.write_to(&mut pieces).and_then(|_| pieces.finish());
    let took = began.elapsed();
    // Also of one that a client did not wait for the end of.
    server.metrics().backend_snapshot_duration.observe(took.as_secs_f64());
    copied?;
    tracing::info!(total_bytes, ?took, "successfully sent database snapshot to client");
    Ok(())
}

/// Cuts what is written into pieces, and hashes it.
struct Pieces<'a> {
    to: &'a Client,
    version: String,
    remaining_bytes: u64,
    hash: digest::Context,
    piece: BytesMut,
}

impl<'a> Pieces<'a> {
    fn new(to: &'a Client, remaining_bytes: u64, version: String) -> Pieces<'a> {
        let hash = digest::Context::new(&digest::SHA256);
        Pieces { to, version, remaining_bytes, hash, piece: BytesMut::new() }
    }

    fn send_piece(&mut self) -> io::Result<()> {
        let blob = self.piece.split().freeze();
        self.hash.update(&blob);
        self.remaining_bytes = self.remaining_bytes.saturating_sub(blob.len() as u64);
        self.send(blob)
    }

    fn send(&self, blob: Bytes) -> io::Result<()> {
        let (remaining_bytes, version) = (self.remaining_bytes, self.version.clone());
        self.to.send(SnapshotResponse { remaining_bytes, blob, version, ..Default::default() })
    }

    /// Sends what is left, and the hash of all.
    fn finish(mut self) -> io::Result<()> {
        if !self.piece.is_empty() {
            self.send_piece()?;
        }
        let hash = self.hash.clone().finish();
        self.send(Bytes::copy_from_slice(hash.as_ref()))
    }
}

impl io::Write for Pieces<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.piece.reserve(PIECE - self.piece.len());
        let taken = data.len().min(PIECE - self.piece.len());
        self.piece.extend_from_slice(&data[..taken]);
        if self.piece.len() == PIECE {
            self.send_piece()?;
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

    fn client(pieces: usize) -> (Client, mpsc::Receiver<SnapshotResponse>) {
        let (sender, receiver) = mpsc::channel(pieces);
        (Client { sender, runtime: Handle::current() }, receiver)
    }

    /// What is sent when so many bytes are written so many at a time.
    fn sent(bytes: usize, at_once: usize) -> Vec<SnapshotResponse> {
        let (client, mut receiver) = client(64);
        let data: Vec<u8> = (0..251).cycle().take(bytes).collect();
        let mut pieces = Pieces::new(&client, bytes as u64, "3.7.0".to_owned());
        data.chunks(at_once).for_each(|chunk| pieces.write_all(chunk).unwrap());
        pieces.finish().unwrap();
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
    async fn pieces_are_cut_where_etcd_cuts_them() {
        for at_once in [4096, 5000, PIECE, 1 << 20] {
            let sizes = |bytes| {
                let all = sent(bytes, at_once);
                all.iter().map(|sent| (sent.blob.len(), sent.remaining_bytes)).collect::<Vec<_>>()
            };
            assert_eq!(sizes(2 * PIECE), [(PIECE, 32_768), (PIECE, 0)], "{at_once}");
            assert_eq!(sizes(PIECE + 4096), [(PIECE, 4096), (4096, 0)], "{at_once}");
        }
    }

    #[tokio::test]
    async fn a_client_that_is_gone_ends_the_copy() {
        let (client, receiver) = client(1);
        drop(receiver);
        let mut pieces = Pieces::new(&client, 1 << 20, String::new());
        let error = pieces.write_all(&[0; PIECE]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_given_up_in_the_end() {
        let (client, _receiver) = client(1);
        let (ended, outcome) = oneshot::channel();
        std::thread::spawn(move || {
            let mut pieces = Pieces::new(&client, 1 << 20, String::new());
            ended.send(pieces.write_all(&[0; 2 * PIECE]).unwrap_err().kind()).unwrap();
        });
        let began = tokio::time::Instant::now();
        assert_eq!(outcome.await.unwrap(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= STALL_MAX);
    }

    #[test]
    fn there_are_so_many_threads_and_no_more() {
        let threads = Threads::default();
        let mut taken: Vec<_> = (0..SNAPSHOTS_MAX).map(|_| threads.take().unwrap()).collect();
        assert_eq!(threads.take().unwrap_err().code, Code::ResourceExhausted);
        taken.pop();
        assert!(threads.take().is_ok());
    }
}
