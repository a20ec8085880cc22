//! The cost of an interruption: no verified data is sent again, and no wrong data gets a name.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{MemorySession, breakable, pair};
use manyway_sim::skipped::{skip, skip_optional};
use manyway_transfer::{
    Feed, NoProgress, Progress, ProgressEvent, PutItem, PutPlan, Reason, RelativePath, Server, ServerConfig,
    TransferError, get, put,
};
use proptest::prelude::*;
use tempfile::TempDir;

const MIB: usize = 1 << 20;

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_transfer_that_is_interrupted_repeatedly_sends_no_byte_twice(
        files in prop::collection::vec((0_usize..200_000, any::<bool>()), 1..6),
        cuts in prop::collection::vec(prop_oneof![1_u64..3_000, 1_000_u64..400_000], 1..8),
        is_put in any::<bool>(),
    ) {
        let (here, there) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let source = if is_put { here.path() } else { there.path() }.join("tree");
        std::fs::create_dir_all(source.join("deep")).unwrap();
        for (index, (size, is_sparse)) in files.iter().enumerate() {
            let place = if index % 2 == 0 { "deep/" } else { "" };
            let file = source.join(format!("{place}{index}"));
            write_pattern(&file, *size, *is_sparse);
        }
        runtime().block_on(async {
            let received = Arc::new(Counter::default());
            let server = Server::with_progress(there.path(), ServerConfig::default(), progress(is_put, &received));
            let server = server.unwrap();
            let budgets = cuts.iter().copied().chain([u64::MAX]);
            let mut last = None;
            for budget in budgets {
                let (client, far) = breakable(16 * 1024, budget);
                let answering = tokio::spawn({ let server = server.clone(); async move { server.run(&far).await } });
                let result = if is_put {
                    put(&client, vec![source.clone()], quiet()).await
                } else {
                    get(&client, Vec::new(), here.path().to_owned(), progress(true, &received)).await
                };
                drop(client);
                answering.await.unwrap();
                if let Ok(report) = &result {
                    assert!(report.is_complete(), "{report:?}");
                } else {
                    assert!(result.as_ref().unwrap_err().is_resumable(), "{result:?}");
                }
                last = Some(result);
            }
            let report = last.unwrap().unwrap();
            let content: usize = files.iter().map(|(size, _)| *size).sum();
            assert!(received.moved() <= content as u64, "{} of {content}", received.moved());
            assert_eq!(report.bytes, content as u64);
            let target = if is_put { there.path() } else { here.path() };
            assert_same_tree(&source, &target.join("tree"));
            assert_eq!(parts(target), 0);
        });
    }
}

