//! The verbs from end to end over a connection in memory.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use crate::common::{MemorySession, pair};
use manyway_transfer::{
    Access, BenchDirection, BenchFlow, BenchLimit, BenchPlan, NoProgress, ProgressEvent, Reason,
    RelativePath, Server, ServerConfig, Session, TransferError, bench, get, hello, list, put,
};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const BIG: usize = 5 * 1024 * 1024 + 13;

#[tokio::test]
async fn files_and_directories_arrive_with_size_time_and_permissions() {
    let here = TempDir::new().unwrap();
    make_tree(&here.path().join("tree"));
    let there = TempDir::new().unwrap();
    let client = serve(there.path(), ServerConfig::default());

    let report = put(&client, vec![here.path().join("tree")], quiet()).await.unwrap();
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(report.bytes, BIG as u64 + 200 * 3 + 5);
    assert_same(&here.path().join("tree"), &there.path().join("tree"));

    let back = TempDir::new().unwrap();
    let paths = vec![RelativePath::parse("tree/deep").unwrap(), RelativePath::parse("tree/big").unwrap()];
    let report = get(&client, paths, back.path().to_owned(), quiet()).await.unwrap();
    assert!(report.is_complete(), "{report:?}");
    assert_same(&here.path().join("tree/deep"), &back.path().join("deep"));
    assert_same(&here.path().join("tree/big"), &back.path().join("big"));

    let all = TempDir::new().unwrap();
    get(&client, Vec::new(), all.path().to_owned(), quiet()).await.unwrap();
    assert_same(&here.path().join("tree"), &all.path().join("tree"));
}

#[tokio::test]
async fn an_existing_file_is_replaced() {
    let here = TempDir::new().unwrap();
    std::fs::write(here.path().join("file"), "new").unwrap();
    let there = TempDir::new().unwrap();
    std::fs::write(there.path().join("file"), "something older and longer").unwrap();
    let client = serve(there.path(), ServerConfig::default());
    put(&client, vec![here.path().join("file")], quiet()).await.unwrap();
    assert_eq!(std::fs::read(there.path().join("file")).unwrap(), b"new");
}

#[tokio::test]
async fn progress_adds_up_to_the_totals() {
    let here = TempDir::new().unwrap();
    make_tree(&here.path().join("tree"));
    let there = TempDir::new().unwrap();
    let client = serve(there.path(), ServerConfig::default());
    let (advanced, total) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let verified = Arc::new(Mutex::new(Vec::new()));
    let progress = {
        let (advanced, total, verified) = (Arc::clone(&advanced), Arc::clone(&total), Arc::clone(&verified));
        move |event: ProgressEvent<'_>| match event {
            ProgressEvent::Totals(totals) => total.store(totals.bytes, Ordering::SeqCst),
            ProgressEvent::Advanced { bytes }
            | ProgressEvent::Hole { bytes }
            | ProgressEvent::Resumed { bytes } => drop(advanced.fetch_add(bytes, Ordering::SeqCst)),
            ProgressEvent::Verified { name } => verified.lock().unwrap().push(name.to_owned()),
            ProgressEvent::Started { .. } | ProgressEvent::Failed { .. } | _ => {}
        }
    };
    let report = put(&client, vec![here.path().join("tree")], Arc::new(progress)).await.unwrap();
    assert_eq!(advanced.load(Ordering::SeqCst), total.load(Ordering::SeqCst));
    assert_eq!(verified.lock().unwrap().len() as u64, report.verified);
}

#[tokio::test]
async fn a_missing_file_fails_alone() {
    let here = TempDir::new().unwrap();
    std::fs::write(here.path().join("file"), "x").unwrap();
    let there = TempDir::new().unwrap();
    let client = serve(there.path(), ServerConfig::default());
    let files = vec![here.path().join("none"), here.path().join("file")];
    let report = put(&client, files, quiet()).await.unwrap();
    assert_eq!((report.verified, report.failures), (1, 1));
    assert_eq!(report.failed[0].failure.reason, Reason::NotFound);

    let alone = put(&client, vec![here.path().join("none")], quiet()).await;
    assert!(matches!(alone, Err(TransferError::Local(f)) if f.reason == Reason::NotFound));

    let back = TempDir::new().unwrap();
    let paths = vec![RelativePath::parse("none").unwrap(), RelativePath::parse("file").unwrap()];
    let report = get(&client, paths, back.path().to_owned(), quiet()).await.unwrap();
    assert_eq!((report.verified, report.failures), (1, 1));
    assert_eq!(report.failed[0].failure.reason, Reason::NotFound);
}

