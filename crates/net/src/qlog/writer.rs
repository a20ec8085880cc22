//! A thread that appends to files, so that no other thread waits for a disk.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::time::Duration;

/// Most names and blocks in the queue.
const QUEUE: usize = 512;
/// Longest wait at the end for the queue to be written.
const LAST_WAIT: Duration = Duration::from_secs(2);
/// Most files with the same base name.
const MOST_COPIES: u32 = 1000;

/// Names a file of the writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileId(u64);

#[derive(Debug)]
enum Order {
    Open(FileId, String),
    Append(FileId, String),
    Close(FileId),
}

impl Order {
    /// Whether it occupies a place in the queue.
    fn counts(&self) -> bool {
        !matches!(self, Self::Close(_))
    }
}

/// Sends orders to the thread.
#[derive(Debug)]
pub(super) struct Writer {
    orders: Option<Sender<Order>>,
    /// Names and blocks in the queue. The ends of files do not count: each file has one, and a lost one would leave its
    /// entry behind.
    waiting: Arc<AtomicUsize>,
    done: std::sync::Mutex<Receiver<()>>,
    next: AtomicU64,
}

impl Writer {
    /// Makes the directory and starts the thread.
    pub(super) fn start(directory: &Path) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        let (orders, receiver) = channel::<Order>();
        let waiting = Arc::new(AtomicUsize::new(0));
        let executed = Arc::clone(&waiting);
        let (ended, done) = sync_channel(1);
        let mut files = Files { directory: directory.to_owned(), files: BTreeMap::new(), has_failed: false };
        std::thread::Builder::new().name("manyway-qlog".into()).spawn(move || {
            while let Ok(order) = receiver.recv() {
                let counts = order.counts();
                files.execute(order);
                if counts {
                    executed.fetch_sub(1, Ordering::Relaxed);
                }
            }
            // There may be no receiver.
            let _ = ended.send(());
        })?;
        Ok(Self { orders: Some(orders), waiting, done: done.into(), next: AtomicU64::new(0) })
    }

    /// Registers a file; it is created when its first block is written.
    pub(super) fn open(&self, name: String) -> FileId {
        let id = FileId(self.next.fetch_add(1, Ordering::Relaxed));
        // Without room in the queue nothing of that file is written, and its records are dropped.
        let _ = self.order(Order::Open(id, name));
        id
    }

    /// Appends to a file; returns the text if there is no room now.
    pub(super) fn append(&self, id: FileId, text: String) -> Result<(), String> {
        match self.order(Order::Append(id, text)) {
            Err(Order::Append(_, text)) => Err(text),
            Err(Order::Open(..) | Order::Close(_)) | Ok(()) => Ok(()),
        }
    }

    /// Ends a file.
    pub(super) fn close(&self, id: FileId) {
        let _ = self.order(Order::Close(id));
    }

    fn order(&self, order: Order) -> Result<(), Order> {
        if order.counts() && self.waiting.fetch_add(1, Ordering::Relaxed) >= QUEUE {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(order);
        }
        self.orders.as_ref().map_or(Ok(()), |orders| orders.send(order)).map_err(|error| error.0)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.orders = None;
        if let Ok(done) = self.done.get_mut() {
            let _ = done.recv_timeout(LAST_WAIT);
        }
    }
}

/// The files, as the thread keeps them.
struct Files {
    directory: PathBuf,
    files: BTreeMap<FileId, Entry>,
    has_failed: bool,
}

/// The place of a file. It is open only during a write, so that any number of connections needs no descriptors.
enum Entry {
    /// The requested name.
    Wanted(String),
    Made(PathBuf),
}

impl Files {
    fn execute(&mut self, order: Order) {
        match order {
            Order::Open(id, name) => {
                self.files.insert(id, Entry::Wanted(name));
            }
            Order::Append(id, text) => {
                if let Err(error) = self.append(id, &text) {
                    self.files.remove(&id);
                    if !std::mem::replace(&mut self.has_failed, true) {
                        let directory = self.directory.display();
                        tracing::warn!(%directory, %error, "qlog can not be written, going on without");
                    }
                }
            }
            Order::Close(id) => {
                self.files.remove(&id);
            }
        }
    }

    fn append(&mut self, id: FileId, text: &str) -> io::Result<()> {
        let Some(entry) = self.files.get_mut(&id) else { return Ok(()) };
        let mut file = match entry {
            Entry::Wanted(name) => {
                let (path, file) = create(&self.directory, name)?;
                *entry = Entry::Made(path);
                file
            }
            Entry::Made(path) => OpenOptions::new().append(true).open(path)?,
        };
        file.write_all(text.as_bytes())
    }
}

/// Creates a file that did not exist: a client chooses its name.
fn create(directory: &Path, name: &str) -> io::Result<(PathBuf, File)> {
    for copy in 1..=MOST_COPIES {
        let number = if copy == 1 { String::new() } else { format!("-{copy}") };
        let path = directory.join(format!("{name}{number}.sqlog"));
        match OpenOptions::new().append(true).create_new(true).open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_file_is_accepted_even_by_a_full_queue() {
        let home = tempfile::tempdir().unwrap();
        // The orders are not read yet, as behind a blocked disk.
        let (orders, receiver) = channel();
        let (_, done) = sync_channel(1);
        let (waiting, next) = (Arc::default(), AtomicU64::new(0));
        let writer = Writer { orders: Some(orders), waiting, done: done.into(), next };
        let (first, second) = (writer.open("a".to_owned()), writer.open("b".to_owned()));
        let mut pieces = 0;
        while writer.append(first, "x".to_owned()).is_ok() {
            pieces += 1;
        }
        assert_eq!(pieces, QUEUE - 2);
        [first, second].into_iter().for_each(|id| writer.close(id));
        drop(writer);
        let directory = home.path().to_owned();
        let mut files = Files { directory, files: BTreeMap::new(), has_failed: false };
        receiver.into_iter().for_each(|order| files.execute(order));
        assert!(files.files.is_empty());
        assert_eq!(fs::read_to_string(home.path().join("a.sqlog")).unwrap().len(), pieces);
    }
}