/// Files are announced, answered and named in groups; wherever a connection breaks, no file of a group has a name
/// without its content, and none is sent again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_small_files_go_on_in_the_middle_of_a_group() {
    let (here, there) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let source = here.path().join("tree");
    let mut content = 0;
    for index in 0..1500_usize {
        let directory = source.join((index / 100).to_string());
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(
            directory.join(index.to_string()),
            vec![u8::try_from(index % 251).unwrap(); index % 700],
        )
        .unwrap();
        content += index % 700;
    }
    let received = Arc::new(Counter::default());
    let server = Server::with_progress(there.path(), ServerConfig::default(), progress(true, &received));
    let server = server.unwrap();
    let mut report = None;
    for budget in [150_000, 100_000, 230_000, u64::MAX] {
        let (client, far) = breakable(16 * 1024, budget);
        let answering = tokio::spawn({
            let server = server.clone();
            async move { server.run(&far).await }
        });
        let result = put(&client, vec![source.clone()], quiet()).await;
        drop(client);
        answering.await.unwrap();
        assert_eq!(result.is_ok(), budget == u64::MAX, "{result:?}");
        for index in 0..1500_usize {
            let name = format!("{}/{index}", index / 100);
            if let Ok(arrived) = std::fs::read(there.path().join("tree").join(&name)) {
                assert_eq!(arrived, std::fs::read(source.join(&name)).unwrap(), "{name}");
            }
        }
        report = result.ok();
    }
    assert_eq!(report.unwrap().bytes, content as u64);
    // What came of a DATA before a break is kept, and not counted.
    let least = content - 3 * 700;
    assert!((least as u64..=content as u64).contains(&received.moved()), "{} of {content}", received.moved());
    assert_same_tree(&source, &there.path().join("tree"));
    assert_eq!(parts(there.path()), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_small_files_only_changed_ones_are_sent_again() {
    let (here, there) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let tree = here.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    for index in 0..600_usize {
        std::fs::write(tree.join(format!("{index:04}")), vec![7; index % 4096]).unwrap();
    }
    let client = serve(there.path());
    let first = put(&client, vec![tree.clone()], quiet()).await.unwrap();
    assert_eq!((first.verified, first.moved), (601, first.bytes));
    assert_same_tree(&tree, &there.path().join("tree"));

    // The same size and the same time: only the content differs.
    let changed = tree.join("0400");
    let time = changed.metadata().unwrap().modified().unwrap();
    std::fs::write(&changed, vec![8; 400]).unwrap();
    std::fs::File::options().write(true).open(&changed).unwrap().set_modified(time).unwrap();
    std::fs::remove_file(there.path().join("tree/0500")).unwrap();
    let second = put(&client, vec![tree.clone()], quiet()).await.unwrap();
    assert_eq!((second.verified, second.moved), (601, 900));
    assert_eq!(second.resumed, second.bytes - 900);
    assert_same_tree(&tree, &there.path().join("tree"));

    let back = TempDir::new().unwrap();
    let fetched = get(&client, Vec::new(), back.path().to_owned(), quiet()).await.unwrap();
    assert_eq!((fetched.verified, fetched.moved), (601, fetched.bytes));
    assert_same_tree(&tree, &back.path().join("tree"));
}

#[tokio::test]
async fn a_torn_or_foreign_prefix_counts_as_far_as_it_agrees() {
    let (here, there) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (file, part) = (here.path().join("big"), there.path().join(".big.manyway-part"));
    write_pattern(&file, 50 * MIB, false);
    let content = std::fs::read(&file).unwrap();
    let client = serve(there.path());
    for (kept, wrong_at, resumed) in [
        (40 * MIB, None, 40 * MIB),
        (40 * MIB, Some(39 * MIB), 32 * MIB),
        (40 * MIB, Some(20 * MIB), 16 * MIB),
        (40 * MIB, Some(0), 0),
        (50 * MIB, None, 50 * MIB),
        (50 * MIB, Some(50 * MIB - 1), 48 * MIB),
        // A longer file of earlier times.
        (60 * MIB, Some(55 * MIB), 50 * MIB),
    ] {
        let mut before = content.clone();
        before.resize(kept, 1);
        if let Some(byte) = wrong_at.and_then(|at| before.get_mut(at)) {
            *byte ^= 0xff;
        }
        std::fs::write(&part, before).unwrap();
        let report = put(&client, vec![file.clone()], quiet()).await.unwrap();
        assert_eq!(
            (report.resumed, report.moved),
            (resumed as u64, (50 * MIB - resumed) as u64),
            "{wrong_at:?}"
        );
        assert!(std::fs::read(there.path().join("big")).unwrap() == content);
        assert_eq!(parts(there.path()), 0);
        std::fs::remove_file(there.path().join("big")).unwrap();
    }
}

#[tokio::test]
async fn a_source_that_changed_between_two_attempts_is_detected() {
    let (here, there) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let file = here.path().join("big");
    write_pattern(&file, 40 * MIB, false);
    let (client, far) = breakable(64 * 1024, 35 * MIB as u64);
    let server = Server::new(there.path(), ServerConfig::default()).unwrap();
    let answering = tokio::spawn(async move { server.run(&far).await });
    put(&client, vec![file.clone()], quiet()).await.unwrap_err();
    drop(client);
    answering.await.unwrap();
    assert_eq!(parts(there.path()), 1);

    let source = std::fs::File::options().write(true).open(&file).unwrap();
    source.write_all_at(b"changed", 20 * MIB as u64).unwrap();
    let client = serve(there.path());
    let report = put(&client, vec![file.clone()], quiet()).await.unwrap();
    assert_eq!(report.resumed, 16 * MIB as u64);
    assert!(std::fs::read(&file).unwrap() == std::fs::read(there.path().join("big")).unwrap());
}

#[tokio::test]
async fn a_source_that_changes_while_it_is_sent_gets_no_name_and_its_beginning_stays() {
    let (here, there) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let file = here.path().join("log");
    write_pattern(&file, 20 * MIB, false);
    let client = serve(there.path());
    let changing = {
        let file = file.clone();
        move |event: ProgressEvent<'_>| {
            if matches!(event, ProgressEvent::Started { .. }) {
                let file = std::fs::File::options().write(true).open(&file).unwrap();
                file.write_all_at(b"more", 20 * MIB as u64 - 4).unwrap();
            }
        }
    };
    let report = put(&client, vec![file.clone()], Arc::new(changing)).await.unwrap();
    assert_eq!(report.failed[0].failure.reason, Reason::Changed);
    assert!(!there.path().join("log").exists());
    let report = put(&client, vec![file.clone()], quiet()).await.unwrap();
    assert_eq!(report.resumed + report.moved, 20 * MIB as u64);
    assert!(report.resumed >= 16 * MIB as u64);
    assert_same_tree(&file, &there.path().join("log"));
}