#[tokio::test]
async fn a_read_only_server_says_so_even_to_a_big_file() {
    let here = TempDir::new().unwrap();
    std::fs::write(here.path().join("big"), vec![1; BIG]).unwrap();
    let there = TempDir::new().unwrap();
    let mut config = ServerConfig::default();
    config.access = Access::ReadOnly;
    let client = serve(there.path(), config);
    let result = put(&client, vec![here.path().join("big")], quiet()).await;
    assert!(matches!(result, Err(TransferError::Refused(f)) if f.reason == Reason::ReadOnly));
    assert!(hello(&client, "test/1").await.unwrap().read_only);
}

/// Root may write to any directory regardless of permissions, but not into this one.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_unwritable_target_has_a_plain_message_and_stops_the_content() {
    let here = TempDir::new().unwrap();
    std::fs::write(here.path().join("big"), vec![1; BIG]).unwrap();
    let client = serve(Path::new("/sys"), ServerConfig::default());
    let report = put(&client, vec![here.path().join("big")], quiet()).await.unwrap();
    let reason = report.failed[0].failure.reason;
    assert!(matches!(reason, Reason::PermissionDenied | Reason::ReadOnly), "{reason:?}");
}

#[tokio::test]
async fn two_paths_with_the_same_last_part_are_refused_before_anything_is_sent() {
    let there = TempDir::new().unwrap();
    let client = serve(there.path(), ServerConfig::default());
    let paths = vec![RelativePath::parse("a/x").unwrap(), RelativePath::parse("b/x").unwrap()];
    let result = get(&client, paths, there.path().to_owned(), quiet()).await;
    assert!(matches!(result, Err(TransferError::Local(f)) if f.reason == Reason::Name));

    let here = TempDir::new().unwrap();
    let files: Vec<_> = ["a", "b"].iter().map(|parent| here.path().join(parent).join("x")).collect();
    for file in &files {
        std::fs::create_dir(file.parent().unwrap()).unwrap();
        std::fs::write(file, "x").unwrap();
    }
    let result = put(&client, files, quiet()).await;
    assert!(matches!(result, Err(TransferError::Local(f)) if f.reason == Reason::Name));
    assert!(!there.path().join("x").exists());
}

