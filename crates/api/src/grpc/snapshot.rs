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
//! A thread of its own reads the file, hashes it and waits when the client is slow: at most [`PIECES_MAX`] pieces are ever in memory for a client, and there
//! are at most [`SNAPSHOTS_MAX`] such threads. Whoever comes when all are busy waits for one. The file goes on being written meanwhile; what
//! was free in it when the copy began is copied too.

use std::io;
use std::time::Instant;

use aws_lc_rs::digest;
use backend::schema::version;
use bytes::{Bytes, BytesMut};
use proto::etcdserverpb::SnapshotResponse;
use server::Server;
use tokio::sync::{Semaphore, SemaphorePermit, mpsc};

use super::status::Status;

/// Bytes of a piece, as in etcd.
const PIECE: usize = 32 * 1024;

/// The most pieces that wait to be sent.
pub(crate) const PIECES_MAX: usize = 8;

/// The most snapshots that are sent at once.
pub(crate) const SNAPSHOTS_MAX: usize = 16;

static THREADS: Semaphore = Semaphore::const_new(SNAPSHOTS_MAX);

/// A snapshot that is being sent.
#[derive(Debug)]
pub(super) struct Snapshot {
    pieces: mpsc::Receiver<Result<SnapshotResponse, Status>>,
}

impl Snapshot {
    /// Begins to read the database. Whether the caller may has been asked.
    pub(super) async fn begin(server: &Server) -> Result<Snapshot, Status> {
        let permit = THREADS.acquire().await.map_err(|closed| Status::unknown(&closed))?;
        let (sender, pieces) = mpsc::channel(PIECES_MAX);
        let server = server.clone();
        let thread = std::thread::Builder::new().name("snapshot".to_owned());
        let work = move || send(&server, &sender, permit);
        thread.spawn(work).map_err(|error| Status::unknown(&error))?;
        Ok(Snapshot { pieces })
    }

    /// The next piece; none behind the last. After an error there is nothing.
    pub(super) async fn next(&mut self) -> Option<Result<SnapshotResponse, Status>> {
        self.pieces.recv().await
    }
}

/// What the thread does.
fn send(
    server: &Server,
    to: &mpsc::Sender<Result<SnapshotResponse, Status>>,
    permit: SemaphorePermit<'_>,
) {
    if let Err(error) = copy(server, to) {
        tracing::warn!(%error, "failed to send database snapshot to client");
        // If it failed because the client is gone, nobody is there to be told.
        let _ = to.blocking_send(Err(Status::unknown(&error)));
    }
    drop(permit);
}

fn copy(server: &Server, to: &mpsc::Sender<Result<SnapshotResponse, Status>>) -> io::Result<()> {
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
    to: &'a mpsc::Sender<Result<SnapshotResponse, Status>>,
    version: String,
    remaining_bytes: u64,
    hash: digest::Context,
    piece: BytesMut,
}

impl<'a> Pieces<'a> {
    fn new(
        to: &'a mpsc::Sender<Result<SnapshotResponse, Status>>,
        remaining_bytes: u64,
        version: String,
    ) -> Pieces<'a> {
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
        let response = SnapshotResponse { remaining_bytes, blob, version, ..Default::default() };
        let sent = self.to.blocking_send(Ok(response));
        sent.map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the client is gone"))
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

    /// What is sent when so many bytes are written so many at a time.
    fn sent(bytes: usize, at_once: usize) -> Vec<SnapshotResponse> {
        let (sender, mut receiver) = mpsc::channel(64);
        let data: Vec<u8> = (0..251).cycle().take(bytes).collect();
        let mut pieces = Pieces::new(&sender, bytes as u64, "3.7.0".to_owned());
        data.chunks(at_once).for_each(|chunk| pieces.write_all(chunk).unwrap());
        pieces.finish().unwrap();
        drop(sender);
        let mut all = Vec::new();
        while let Ok(response) = receiver.try_recv() {
            all.push(response.unwrap());
        }
        let hash = digest::digest(&digest::SHA256, &data);
        assert_eq!(all.pop().unwrap().blob, hash.as_ref());
        assert_eq!(
            all.iter().flat_map(|response| &response.blob[..]).copied().collect::<Vec<_>>(),
            data
        );
        all
    }

    #[test]
    fn pieces_are_cut_where_etcd_cuts_them() {
        for at_once in [4096, 5000, PIECE, 1 << 20] {
            let sizes = |bytes| {
                let all = sent(bytes, at_once);
                all.iter().map(|sent| (sent.blob.len(), sent.remaining_bytes)).collect::<Vec<_>>()
            };
            assert_eq!(sizes(2 * PIECE), [(PIECE, 32_768), (PIECE, 0)], "{at_once}");
            assert_eq!(sizes(PIECE + 4096), [(PIECE, 4096), (4096, 0)], "{at_once}");
        }
    }

    #[test]
    fn a_client_that_is_gone_ends_the_copy() {
        let (sender, receiver) = mpsc::channel(1);
        drop(receiver);
        let mut pieces = Pieces::new(&sender, 1 << 20, String::new());
        let error = pieces.write_all(&[0; PIECE]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
