//! What the observers of a server and of a client learn of files that do not arrive, or that change.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use manyway_transfer::{
    NoProgress, Party, Progress, ProgressEvent, Reason, RelativePath, Server, ServerConfig, TransferError,
    get, put,
};
use tempfile::TempDir;

use crate::common::{MemorySession, breakable, pair};

/// The reported events of files, in order.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<Tale>>>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Tale {
    Failed(String, Reason, Party),
    BrokenOff(String, u64),
    Grew(String, u64),
}

impl Told {
    fn take(&self) -> Vec<Tale> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// The same, once there is any: the other end may be told a little later.
    async fn taken(&self) -> Vec<Tale> {
        for _ in 0..500 {
            let tales = self.take();
            if !tales.is_empty() {
                return tales;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        Vec::new()
    }
}

impl Progress for Told {
    fn on_progress(&self, event: ProgressEvent<'_>) {
        let tale = match event {
            ProgressEvent::Failed { name, failure, at } => Tale::Failed(name.to_owned(), failure.reason, at),
            ProgressEvent::BrokenOff { name, bytes, error } => {
                assert!(error.is_resumable(), "{error}");
                Tale::BrokenOff(name.to_owned(), bytes)
            }
            ProgressEvent::Grew { name, size } => Tale::Grew(name.to_owned(), size),
            ProgressEvent::Verified { .. } | _ => return,
        };
        self.0.lock().unwrap().push(tale);
    }
}

/// Two directories; one of them is served.
struct Scene {
    here: TempDir,
    there: TempDir,
    /// The events at the server.
    told: Told,
}

impl Scene {
    fn new() -> Self {
        Self { here: TempDir::new().unwrap(), there: TempDir::new().unwrap(), told: Told::default() }
    }

    fn make(directory: &TempDir, name: &str, size: usize) -> PathBuf {
        let path = directory.path().join(name);
        std::fs::write(&path, vec![5; size]).unwrap();
        path
    }

    /// Serves until the connection breaks or the client is gone.
    fn serve(
        &self,
        (near, far): (MemorySession, MemorySession),
        also: impl Fn(ProgressEvent<'_>) + Send + Sync + 'static,
    ) -> (MemorySession, tokio::task::JoinHandle<()>) {
        let told = self.told.clone();
        let progress = move |event: ProgressEvent<'_>| {
            also(event);
            told.on_progress(event);
        };
        let config = ServerConfig::default();
        let server = Server::with_progress(self.there.path(), config, Arc::new(progress)).unwrap();
        (near, tokio::spawn(async move { server.run(&far).await }))
    }
}

fn ignore(_: ProgressEvent<'_>) {}

/// Truncates the file once it is being sent.
fn cut_when_started(file: &Path) -> impl Fn(ProgressEvent<'_>) + Send + Sync + 'static {
    let file = file.to_owned();
    move |event| {
        if matches!(event, ProgressEvent::Started { .. }) {
            std::fs::File::options().write(true).open(&file).unwrap().set_len(1_000_000).unwrap();
        }
    }
}

#[tokio::test]
async fn a_server_reports_the_file_that_a_broken_connection_leaves_unfinished_and_its_progress() {
    const BUDGET: u64 = 1_500_000;
    for is_sent in [true, false] {
        let scene = Scene::new();
        let (client, serving) = scene.serve(breakable(64 * 1024, BUDGET), ignore);
        let broken = if is_sent {
            let files = [("first", 1000), ("second", 5_000_000), ("third", 1000)];
            let files = files.map(|(name, size)| Scene::make(&scene.here, name, size));
            put(&client, files.to_vec(), Arc::new(NoProgress)).await
        } else {
            Scene::make(&scene.there, "second", 5_000_000);
            let path = RelativePath::parse("second").unwrap();
            get(&client, vec![path], scene.here.path().to_owned(), Arc::new(NoProgress)).await
        };
        assert!(broken.as_ref().is_err_and(TransferError::is_resumable), "{broken:?}");
        drop(client);
        serving.await.unwrap();
        let told = scene.told.take();
        let [Tale::BrokenOff(name, bytes)] = &told[..] else { panic!("{told:?}") };
        assert_eq!(name, "second");
        assert!((1_000_000..BUDGET).contains(bytes), "{bytes}");
    }
}

#[tokio::test]
async fn a_failure_is_reported_with_the_end_at_which_it_happened() {
    let scene = Scene::new();
    let failed = |name: &str, reason, at| vec![Tale::Failed(name.to_owned(), reason, at)];
    let client_told = Told::default();
    let (client, _serving) = scene.serve(pair(64 * 1024), ignore);

    // The server cannot write it.
    std::fs::create_dir(scene.there.path().join("taken")).unwrap();
    let file = Scene::make(&scene.here, "taken", 10);
    put(&client, vec![file], Arc::new(client_told.clone())).await.unwrap();
    assert_eq!(scene.told.taken().await, failed("taken", Reason::IsDirectory, Party::Local));
    assert_eq!(client_told.take(), failed("taken", Reason::IsDirectory, Party::Peer));

    // The client cannot read it to its end.
    let file = Scene::make(&scene.here, "cut", 3_000_000);
    let (cut, told) = (cut_when_started(&file), client_told.clone());
    let progress = move |event: ProgressEvent<'_>| {
        cut(event);
        told.on_progress(event);
    };
    put(&client, vec![file], Arc::new(progress)).await.unwrap();
    assert_eq!(scene.told.taken().await, failed("cut", Reason::Shorter, Party::Peer));
    assert_eq!(client_told.take(), failed("cut", Reason::Shorter, Party::Local));

    // The server cannot read it to its end, and receives that from the client again.
    let file = Scene::make(&scene.there, "file", 3_000_000);
    let (client, _serving) = scene.serve(pair(64 * 1024), cut_when_started(&file));
    let path = || vec![RelativePath::parse("file").unwrap()];
    let into = scene.here.path().to_owned();
    get(&client, path(), into.clone(), Arc::new(client_told.clone())).await.unwrap();
    assert_eq!(scene.told.taken().await, failed("file", Reason::Shorter, Party::Local));
    assert_eq!(client_told.take(), failed("file", Reason::Shorter, Party::Peer));

    // The client cannot write it.
    std::fs::remove_file(into.join(".file.manyway-part")).unwrap();
    std::fs::create_dir(into.join("file")).unwrap();
    get(&client, path(), into, Arc::new(client_told.clone())).await.unwrap();
    assert_eq!(scene.told.taken().await, failed("file", Reason::IsDirectory, Party::Peer));
    assert_eq!(client_told.take(), failed("file", Reason::IsDirectory, Party::Local));
}

/// A small file has been read as a whole before its first byte is sent.
// transfer 4.17
#[tokio::test]
async fn growth_after_the_last_read_is_reported_once() {
    let scene = Scene::new();
    let (client, _serving) = scene.serve(pair(64 * 1024), ignore);
    let told = Told::default();
    for name in ["grows", "stays"] {
        let log = Scene::make(&scene.here, name, 1000);
        let (file, told) = (log.clone(), told.clone());
        let progress = move |event: ProgressEvent<'_>| {
            let is_sent = name == "grows" && matches!(event, ProgressEvent::Advanced { .. });
            if is_sent {
                std::fs::File::options().append(true).open(&file).unwrap().write_all(b"x").unwrap();
            }
            told.on_progress(event);
        };
        let report = put(&client, vec![log.clone()], Arc::new(progress)).await.unwrap();
        assert!(report.is_complete(), "{report:?}");
        assert_eq!(report.grown, u64::from(name == "grows"));
        assert_eq!(std::fs::read(scene.there.path().join(name)).unwrap().len(), 1000);
    }
    assert_eq!(told.take(), [Tale::Grew("grows".to_owned(), 1000)]);
}