#[tokio::test]
async fn a_directory_is_listed_without_deeper_levels() {
    let there = TempDir::new().unwrap();
    make_tree(&there.path().join("tree"));
    let client = serve(there.path(), ServerConfig::default());
    let names = |entries: Vec<manyway_transfer::Entry>| {
        entries.into_iter().map(|e| e.path.as_str().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(list(&client, None).await.unwrap()), ["tree"]);
    let tree = list(&client, Some(RelativePath::parse("tree").unwrap())).await.unwrap();
    assert_eq!(names(tree), ["tree/big", "tree/deep", "tree/empty"]);
    let none = list(&client, Some(RelativePath::parse("none").unwrap())).await;
    assert!(matches!(none, Err(TransferError::Refused(f)) if f.reason == Reason::NotFound));
}

#[tokio::test]
async fn a_bench_reports_every_byte_of_every_stream() {
    let there = TempDir::new().unwrap();
    let client = serve(there.path(), ServerConfig::default());
    for flow in [BenchFlow::Upload, BenchFlow::Download, BenchFlow::Both] {
        let mut plan = BenchPlan::default();
        plan.flow = flow;
        plan.limit = BenchLimit::Bytes(3_000_001);
        plan.interval = Duration::from_millis(10);
        plan.streams = 3;
        let mut sum = 0;
        let outcome = bench(&client, &plan, |report| sum += report.interval.bytes).await.unwrap();
        let (up, down) =
            (outcome.received(BenchDirection::Upload), outcome.received(BenchDirection::Download));
        let expected = |direction| if flow.has(direction) { 3_000_001 } else { 0 };
        assert_eq!(up.bytes, expected(BenchDirection::Upload));
        assert_eq!(down.bytes, expected(BenchDirection::Download));
        assert_eq!(sum, up.bytes + down.bytes);
        let there = outcome.there.as_ref().unwrap();
        assert_eq!((outcome.here.bytes_sent, there.bytes_sent), (up.bytes, down.bytes));
    }
}

#[tokio::test]
async fn a_bench_by_time_measures_exactly_that_time() {
    let there = TempDir::new().unwrap();
    let client = serve(there.path(), ServerConfig::default());
    for flow in [BenchFlow::Upload, BenchFlow::Download, BenchFlow::Both] {
        let mut plan = BenchPlan::default();
        plan.flow = flow;
        plan.limit = BenchLimit::Duration(Duration::from_millis(80));
        plan.interval = Duration::from_millis(20);
        plan.omit = Duration::from_millis(30);
        plan.streams = 2;
        let mut intervals = Vec::new();
        let outcome = bench(&client, &plan, |report| intervals.push(report)).await.unwrap();
        for direction in flow.directions() {
            let received = outcome.received(direction);
            assert!(received.bytes > 0 && received.elapsed == Duration::from_millis(80), "{outcome:?}");
            let (omitted, counted): (Vec<_>, Vec<_>) = intervals
                .iter()
                .filter(|report| report.direction == direction)
                .map(|report| report.interval)
                .partition(|interval| interval.omitted);
            // 20 and 10 ms of the beginning, then four whole ones, on each of two streams.
            assert_eq!((omitted.len(), counted.len()), (4, 8), "{intervals:?}");
            assert_eq!(counted.iter().map(|interval| interval.bytes).sum::<u64>(), received.bytes);
        }
    }
    let mut plan = BenchPlan::default();
    plan.limit = BenchLimit::Duration(Duration::from_secs(7200));
    let failure = bench(&client, &plan, |_| {}).await.unwrap_err();
    assert!(matches!(failure.error, TransferError::Refused(f) if f.reason == Reason::Limit));
}

#[tokio::test]
async fn a_congestion_control_that_the_other_side_lacks_is_refused() {
    let there = TempDir::new().unwrap();
    let client = serve(there.path(), ServerConfig::default());
    let mut plan = BenchPlan::default();
    plan.congestion = Some("magic".to_owned());
    let failure = bench(&client, &plan, |_| {}).await.unwrap_err();
    assert!(matches!(failure.error, TransferError::Refused(f) if f.reason == Reason::Unsupported));
}

#[tokio::test(start_paused = true)]
async fn a_run_with_a_silent_peer_ends_five_seconds_late_and_reports_what_is_known() {
    let (near, far) = pair(8 * 1024);
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Some(stream) = far.accept().await {
            kept.push(stream);
        }
    });
    let mut plan = BenchPlan::default();
    plan.limit = BenchLimit::Duration(Duration::from_secs(3));
    let began = tokio::time::Instant::now();
    let failure = bench(&near, &plan, |_| {}).await.unwrap_err();
    assert!(matches!(failure.error, TransferError::Silent { .. }), "{failure:?}");
    assert_eq!(began.elapsed().as_secs(), 8);
    assert_eq!((failure.partial.upload.len(), failure.partial.there.is_none()), (1, true));
}

/// A session with a limit on open streams.
struct Few(MemorySession, tokio::sync::Semaphore);

impl Session for Few {
    type Send = <MemorySession as Session>::Send;
    type Receive = <MemorySession as Session>::Receive;

    async fn open(&self) -> std::io::Result<(Self::Send, Self::Receive)> {
        self.1.acquire().await.unwrap().forget();
        self.0.open().await
    }

    async fn accept(&self) -> Option<(Self::Send, Self::Receive)> {
        self.0.accept().await
    }
}

#[tokio::test]
async fn a_run_with_too_many_streams_reports_the_limit_and_can_be_stopped() {
    let there = TempDir::new().unwrap();
    let few = || Few(serve(there.path(), ServerConfig::default()), tokio::sync::Semaphore::new(5));
    let mut plan = BenchPlan::default();
    plan.streams = 8;
    plan.interval = Duration::from_millis(10);
    let failure = bench(&few(), &plan, |_| {}).await.unwrap_err();
    // One of the five is the account.
    assert!(failure.to_string().contains("4 streams of a run at once, not 8"), "{failure}");
    assert!(failure.partial.received(BenchDirection::Upload).bytes > 0, "{failure:?}");
    let stop = tokio::time::sleep(Duration::from_millis(50));
    let began = std::time::Instant::now();
    manyway_transfer::bench_until(&few(), &plan, stop, |_| {}).await.unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
}

