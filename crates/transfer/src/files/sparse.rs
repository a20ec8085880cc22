//! Reads files with holes: a hole is neither read nor sent.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use crate::frame::HOLE_LIMIT;

/// Reads a file from an offset to an announced end, without its holes.
#[derive(Debug)]
pub(crate) struct SparseReader {
    file: File,
    position: u64,
    /// Up to here there is data; what follows is not known yet.
    known: u64,
    end: u64,
}

impl SparseReader {
    /// Reads `file` from `position` to `end`. A position of 0 is where the file stands: it was just opened.
    pub(crate) fn new(file: File, position: u64, end: u64) -> Self {
        Self { file, position, known: position, end }
    }

    /// Reads `file` from its start, wherever its position is.
    pub(crate) fn from_start(mut file: File, end: u64) -> io::Result<Self> {
        file.seek(SeekFrom::Start(0))?;
        Ok(Self::new(file, 0, end))
    }

    /// The file itself.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// The current offset.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Skips a hole and returns its length, at most [`HOLE_LIMIT`]; 0 if data is next, or the end.
    pub(crate) fn skip_hole(&mut self) -> io::Result<u64> {
        if self.position < self.known || self.position >= self.end {
            return Ok(0);
        }
        if self.position == 0 && self.end < SMALLEST_SPARSE {
            self.known = self.end;
            return Ok(0);
        }
        let (data, hole) = next_data(&self.file, self.position, self.end)?;
        let length = (data - self.position).min(HOLE_LIMIT);
        self.position += length;
        self.known = if self.position == data { hole } else { self.position };
        // The search for holes moves the file position.
        self.file.seek(SeekFrom::Start(self.position))?;
        Ok(length)
    }

    /// Reads data; returns 0 at the end, or where the file has become shorter than announced. Call
    /// [`skip_hole`](Self::skip_hole) before until it finds none.
    pub(crate) fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.known.saturating_sub(self.position)).unwrap_or(usize::MAX);
        let length = space.len().min(left);
        if length == 0 {
            return Ok(0);
        }
        let read = read_some(&mut self.file, space.get_mut(..length).unwrap_or_default())?;
        self.position += u64::try_from(read).unwrap_or(0);
        Ok(read)
    }

    /// Hashes up to `place`, which is not beyond the end. Returns `false` if the file ends before, or the work was
    /// cancelled.
    pub(crate) fn hash_to(
        &mut self,
        place: u64,
        hasher: &mut blake3::Hasher,
        is_wanted: &dyn Fn() -> bool,
    ) -> io::Result<bool> {
        let left = usize::try_from(place.saturating_sub(self.position)).unwrap_or(BUFFER);
        let mut buffer = vec![0; left.min(BUFFER)];
        let end = std::mem::replace(&mut self.end, place);
        let mut is_reached = true;
        while is_reached && self.position < place {
            let hole = self.skip_hole()?;
            hash_zeros(hasher, hole);
            if hole == 0 {
                let read = self.read(&mut buffer)?;
                hasher.update(buffer.get(..read).unwrap_or_default());
                is_reached = read > 0;
            }
            is_reached = is_reached && is_wanted();
        }
        self.end = end;
        self.known = self.known.min(place);
        Ok(is_reached)
    }
}

/// Adds this many zero bytes to a hash.
pub(crate) fn hash_zeros(hasher: &mut blake3::Hasher, mut length: u64) {
    while length > 0 {
        let piece = usize::try_from(length).unwrap_or(ZEROS.len()).min(ZEROS.len());
        hasher.update(ZEROS.get(..piece).unwrap_or_default());
        length -= u64::try_from(piece).unwrap_or(length);
    }
}

/// Where the next data begins at or behind `from`, and where it ends; both at most `end`.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd", target_vendor = "apple"))]
fn next_data(file: &File, from: u64, end: u64) -> io::Result<(u64, u64)> {
    use rustix::fs::{SeekFrom, seek};
    use rustix::io::Errno;
    match seek(file, SeekFrom::Data(from)) {
        Ok(data) if data < end => {
            let data = data.max(from);
            let hole = seek(file, SeekFrom::Hole(data)).unwrap_or(end);
            Ok((data, if hole > data { hole.min(end) } else { end }))
        }
        // No data follows: a hole to the end, unless the file has become shorter.
        Ok(_) | Err(Errno::NXIO) => {
            let length = file.metadata()?.len();
            if length >= end { Ok((end, end)) } else { Ok((from, end)) }
        }
        Err(Errno::INVAL | Errno::NOTSUP) => Ok((from, end)),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd", target_vendor = "apple")))]
#[expect(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
fn next_data(_: &File, from: u64, end: u64) -> io::Result<(u64, u64)> {
    Ok((from, end))
}

/// Reads once, and repeats after a signal.
pub(super) fn read_some(file: &mut (impl Read + ?Sized), space: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(space) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// A file smaller than this is not searched for holes.
const SMALLEST_SPARSE: u64 = 64 * 1024;
const BUFFER: usize = 256 * 1024;
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        #[test]
        fn holes_and_data_together_are_the_file(
            pieces in prop::collection::vec((any::<bool>(), 1_usize..200_000), 0..8),
            start in any::<prop::sample::Index>(),
        ) {
            let mut file = tempfile::tempfile().unwrap();
            let mut content = Vec::new();
            for (is_hole, length) in pieces {
                if is_hole {
                    content.resize(content.len() + length, 0);
                    file.set_len(content.len() as u64).unwrap();
                    file.seek(SeekFrom::End(0)).unwrap();
                } else {
                    content.resize(content.len() + length, 7);
                    file.write_all(&vec![7; length]).unwrap();
                }
            }
            let end = content.len() as u64;
            let from = start.index(content.len() + 1);
            let start = from as u64;
            let mut reader = SparseReader::new(file.try_clone().unwrap(), start, end);
            file.seek(SeekFrom::Start(start)).unwrap();
            let mut found = vec![0; from];
            let mut buffer = [0; 4096];
            loop {
                let hole = reader.skip_hole().unwrap();
                found.resize(found.len() + usize::try_from(hole).unwrap(), 0);
                if hole > 0 { continue; }
                match reader.read(&mut buffer).unwrap() {
                    0 => break,
                    read => found.extend(&buffer[..read]),
                }
            }
            found.splice(..from, content[..from].iter().copied());
            prop_assert!(found == content);

            let mut hasher = blake3::Hasher::new();
            let mut reader = SparseReader::from_start(file.try_clone().unwrap(), end).unwrap();
            prop_assert!(reader.hash_to(start, &mut hasher, &|| true).unwrap());
            prop_assert_eq!(hasher.finalize(), blake3::hash(&content[..from]));
            prop_assert!(reader.hash_to(end, &mut hasher, &|| true).unwrap());
            prop_assert_eq!(hasher.finalize(), blake3::hash(&content));
        }
    }
}
