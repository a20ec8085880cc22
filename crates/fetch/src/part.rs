//! The unfinished file, and the thread that writes it.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::error::FetchError;
use crate::ranges::Ranges;
use crate::record::Record;

/// How often what has arrived is synced and recorded. If the disk is slow, this many times as long as that takes.
const RECORD_EVERY: Duration = Duration::from_secs(2);
const FIRST_RECORD: Duration = Duration::from_millis(500);
const RECORD_SHARE: u32 = 10;
/// Blocks that wait to be written, each as large as one read of a socket.
pub(crate) const WAITING: usize = 16;

/// The names of a file that is being fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Places {
    /// The finished file.
    pub(crate) file: PathBuf,
    /// The unfinished file.
    pub(crate) part: PathBuf,
    /// What is known of it.
    record: PathBuf,
}

impl Places {
    /// The places for a file with this path.
    pub(crate) fn of(file: &Path) -> Self {
        let hidden = |middle: &str| {
            let mut name = OsString::from(".");
            name.push(file.file_name().unwrap_or_default());
            name.push(middle);
            name.push(".manyway-part");
            file.with_file_name(name)
        };
        Self { file: file.to_owned(), part: hidden(".url"), record: hidden(".url-record") }
    }

    /// What an earlier run left; `None` if that is nothing or damaged.
    pub(crate) fn read_record(&self, part: &File) -> Option<Record> {
        let record = Record::parse(&std::fs::read_to_string(&self.record).ok()?)?;
        let length = part.metadata().ok()?.len();
        (record.have.end() <= length).then_some(record)
    }

    /// Opens the unfinished file, creates its directory, and keeps other processes from it.
    ///
    /// # Errors
    /// If it cannot be opened, or another process has it.
    pub(crate) fn open(&self) -> Result<File, FetchError> {
        if let Some(parent) = self.part.parent() {
            std::fs::create_dir_all(parent).map_err(FetchError::local(parent))?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt as _;
            // Others may have put a link there, if the directory is theirs, too.
            let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
            options.custom_flags(i32::try_from(flags.bits()).unwrap_or_default());
        }
        let file = options.open(&self.part).map_err(FetchError::local(&self.part))?;
        let is_file = file.metadata().map_err(FetchError::local(&self.part))?.is_file();
        if !is_file {
            let error = io::Error::new(io::ErrorKind::AlreadyExists, "it is no regular file");
            return Err(FetchError::Local { path: self.part.clone(), source: error });
        }
        #[cfg(unix)]
        if rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(FetchError::Busy { path: self.file.clone() });
        }
        Ok(file)
    }

    /// Removes the unfinished file and what is known of it.
    pub(crate) fn remove(&self) {
        // What cannot be removed does no harm: without its record it is not used.
        let _ = std::fs::remove_file(&self.record);
        let _ = std::fs::remove_file(&self.part);
    }

    /// Removes only what is known of it.
    pub(crate) fn remove_record(&self) {
        let _ = std::fs::remove_file(&self.record);
    }

    /// Replaces the record at once: after a crash there is the old or the new one.
    fn write_record(&self, record: &Record) -> io::Result<()> {
        let mut new = self.record.clone().into_os_string();
        new.push("~");
        let mut file = File::create(&new)?;
        file.write_all(record.to_text().as_bytes())?;
        file.sync_data()?;
        drop(file);
        std::fs::rename(&new, &self.record)
    }
}

/// Bytes and their place in the file.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) offset: u64,
    pub(crate) data: Bytes,
}

/// The thread that writes. It ends when no sender of blocks is left.
#[derive(Debug)]
pub(crate) struct Writer<T> {
    task: JoinHandle<Result<T, FetchError>>,
}

/// Starts to write to the unfinished file; with a record, it is kept up to date.
pub(crate) fn start(
    places: &Places,
    file: File,
    record: Option<Record>,
) -> (mpsc::Sender<Block>, Writer<File>) {
    let (sender, blocks) = mpsc::channel(WAITING);
    let places = places.clone();
    (sender, Writer::spawn(move || write_all(&places, file, record, blocks)))
}

