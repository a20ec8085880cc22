//! The metadata of a file or directory, sent before its content.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::codec::{CodecError, Fields, put_text};
use crate::link::LinkTarget;
use crate::name::RelativePath;

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link with this target.
    Link(LinkTarget),
    /// Content of unknown length: standard input, a pipe, a file that the system generates while it is read.
    Stream,
}

impl EntryKind {
    /// Whether content follows.
    pub(crate) fn has_content(&self) -> bool {
        match self {
            Self::File | Self::Stream => true,
            Self::Directory | Self::Link(_) => false,
        }
    }
}

/// A time as file systems keep it: seconds since 1970, possibly negative, and nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp {
    /// Seconds since the start of 1970, UTC; negative before.
    pub seconds: i64,
    /// Nanoseconds after that second, below 10⁹.
    pub nanos: u32,
}

impl Timestamp {
    /// The same time for the standard library; the start of 1970 if it cannot be expressed there.
    pub fn to_system_time(self) -> SystemTime {
        let whole = Duration::from_secs(self.seconds.unsigned_abs());
        let base =
            if self.seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
        base.and_then(|b| b.checked_add(Duration::from_nanos(u64::from(self.nanos)))).unwrap_or(UNIX_EPOCH)
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self {
                seconds: i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
                nanos: after.subsec_nanos(),
            },
            Err(error) => {
                let before = error.duration();
                let seconds = i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
                match before.subsec_nanos() {
                    0 => Self { seconds: -seconds, nanos: 0 },
                    nanos => Self { seconds: -seconds - 1, nanos: 1_000_000_000 - nanos },
                }
            }
        }
    }
}

/// A file or directory as it is announced and listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name, relative to the directory it is read from or written to.
    pub path: RelativePath,
    /// What it is.
    pub kind: EntryKind,
    /// Bytes of content; 0 unless it is a file.
    pub size: u64,
    /// Bytes that it occupies on the sender's disk, at most its size: fewer if it has holes.
    pub room: u64,
    /// When the content last changed.
    pub modified: Timestamp,
    /// Permission bits, `0o777` at most: set-uid, set-gid and sticky bits are not transferred.
    pub mode: u16,
}

impl Entry {
    /// Bytes of content, if their number is known before they are sent.
    pub(crate) fn announced_size(&self) -> Option<u64> {
        (self.kind != EntryKind::Stream).then_some(self.size)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(match self.kind {
            EntryKind::File => 0,
            EntryKind::Directory => 1,
            EntryKind::Link(_) => 2,
            EntryKind::Stream => 3,
        });
        out.extend_from_slice(&(self.mode & MODE_MASK).to_be_bytes());
        out.extend_from_slice(&self.modified.seconds.to_be_bytes());
        out.extend_from_slice(&self.modified.nanos.to_be_bytes());
        out.extend_from_slice(&self.size.to_be_bytes());
        out.extend_from_slice(&self.room.to_be_bytes());
        put_text(out, self.path.as_str());
        if let EntryKind::Link(target) = &self.kind {
            put_text(out, target.as_str());
        }
    }

    pub(crate) fn decode(fields: &mut Fields<'_>) -> Result<Self, CodecError> {
        let kind = fields.u8("entry kind")?;
        let mode = fields.u16("mode")?;
        // transfer 2.3: permission bits only
        if mode & !MODE_MASK != 0 {
            return Err(CodecError::Value { field: "mode", value: mode.into() });
        }
        let seconds = i64::from_be_bytes(fields.array("seconds")?);
        let nanos = fields.u32("nanoseconds")?;
        if nanos >= 1_000_000_000 {
            return Err(CodecError::Value { field: "nanoseconds", value: nanos.into() });
        }
        let size = fields.u64("size")?;
        let room = fields.u64("room")?;
        let path = RelativePath::parse(fields.text("path", RelativePath::MAX_LENGTH)?)?;
        let kind = match kind {
            0 => EntryKind::File,
            1 => EntryKind::Directory,
            2 => EntryKind::Link(LinkTarget::parse(fields.text("target", LinkTarget::MAX_LENGTH)?)?),
            3 => EntryKind::Stream,
            value => return Err(CodecError::Value { field: "entry kind", value: value.into() }),
        };
        // transfer 2.7: only a file has a size, and its space on disk is no larger
        if kind != EntryKind::File && size > 0 {
            return Err(CodecError::Value { field: "size", value: size });
        }
        if room > size {
            return Err(CodecError::Value { field: "room", value: room });
        }
        Ok(Self { path, kind, size, room, modified: Timestamp { seconds, nanos }, mode })
    }
}

pub(crate) const MODE_MASK: u16 = 0o777;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_survive() {
        for nanos in [0, 1, 999_999_999] {
            let time = Timestamp { seconds: -5, nanos };
            assert_eq!(Timestamp::from(time.to_system_time()), time);
        }
    }
}