#[tokio::test]
async fn a_sparse_file_stays_sparse_and_only_its_data_is_sent() {
    let (here, there, back) = (TempDir::new().unwrap(), TempDir::new().unwrap(), TempDir::new().unwrap());
    let file = here.path().join("sparse");
    let sparse = std::fs::File::create(&file).unwrap();
    sparse.set_len(1 << 30).unwrap();
    for place in [0_u64, 300 << 20, (1 << 30) - 5] {
        sparse.write_all_at(b"data!", place).unwrap();
    }
    if sparse.metadata().unwrap().blocks() > 1000 {
        skip_optional("the file system knows no holes");
        return;
    }
    let client = serve(there.path());
    let report = put(&client, vec![file.clone()], quiet()).await.unwrap();
    assert!(report.is_complete() && report.moved < MIB as u64 && report.moved + report.holes == 1 << 30);
    let report = get(&client, Vec::new(), back.path().to_owned(), quiet()).await.unwrap();
    assert!(report.moved < MIB as u64, "{report:?}");
    for copy in [there.path().join("sparse"), back.path().join("sparse")] {
        assert!(copy.metadata().unwrap().blocks() < 1000);
        assert_eq!(hash(&copy), hash(&file));
    }
}

#[tokio::test]
async fn permissions_and_times_of_directories_are_set_after_their_content() {
    let (here, there) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let tree = here.path().join("tree");
    std::fs::create_dir_all(tree.join("closed/inner")).unwrap();
    std::fs::write(tree.join("closed/inner/file"), "x").unwrap();
    std::fs::write(tree.join("closed/zzz"), "x").unwrap();
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    for directory in ["closed/inner", "closed"] {
        let place = tree.join(directory);
        std::fs::File::open(&place).unwrap().set_modified(old).unwrap();
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o555)).unwrap();
    }
    let client = serve(there.path());
    for _ in 0..2 {
        let report = put(&client, vec![tree.clone()], quiet()).await.unwrap();
        assert!(report.is_complete(), "{report:?}");
        for directory in ["closed/inner", "closed"] {
            let metadata = there.path().join("tree").join(directory).metadata().unwrap();
            assert_eq!((metadata.modified().unwrap(), metadata.mode() & 0o777), (old, 0o555), "{directory}");
        }
    }
}

/// Two requests for the same file: the later one waits for the earlier one, and the two are never mixed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_file_from_two_clients_is_one_or_the_other() {
    let there = TempDir::new().unwrap();
    let server = Server::new(there.path(), ServerConfig::default()).unwrap();
    let send = |byte: u8| {
        let here = TempDir::new().unwrap();
        std::fs::write(here.path().join("same"), vec![byte; 3 * MIB]).unwrap();
        let (client, far) = pair(64 * 1024);
        let server = server.clone();
        async move {
            tokio::spawn(async move { server.run(&far).await });
            put(&client, vec![here.path().join("same")], quiet()).await.unwrap()
        }
    };
    let (first, second) = tokio::join!(send(1), send(2));
    for report in [&first, &second] {
        assert!(report.failed.iter().all(|f| f.failure.reason == Reason::Busy), "{report:?}");
    }
    assert!(first.is_complete() || second.is_complete());
    let content = std::fs::read(there.path().join("same")).unwrap();
    assert!(content.len() == 3 * MIB && content.iter().all(|byte| *byte == content[0]));
}