#[tokio::test]
async fn malformed_requests_are_answered_and_harm_no_other() {
    let there = TempDir::new().unwrap();
    let client = serve(there.path(), ServerConfig::default());
    for bytes in [&[0x01, 0, 0, 2, 9, 9][..], &[0x01, 0, 0, 2, 2, 99], &[0x14, 0, 0, 1, 0], &[0xff; 40]] {
        let (mut send, mut receive) = client.open().await.unwrap();
        send.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        receive.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer[0], 0x03, "refused");
    }
    assert_eq!(hello(&client, "test/1").await.unwrap().newest, manyway_transfer::VERSION);
}

#[tokio::test]
async fn a_connection_that_ends_early_leaves_no_final_file() {
    let here = TempDir::new().unwrap();
    std::fs::write(here.path().join("big"), vec![1; BIG]).unwrap();
    let there = TempDir::new().unwrap();
    let client = serve(there.path(), ServerConfig::default());
    let sending = put(&client, vec![here.path().join("big")], quiet());
    tokio::select! {
        result = sending => panic!("too fast: {result:?}"),
        () = until_part(there.path()) => {}
    }
    assert!(!there.path().join("big").exists());
}

async fn until_part(place: &Path) {
    while !place.join(".big.manyway-part").exists() {
        tokio::task::yield_now().await;
    }
}

fn serve(place: &Path, config: ServerConfig) -> MemorySession {
    let (near, far) = pair(8 * 1024);
    let server = Server::new(place, config).unwrap();
    tokio::spawn(async move { server.run(&far).await });
    near
}

fn quiet() -> Arc<NoProgress> {
    Arc::new(NoProgress)
}

fn make_tree(top: &Path) {
    std::fs::create_dir_all(top.join("deep/hollow")).unwrap();
    std::fs::write(top.join("empty"), "").unwrap();
    std::fs::write(top.join("deep/five"), "five!").unwrap();
    for index in 0..200 {
        std::fs::write(top.join(format!("deep/{index:03}")), "abc").unwrap();
    }
    let big: Vec<u8> = (0..BIG).map(|i| u8::try_from(i * 7 % 251).unwrap()).collect();
    std::fs::write(top.join("big"), big).unwrap();
    let old = SystemTime::UNIX_EPOCH + Duration::new(1_234_567_890, 123_456_789);
    std::fs::File::options().write(true).open(top.join("big")).unwrap().set_modified(old).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(top.join("deep/five"), std::fs::Permissions::from_mode(0o751)).unwrap();
    }
}

fn assert_same(left: &Path, right: &Path) {
    let (a, b) = (left.metadata().unwrap(), right.metadata().unwrap());
    assert_eq!(a.is_dir(), b.is_dir());
    if a.is_dir() {
        let children = |place: &Path| -> Vec<PathBuf> {
            let mut names: Vec<_> =
                std::fs::read_dir(place).unwrap().map(|e| PathBuf::from(e.unwrap().file_name())).collect();
            names.sort();
            names
        };
        assert_eq!(children(left), children(right));
        for child in children(left) {
            assert_same(&left.join(&child), &right.join(&child));
        }
        return;
    }
    assert!(std::fs::read(left).unwrap() == std::fs::read(right).unwrap(), "{left:?}");
    assert_eq!(a.modified().unwrap(), b.modified().unwrap(), "{left:?}");
    assert_eq!(a.permissions(), b.permissions(), "{left:?}");
}

/// Time and memory for a big file in both directions; prints them.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement: run alone with --ignored --nocapture"]
async fn a_gibibyte_takes_constant_memory() {
    const LENGTH: u64 = 1 << 30;
    let here = TempDir::new().unwrap();
    let file = std::fs::File::create(here.path().join("sparse")).unwrap();
    file.set_len(LENGTH).unwrap();
    let there = TempDir::new().unwrap();
    let (client, far) = pair(1 << 20);
    let server = Server::new(there.path(), ServerConfig::default()).unwrap();
    tokio::spawn(async move { server.run(&far).await });
    let start = std::time::Instant::now();
    let report = put(&client, vec![here.path().join("sparse")], quiet()).await.unwrap();
    assert_eq!(report.bytes, LENGTH);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    println!("{:?} for 1 GiB, {peak}", start.elapsed());
}
