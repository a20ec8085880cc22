//! A thread that appends to files, so that nobody else waits for a disk.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

/// Pieces that may wait.
const QUEUE: usize = 512;
/// How long the end waits for what is queued.
const LAST_WAIT: Duration = Duration::from_secs(2);
/// Files of one name.
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

/// Hands orders to the thread.
#[derive(Debug)]
pub(super) struct Writer {
    orders: Option<SyncSender<Order>>,
    done: std::sync::Mutex<Receiver<()>>,
    next: AtomicU64,
}

impl Writer {
    /// Makes the directory and starts the thread.
    pub(super) fn start(directory: &Path) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        let (orders, receiver) = sync_channel(QUEUE);
        let (ended, done) = sync_channel(1);
        let mut files = Files { directory: directory.to_owned(), files: BTreeMap::new(), has_failed: false };
        std::thread::Builder::new().name("manyway-qlog".into()).spawn(move || {
            while let Ok(order) = receiver.recv() {
                files.execute(order);
            }
            // Nobody may wait.
            let _ = ended.send(());
        })?;
        Ok(Self { orders: Some(orders), done: done.into(), next: AtomicU64::new(0) })
    }

    /// Names a file; it is made when the first piece is written.
    pub(super) fn open(&self, name: String) -> FileId {
        let id = FileId(self.next.fetch_add(1, Ordering::Relaxed));
        // Without room nothing of that file will be written, and its records are dropped.
        let _ = self.order(Order::Open(id, name));
        id
    }

    /// Appends to a file; gives the text back if there is no room now.
    pub(super) fn append(&self, id: FileId, text: String) -> Result<(), String> {
        match self.order(Order::Append(id, text)) {
            Err(Order::Append(_, text)) => Err(text),
            Err(Order::Open(..) | Order::Close(_)) | Ok(()) => Ok(()),
        }
    }

    /// Nothing more comes for a file.
    pub(super) fn close(&self, id: FileId) {
        let _ = self.order(Order::Close(id));
    }

    fn order(&self, order: Order) -> Result<(), Order> {
        match self.orders.as_ref().map(|orders| orders.try_send(order)) {
            Some(Err(TrySendError::Full(order) | TrySendError::Disconnected(order))) => Err(order),
            Some(Ok(())) | None => Ok(()),
        }
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

/// The files, in the thread.
struct Files {
    directory: PathBuf,
    files: BTreeMap<FileId, Entry>,
    has_failed: bool,
}

/// Where a file is. It is open only while something is written, so that any number of connections needs no handles.
enum Entry {
    /// The name that it would like.
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

/// Makes a file that was not there: who begins a connection chooses its name.
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