/// A client that was killed leaves a silent stream, and reconnects over another one.
#[tokio::test]
async fn a_client_that_reconnects_takes_its_file_over_from_its_silent_stream() {
    let (here, there) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let file = here.path().join("big");
    write_pattern(&file, 3 * MIB, false);
    let server = Server::new(there.path(), ServerConfig::default()).unwrap();
    let (first, far) = pair(64 * 1024);
    tokio::spawn({
        let server = server.clone();
        async move { server.run(&far).await }
    });
    // It stops in the middle, and its streams stay open.
    let stalled = Arc::new(tokio::sync::Notify::new());
    let sent = AtomicU64::new(0);
    let stop = {
        let stalled = Arc::clone(&stalled);
        move |event: ProgressEvent<'_>| {
            if let ProgressEvent::Advanced { bytes } = event
                && sent.fetch_add(bytes, Ordering::SeqCst) + bytes >= MIB as u64
            {
                stalled.notify_one();
                std::thread::park();
            }
        }
    };
    let _stalled_client = std::thread::spawn({
        let file = file.clone();
        move || runtime().block_on(async { put(&first, vec![file], Arc::new(stop)).await.map(drop) })
    });
    stalled.notified().await;
    let (second, far) = pair(64 * 1024);
    tokio::spawn(async move { server.run(&far).await });
    let report = put(&second, vec![file.clone()], quiet()).await.unwrap();
    assert!(report.is_complete() && report.resumed > 0, "{report:?}");
    assert_same_tree(&file, &there.path().join("big"));
}

/// The first one that can never fit is refused before a byte of it is written, so that others still fit.
// transfer 5.12
#[tokio::test]
async fn a_file_that_cannot_fit_takes_no_space_from_others() {
    let place = TempDir::new().unwrap();
    let Some(small) = SmallDisk::mount(place.path(), 8) else { return };
    let here = TempDir::new().unwrap();
    let file = here.path().join("big");
    write_pattern(&file, 12 * MIB, false);
    write_pattern(&here.path().join("little"), 3 * MIB, false);
    let client = serve(place.path());
    let report = put(&client, vec![file.clone(), here.path().join("little")], quiet()).await.unwrap();
    assert_eq!((report.verified, report.failures), (1, 1), "{report:?}");
    let failed = &report.failed[0];
    assert_eq!((failed.name.as_str(), failed.failure.reason), ("big", Reason::DiskFull));
    assert!(
        failed.failure.text.contains("12.0 MiB") && failed.failure.text.contains("are free"),
        "{failed:?}"
    );
    assert_eq!((report.moved, parts(place.path())), (3 * MIB as u64, 0));

    small.grow(32);
    let report = put(&client, vec![file.clone()], quiet()).await.unwrap();
    assert!(report.is_complete(), "{report:?}");
    assert_same_tree(&file, &place.path().join("big"));
}

/// As when others fill the disk meanwhile, or the length of the content is unknown.
// transfer 5.17, 5.18
#[tokio::test]
async fn a_part_that_fills_the_disk_is_removed_and_named() {
    let place = TempDir::new().unwrap();
    let Some(_small) = SmallDisk::mount(place.path(), 8) else { return };
    let here = TempDir::new().unwrap();
    write_pattern(&here.path().join("little"), MIB, false);
    std::fs::write(place.path().join(".old.manyway-part"), vec![1; 3 * MIB]).unwrap();
    let client = serve(place.path());
    let endless =
        Feed::new(RelativePath::parse("endless").unwrap(), std::io::repeat(7).take(20 * MIB as u64));
    let plan = PutPlan { items: vec![PutItem::Feed(endless)], ..PutPlan::default() };
    let report = put(&client, plan, quiet()).await.unwrap();
    let failed = &report.failed[0];
    assert_eq!(failed.failure.reason, Reason::DiskFull, "{report:?}");
    assert!(failed.failure.text.contains(".old.manyway-part there takes 3.0 MiB"), "{failed:?}");
    assert_eq!(parts(place.path()), 1, "the beginning of a stream cannot be resumed");
    let report = put(&client, vec![here.path().join("little")], quiet()).await.unwrap();
    assert!(report.is_complete(), "{report:?}");
}