impl<T: Send + 'static> Writer<T> {
    /// Starts a thread.
    pub(crate) fn spawn(write: impl FnOnce() -> Result<T, FetchError> + Send + 'static) -> Self {
        Self { task: tokio::task::spawn_blocking(write) }
    }

    /// Whether it ended, which before the last sender is gone means that it failed.
    pub(crate) fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    /// Waits until everything is written.
    ///
    /// # Errors
    /// If something could not be written.
    pub(crate) async fn end(self) -> Result<T, FetchError> {
        self.task.await.unwrap_or_else(|error| {
            Err(FetchError::Local { path: PathBuf::new(), source: io::Error::other(error) })
        })
    }
}

fn write_all(
    places: &Places,
    mut file: File,
    mut record: Option<Record>,
    mut blocks: mpsc::Receiver<Block>,
) -> Result<File, FetchError> {
    let mut written = Ranges::default();
    let mut due = Instant::now() + FIRST_RECORD;
    let mut failure = None;
    while let Some(Block { offset, data }) = blocks.blocking_recv() {
        if let Err(error) = file.seek(SeekFrom::Start(offset)).and_then(|_| file.write_all(&data)) {
            failure = Some(error);
            break;
        }
        written.insert(offset..offset.saturating_add(u64::try_from(data.len()).unwrap_or(u64::MAX)));
        if let Some(record) = record.as_mut()
            && Instant::now() >= due
        {
            let started = Instant::now();
            // If this fails a crash loses more; a failure that matters comes again.
            let _ = note(places, &file, record, &mut written);
            due = Instant::now() + RECORD_EVERY.max(started.elapsed() * RECORD_SHARE);
        }
    }
    let noted = match record.as_mut() {
        Some(record) => note(places, &file, record, &mut written),
        None => file.sync_data(),
    };
    match failure.or_else(|| noted.err()) {
        Some(error) => Err(FetchError::Local { path: places.part.clone(), source: error }),
        None => Ok(file),
    }
}

/// The data first: the record must not name bytes that a crash could lose.
fn note(places: &Places, file: &File, record: &mut Record, written: &mut Ranges) -> io::Result<()> {
    file.sync_data()?;
    for range in std::mem::take(written).iter() {
        record.have.insert(range.clone());
    }
    places.write_record(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tag::StrongTag;

    fn record() -> Record {
        let tag = StrongTag::parse("\"1\"").unwrap();
        Record { address: "http://h/f".to_owned(), tag, length: 100, have: Ranges::default() }
    }

    #[tokio::test]
    async fn what_was_written_is_known_to_the_next_run() {
        let directory = tempfile::tempdir().unwrap();
        let places = Places::of(&directory.path().join("f"));
        let (blocks, writer) = start(&places, places.open().unwrap(), Some(record()));
        for (offset, text) in [(50, "later"), (0, "first")] {
            blocks.send(Block { offset, data: Bytes::from_static(text.as_bytes()) }).await.unwrap();
        }
        drop(blocks);
        writer.end().await.unwrap();
        let file = places.open().unwrap();
        let have = places.read_record(&file).unwrap().have;
        assert_eq!(have.iter().cloned().collect::<Vec<_>>(), [0..5, 50..55]);
        file.set_len(54).unwrap();
        assert_eq!(places.read_record(&file), None, "the record names bytes that are not there");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_place_of_the_unfinished_file_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let places = Places::of(&directory.path().join("f"));
        let other = directory.path().join("other");
        std::fs::write(&other, "precious").unwrap();
        std::os::unix::fs::symlink(&other, &places.part).unwrap();
        assert!(matches!(places.open(), Err(FetchError::Local { .. })));
    }

    #[cfg(unix)]
    #[test]
    fn two_downloads_of_one_file_do_not_meet() {
        let directory = tempfile::tempdir().unwrap();
        let places = Places::of(&directory.path().join("f"));
        let first = places.open().unwrap();
        assert!(matches!(places.open(), Err(FetchError::Busy { .. })));
        drop(first);
        assert!(places.open().is_ok());
    }
}
