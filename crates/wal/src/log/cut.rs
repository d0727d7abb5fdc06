//! Cutting: switching from one segment to the next.
//!
//! ```text
//!  1  the old segment is truncated and synced            power cut: the log ends there
//!  2  the new one gets its first records as 0.tmp        crc, metadata, state; synced
//!  3  it is renamed, and the directory synced            power cut before this: as after 1
//! ```

use std::io;

use super::{WRITE_BYTES_MAX, Wal};
use crate::error::{OpenError, SaveError};
use crate::frame::RecordKind;
use crate::prepare::PreparedSegment;
use crate::segment::{Segment, SegmentName};

impl Wal {
    /// Closes the segment and starts the next one. Everything is durable afterwards.
    pub(super) fn cut(&mut self) -> Result<(), SaveError> {
        self.close_segment()?;
        let prepared = self.next_file()?;
        self.start_segment(&prepared)?;
        self.publish(prepared)?;
        self.slot.cut_done();
        tracing::info!(segment = %self.tail().name, "created a new WAL segment");
        Ok(())
    }

    fn close_segment(&mut self) -> Result<(), SaveError> {
        let cut = self.tail().file.set_len(self.offset);
        self.checked("truncate", self.tail_path(), cut)?;
        self.sync()
    }

    fn next_file(&mut self) -> Result<PreparedSegment, SaveError> {
        if let Some(prepared) = self.slot.take() {
            return Ok(prepared);
        }
        match PreparedSegment::on_demand(&*self.disk, &self.dir, self.config.segment_bytes) {
            Ok(prepared) => Ok(prepared),
            Err(OpenError::Disk(failure)) => {
                self.checked(failure.action, failure.file, Err(failure.source))
            }
            Err(other) => self.checked("prepare", self.dir.clone(), Err(io::Error::other(other))),
        }
    }

    /// Writes the initial records of a segment.
    fn start_segment(&mut self, prepared: &PreparedSegment) -> Result<(), SaveError> {
        debug_assert!(
            self.encoder.bytes().is_empty(),
            "everything is written before a segment is closed"
        );
        self.encoder.push_crc();
        self.encoder.push_bytes(RecordKind::Metadata, &self.metadata);
        self.push_state(&self.state.clone());
        let written = prepared.file.write_at(self.encoder.bytes(), 0);
        self.checked("write", &prepared.path, written)?;
        if !self.config.unsafe_no_fsync {
            let synced = prepared.file.sync_data();
            self.checked("sync", &prepared.path, synced)?;
        }
        Ok(())
    }

    /// Gives the new segment its name and continues in it.
    fn publish(&mut self, prepared: PreparedSegment) -> Result<(), SaveError> {
        let PreparedSegment { file, path } = prepared;
        let name = SegmentName { seq: self.tail().name.seq + 1, index: self.last_index + 1 };
        let renamed = self.disk.rename(&path, &self.dir.join(name.to_string()));
        self.checked("rename", path, renamed)?;
        let synced = self.disk.sync_dir(&self.dir);
        self.checked("sync", self.dir.clone(), synced)?;
        self.held.push(Segment { name, file });
        self.offset = self.encoder.bytes().len() as u64;
        self.bytes_written += self.offset;
        self.encoder.clear(WRITE_BYTES_MAX);
        self.mark_all_durable();
        Ok(())
    }
}