#[tokio::test]
async fn an_offer_gives_only_what_was_named() {
    let (here, back) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    std::fs::create_dir(here.path().join("open")).unwrap();
    std::fs::write(here.path().join("open/inside"), "inside").unwrap();
    std::fs::write(here.path().join("file"), "file").unwrap();
    std::fs::write(here.path().join("secret"), "secret").unwrap();
    let named = [here.path().join("open"), here.path().join("file")];
    let server = Server::offer(named.to_vec(), ServerConfig::default(), quiet()).unwrap();
    let (client, far) = pair(64 * 1024);
    tokio::spawn({
        let server = server.clone();
        async move { server.run(&far).await }
    });
    let path = |name: &str| RelativePath::parse(name).unwrap();
    for name in ["secret", "open/../secret", "open/none"] {
        let Ok(name) = RelativePath::parse(name) else { continue };
        let result = get(&client, vec![name], back.path().to_owned(), quiet()).await;
        let reason = match result {
            Ok(report) => report.failed[0].failure.reason,
            Err(TransferError::Refused(failure)) => failure.reason,
            Err(other) => panic!("{other}"),
        };
        assert_eq!(reason, Reason::NotFound);
    }
    let refused = put(&client, vec![here.path().join("secret")], quiet()).await;
    assert!(matches!(refused, Err(TransferError::Refused(f)) if f.reason == Reason::ReadOnly));
    let listed = manyway_transfer::list(&client, None).await.unwrap();
    assert_eq!(listed.iter().map(|e| e.path.as_str()).collect::<Vec<_>>(), ["open", "file"]);
    let inside = manyway_transfer::list(&client, Some(path("open"))).await.unwrap();
    assert_eq!(inside.iter().map(|e| e.path.as_str()).collect::<Vec<_>>(), ["open/inside"]);

    // Fetching a part does not end the offer, fetching all of it does.
    get(&client, vec![path("open/inside")], back.path().to_owned(), quiet()).await.unwrap();
    let fetched = server.fetched();
    tokio::pin!(fetched);
    assert!(futures_poll_once(&mut fetched).await.is_none());
    get(&client, Vec::new(), back.path().to_owned(), quiet()).await.unwrap();
    let report = fetched.await;
    assert_eq!((report.verified, report.failures), (3, 0));
    assert_eq!(std::fs::read(back.path().join("open/inside")).unwrap(), b"inside");
}

async fn futures_poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = std::future::ready(()) => None,
    }
}

/// Content bytes received.
#[derive(Default)]
struct Counter(AtomicU64);

impl Counter {
    fn moved(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

fn progress(counts: bool, counter: &Arc<Counter>) -> Arc<dyn Progress> {
    let counter = Arc::clone(counter);
    Arc::new(move |event: ProgressEvent<'_>| {
        if let (true, ProgressEvent::Advanced { bytes }) = (counts, event) {
            counter.0.fetch_add(bytes, Ordering::SeqCst);
        }
    })
}

/// A file system of a few megabytes; unmounted when it is dropped.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn mount(place: &Path, mebibytes: usize) -> Option<Self> {
        let options = format!("size={mebibytes}m");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(place).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(place.to_owned())),
            Ok(output) => {
                skip(String::from_utf8_lossy(&output.stderr));
                None
            }
            Err(error) => {
                skip(error);
                None
            }
        }
    }

    fn grow(&self, mebibytes: usize) {
        let options = format!("remount,size={mebibytes}m");
        assert!(Command::new("mount").args(["-o", &options]).arg(&self.0).status().unwrap().success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

fn serve(place: &Path) -> MemorySession {
    let (near, far) = pair(64 * 1024);
    let server = Server::new(place, ServerConfig::default()).unwrap();
    tokio::spawn(async move { server.run(&far).await });
    near
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn quiet() -> Arc<NoProgress> {
    Arc::new(NoProgress)
}

/// Content without repetition; a sparse one has a hole in its second half.
fn write_pattern(path: &Path, size: usize, is_sparse: bool) {
    let mut bytes = vec![0; if is_sparse { size / 2 } else { size }];
    blake3::Hasher::new().update(path.as_os_str().as_encoded_bytes()).finalize_xof().fill(&mut bytes);
    std::fs::write(path, bytes).unwrap();
    std::fs::File::options().write(true).open(path).unwrap().set_len(size as u64).unwrap();
}

fn hash(path: &Path) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(std::fs::File::open(path).unwrap()).unwrap();
    hasher.finalize()
}

/// Unfinished files below a place.
fn parts(place: &Path) -> usize {
    contents(place).keys().filter(|name| name.ends_with(".manyway-part")).count()
}

fn contents(place: &Path) -> BTreeMap<String, Option<blake3::Hash>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(place).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            found.extend(contents(&path).into_iter().map(|(below, hash)| (format!("{name}/{below}"), hash)));
            found.insert(name, None);
        } else {
            found.insert(name, Some(hash(&path)));
        }
    }
    found
}

#[track_caller]
fn assert_same_tree(left: &Path, right: &Path) {
    if left.is_dir() {
        assert_eq!(contents(left), contents(right));
    } else {
        assert_eq!(hash(left), hash(right));
    }
}
