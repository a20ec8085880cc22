//! Files as they occur in the field: links, growing files, files of unknown length, names that exist.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::{Arc, Mutex};

use manyway_transfer::{
    Excludes, Existing, Feed, GetPlan, Links, NoProgress, Outlet, Progress, ProgressEvent, PutItem, PutPlan,
    Reason, RelativePath, Rules, Server, ServerConfig, TransferError, fetch, get, get_with, put,
};
use tempfile::TempDir;

use crate::common::{MemorySession, breakable, pair};

// transfer 3.2
#[tokio::test]
async fn links_inside_the_tree_travel_and_others_are_left_out_without_a_failure() {
    let (here, there) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let tree = tree_with_links(here.path());
    let client = serve(there.path());
    let noted = Noted::default();
    let report = put(&client, vec![tree.clone()], noted.progress()).await.unwrap();
    assert_eq!((report.failures, report.left_out), (0, 3), "{report:?}");
    assert!(report.is_complete());
    assert_eq!(noted.left_out(), ["tree/absolute", "tree/device", "tree/outside"]);
    assert_eq!(std::fs::read_link(there.path().join("tree/deep/inside")).unwrap(), Path::new("../file"));
    assert!(there.path().join("tree/outside").symlink_metadata().is_err());
    // A second transfer changes nothing.
    let again = put(&client, vec![tree.clone()], quiet()).await.unwrap();
    assert_eq!((again.moved, again.failures, again.verified), (0, 0, report.verified));

    let back = TempDir::new().unwrap();
    let report = get(&client, Vec::new(), back.path().to_owned(), quiet()).await.unwrap();
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(std::fs::read(back.path().join("tree/deep/inside")).unwrap(), b"content");
    assert!(back.path().join("tree/deep/inside").symlink_metadata().unwrap().is_symlink());
}

#[tokio::test]
async fn links_are_followed_or_left_out_if_the_user_wants_it() {
    let (here, there) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let tree = tree_with_links(here.path());
    symlink("..", tree.join("deep/loop")).unwrap();
    let client = serve(there.path());
    let rules = |links| Rules { links, ..Rules::default() };
    let plan = |links| PutPlan { rules: rules(links), ..vec![tree.clone()].into() };
    let report = put(&client, plan(Links::Skip), quiet()).await.unwrap();
    assert_eq!((report.failures, report.left_out), (0, 5), "{report:?}");
    assert!(!there.path().join("tree/deep/inside").exists());

    let report = put(&client, plan(Links::Follow), quiet()).await.unwrap();
    assert!(report.is_complete(), "{report:?}");
    for name in ["deep/inside", "outside"] {
        let copy = there.path().join("tree").join(name);
        assert!(copy.symlink_metadata().unwrap().is_file(), "{name}");
    }
    assert!(there.path().join("tree/deep/loop").symlink_metadata().is_err(), "no end to it");
}

/// A client can make a server follow links only within the served directory.
// transfer 5.7
#[tokio::test]
async fn a_server_follows_no_link_out_of_its_directory() {
    let (there, back) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let served = there.path().join("served");
    std::fs::create_dir_all(served.join("a")).unwrap();
    std::fs::write(there.path().join("secret"), "secret").unwrap();
    std::fs::write(served.join("a/file"), "content").unwrap();
    symlink("../../secret", served.join("a/out")).unwrap();
    symlink(there.path().join("secret"), served.join("absolute")).unwrap();
    symlink("a", served.join("way")).unwrap();
    symlink("way/../../secret", served.join("sly")).unwrap();
    symlink("way/file", served.join("in")).unwrap();
    let client = serve(&served);
    let rules = Rules { links: Links::Follow, ..Rules::default() };
    let plan = GetPlan { into: back.path().to_owned(), rules, ..GetPlan::default() };
    let report = get_with(&client, plan.clone(), quiet()).await.unwrap();
    // The file in the directory has two names by now.
    assert_eq!((report.failures, report.left_out), (0, 4), "{report:?}");
    assert_eq!(std::fs::read(back.path().join("in")).unwrap(), b"content");
    assert_eq!(std::fs::read(back.path().join("way/file")).unwrap(), b"content");
    assert!(!back.path().join("sly").exists() && !back.path().join("a/out").exists());
    // A link given by name is followed, too, but only within the directory.
    for (name, failures) in [("in", 0), ("sly", 1), ("absolute", 1)] {
        let plan = GetPlan { paths: vec![path(name)], ..plan.clone() };
        assert_eq!(get_with(&client, plan, quiet()).await.unwrap().failures, failures, "{name}");
    }
}

/// The local user who offers files decides what leaves the host.
// transfer 7.8
#[tokio::test]
async fn a_client_cannot_make_an_offer_follow_links() {
    let (here, back) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let tree = tree_with_links(here.path());
    let mut plan = PutPlan::from(vec![tree]);
    plan.rules.exclude = Excludes::new(["*.tmp"]).unwrap();
    let server = Server::offer(plan, ServerConfig::default(), quiet()).unwrap();
    let (client, far) = pair(64 * 1024);
    tokio::spawn(async move { server.run(&far).await });
    let rules = Rules { links: Links::Follow, ..Rules::default() };
    let plan = GetPlan { into: back.path().to_owned(), rules, ..GetPlan::default() };
    get_with(&client, plan, quiet()).await.unwrap();
    assert!(back.path().join("tree/outside").symlink_metadata().is_err());
    assert!(!back.path().join("tree/b.tmp").exists() && back.path().join("tree/file").exists());
}

#[tokio::test]
async fn excluded_names_are_not_transferred_either_way() {
    let (here, there, back) = (TempDir::new().unwrap(), TempDir::new().unwrap(), TempDir::new().unwrap());
    let tree = tree_with_links(here.path());
    let client = serve(there.path());
    let rules = |patterns: &[&str]| Rules {
        exclude: Excludes::new(patterns.iter().copied()).unwrap(),
        ..Rules::default()
    };
    let plan = PutPlan { rules: rules(&["*.tmp"]), ..vec![tree].into() };
    assert!(put(&client, plan, quiet()).await.unwrap().is_complete());
    assert!(!there.path().join("tree/b.tmp").exists() && there.path().join("tree/file").exists());
    let (into, rules) = (back.path().to_owned(), rules(&["deep/"]));
    get_with(&client, GetPlan { into, rules, ..GetPlan::default() }, quiet()).await.unwrap();
    assert!(back.path().join("tree/file").exists() && !back.path().join("tree/deep").exists());
}

#[tokio::test]
async fn several_names_of_one_file_are_counted_and_each_arrives() {
    let (here, there) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let tree = here.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    std::fs::write(tree.join("a"), "content").unwrap();
    for name in ["b", "c"] {
        std::fs::hard_link(tree.join("a"), tree.join(name)).unwrap();
    }
    let report = put(&serve(there.path()), vec![tree], quiet()).await.unwrap();
    assert_eq!((report.hard_links, report.verified), (2, 4));
    assert_eq!(std::fs::read(there.path().join("tree/c")).unwrap(), b"content");
}

/// Its reported size is 0.
// transfer 3.7
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_file_that_the_system_generates_arrives_with_all_its_content() {
    let there = TempDir::new().unwrap();
    let client = serve(there.path());
    let report = put(&client, vec!["/proc/version".into(), "/sys/kernel/mm".into()], quiet()).await.unwrap();
    let version = std::fs::read("/proc/version").unwrap();
    assert!(!version.is_empty());
    assert_eq!(std::fs::read(there.path().join("version")).unwrap(), version);
    assert!(
        report
            .failed
            .iter()
            .all(|f| f.failure.reason != Reason::Changed && f.failure.reason != Reason::Shorter),
        "{report:?}"
    );
    let back = TempDir::new().unwrap();
    let client = serve(Path::new("/proc/sys/kernel"));
    let report = get(&client, vec![path("ostype")], back.path().to_owned(), quiet()).await.unwrap();
    assert_eq!(report.bytes, 6);
    assert_eq!(std::fs::read(back.path().join("ostype")).unwrap(), b"Linux\n");
}

// transfer 4.16
#[tokio::test]
async fn of_a_file_that_only_grows_the_announced_beginning_arrives() {
    for when in ["before", "meanwhile"] {
        let (here, there) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let log = here.path().join("log");
        std::fs::write(&log, vec![5; 3_000_000]).unwrap();
        let noted = Noted::default();
        let progress = {
            let (log, noted) = (log.clone(), noted.progress());
            move |event: ProgressEvent<'_>| {
                let is_totals = matches!(event, ProgressEvent::Totals(_)) && when == "before";
                let is_start = matches!(event, ProgressEvent::Started { .. }) && when == "meanwhile";
                let _ = (is_totals || is_start).then(|| append(&log));
                noted.on_progress(event);
            }
        };
        let client = serve(there.path());
        let report = put(&client, vec![log.clone()], Arc::new(progress)).await.unwrap();
        assert!(report.is_complete(), "{when}: {report:?}");
        let arrived = std::fs::read(there.path().join("log")).unwrap().len();
        assert!((3_000_000..=3_000_004).contains(&arrived), "{when}: {arrived}");
        assert_eq!((report.grown, noted.grown()), (u64::from(arrived == 3_000_000), report.grown), "{when}");
        assert!(when == "before" || report.grown == 1);
    }
}

// transfer 4.6
#[tokio::test]
async fn a_file_that_is_shorter_than_announced_is_reported() {
    let (here, there) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let file = here.path().join("file");
    std::fs::write(&file, vec![5; 3_000_000]).unwrap();
    let cutting = {
        let file = file.clone();
        move |event: ProgressEvent<'_>| {
            if matches!(event, ProgressEvent::Started { .. }) {
                std::fs::File::options().write(true).open(&file).unwrap().set_len(1_000_000).unwrap();
            }
        }
    };
    let report = put(&serve(there.path()), vec![file.clone()], Arc::new(cutting)).await.unwrap();
    let failure = &report.failed[0].failure;
    assert_eq!(failure.reason, Reason::Shorter, "{failure}");
    assert!(failure.text.contains("of 3000000 bytes"), "{failure}");
    assert!(!there.path().join("file").exists());
}

// transfer 4.11
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn content_without_a_length_arrives_verified_and_can_be_offered() {
    let content: Vec<u8> = (0..5_000_000_u32).flat_map(|i| i.to_le_bytes().into_iter().take(1)).collect();
    let feed = || {
        let content = std::io::Cursor::new(content.clone());
        PutPlan { items: vec![PutItem::Feed(Feed::new(path("feed"), content))], ..PutPlan::default() }
    };
    let there = TempDir::new().unwrap();
    let report = put(&serve(there.path()), feed(), quiet()).await.unwrap();
    assert_eq!((report.verified, report.bytes), (1, content.len() as u64));
    assert!(std::fs::read(there.path().join("feed")).unwrap() == content);

    let server = Server::offer(feed(), ServerConfig::default(), quiet()).unwrap();
    let (client, far) = pair(64 * 1024);
    tokio::spawn(async move { server.run(&far).await });
    let written = Shared::default();
    let report = fetch(&client, None, &Outlet::new(written.clone()), quiet()).await.unwrap();
    assert_eq!(report.bytes, content.len() as u64);
    assert!(written.take() == content);
    // It is taken now, and the report says so.
    let report = fetch(&client, None, &Outlet::new(written.clone()), quiet()).await.unwrap();
    assert!(report.failed[0].failure.text.contains("only once"), "{report:?}");
}

/// Written content cannot be taken back, so the next attempt continues after it.
#[tokio::test]
async fn a_fetch_to_an_outlet_continues_after_what_was_written() {
    let there = TempDir::new().unwrap();
    let content: Vec<u8> = (0..3_000_000_u32).map(|i| (i / 7).to_le_bytes()[0]).collect();
    std::fs::write(there.path().join("file"), &content).unwrap();
    let server = Server::new(there.path(), ServerConfig::default()).unwrap();
    let written = Shared::default();
    let outlet = Outlet::new(written.clone());
    for budget in [500_000, 1_000_000, u64::MAX] {
        let (client, far) = breakable(16 * 1024, budget);
        let answering = tokio::spawn({
            let server = server.clone();
            async move { server.run(&far).await }
        });
        let result = fetch(&client, Some(path("file")), &outlet, quiet()).await;
        drop(client);
        answering.await.unwrap();
        match result {
            Ok(report) => assert!(report.resumed > 1_000_000 && report.verified == 1, "{report:?}"),
            Err(error) => assert!(error.is_resumable() && budget < u64::MAX, "{error}"),
        }
    }
    assert!(written.take() == content);
    // A directory, a missing file, and more than one file.
    std::fs::create_dir(there.path().join("dir")).unwrap();
    let fetched = async |name: Option<&str>| {
        fetch(&serve(there.path()), name.map(path), &Outlet::new(Vec::new()), quiet()).await
    };
    let report = fetched(Some("none")).await.unwrap();
    assert_eq!(report.failed[0].failure.reason, Reason::NotFound);
    assert!(fetched(Some("dir")).await.unwrap_err().to_string().starts_with("dir is a directory"));
    std::fs::write(there.path().join("dir/file"), "x").unwrap();
    assert!(fetched(Some("dir")).await.unwrap_err().to_string().starts_with("dir is a directory"));
    assert!(fetched(None).await.unwrap_err().to_string().starts_with("there is more than one file"));
}

#[tokio::test]
async fn a_closed_reader_ends_the_fetch() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let there = TempDir::new().unwrap();
    std::fs::write(there.path().join("file"), vec![1; 1_000_000]).unwrap();
    let outlet = Outlet::new(Closed);
    let report = fetch(&serve(there.path()), Some(path("file")), &outlet, quiet()).await.unwrap();
    assert_eq!(report.failures, 1);
    assert_eq!(outlet.take_error().unwrap().kind(), std::io::ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn one_path_can_get_another_name() {
    let (there, back) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    std::fs::create_dir(there.path().join("dir")).unwrap();
    std::fs::write(there.path().join("dir/file"), "content").unwrap();
    let client = serve(there.path());
    let plan = |name: &str| GetPlan {
        paths: vec![path(name)],
        into: back.path().to_owned(),
        name: Some(path("other")),
        ..GetPlan::default()
    };
    assert!(get_with(&client, plan("dir/file"), quiet()).await.unwrap().is_complete());
    assert_eq!(std::fs::read(back.path().join("other")).unwrap(), b"content");
    std::fs::remove_file(back.path().join("other")).unwrap();
    assert!(get_with(&client, plan("dir"), quiet()).await.unwrap().is_complete());
    assert_eq!(std::fs::read(back.path().join("other/dir/file")).unwrap(), b"content");
    let two = GetPlan { paths: vec![path("dir"), path("x")], ..plan("dir") };
    assert!(matches!(get_with(&client, two, quiet()).await, Err(TransferError::Local(_))));
    // The same when it is sent.
    let named = PutItem::Path { path: back.path().join("other"), name: Some(path("sent")) };
    let plan = PutPlan { items: vec![named], ..PutPlan::default() };
    assert!(put(&client, plan, quiet()).await.unwrap().is_complete());
    assert_eq!(std::fs::read(there.path().join("sent/dir/file")).unwrap(), b"content");
}

// transfer 5.11
#[tokio::test]
async fn an_existing_file_is_kept_or_backed_up_or_replaced() {
    let (there, back) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    std::fs::write(there.path().join("file"), "new").unwrap();
    std::fs::write(there.path().join("more"), "more").unwrap();
    let read = |name: &str| std::fs::read_to_string(back.path().join(name)).unwrap_or_default();
    let client = serve(there.path());
    let into = |existing| GetPlan { into: back.path().to_owned(), existing, ..GetPlan::default() };
    std::fs::write(back.path().join("file"), "old one").unwrap();
    let noted = Noted::default();
    let report = get_with(&client, into(Existing::Keep), noted.progress()).await.unwrap();
    assert_eq!((report.verified, report.left_out, report.failures), (1, 1, 0));
    assert_eq!((read("file").as_str(), read("more").as_str()), ("old one", "more"));
    assert_eq!(noted.left_out(), ["file"]);

    get_with(&client, into(Existing::BackUp), quiet()).await.unwrap();
    assert_eq!((read("file").as_str(), read("file~").as_str()), ("new", "old one"));
    get_with(&client, into(Existing::BackUp), quiet()).await.unwrap();
    assert_eq!(read("file~"), "old one", "the same content is no new file");
    std::fs::write(back.path().join("file"), "old one").unwrap();
    get_with(&client, into(Existing::Replace), quiet()).await.unwrap();
    assert_eq!(read("file"), "new");
}

fn append(file: &Path) {
    std::fs::File::options().append(true).open(file).unwrap().write_all(b"more").unwrap();
}

/// A directory with a link that stays inside, two that do not, and a pipe.
fn tree_with_links(place: &Path) -> std::path::PathBuf {
    let tree = place.join("tree");
    std::fs::create_dir_all(tree.join("deep")).unwrap();
    std::fs::write(place.join("beside"), "beside").unwrap();
    std::fs::write(tree.join("file"), "content").unwrap();
    std::fs::write(tree.join("b.tmp"), "temporary").unwrap();
    std::fs::set_permissions(tree.join("file"), std::fs::Permissions::from_mode(0o640)).unwrap();
    symlink("../file", tree.join("deep/inside")).unwrap();
    symlink("../beside", tree.join("outside")).unwrap();
    symlink("/etc", tree.join("absolute")).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(tree.join("device")).unwrap();
    tree
}

/// The events of a test.
#[derive(Clone, Default)]
struct Noted(Arc<Mutex<Vec<(String, bool)>>>);

impl Noted {
    fn progress(&self) -> Arc<dyn Progress> {
        let events = Arc::clone(&self.0);
        Arc::new(move |event: ProgressEvent<'_>| {
            if let ProgressEvent::LeftOut { name, reason } = event {
                assert!(!reason.is_empty());
                events.lock().unwrap().push((name.to_owned(), false));
            }
            if let ProgressEvent::Grew { name, .. } = event {
                events.lock().unwrap().push((name.to_owned(), true));
            }
        })
    }

    fn left_out(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().filter(|(_, grew)| !grew).map(|(name, _)| name.clone()).collect()
    }

    fn grown(&self) -> u64 {
        self.0.lock().unwrap().iter().filter(|(_, grew)| *grew).count() as u64
    }
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().map_err(|_| std::io::ErrorKind::Other)?.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn path(name: &str) -> RelativePath {
    RelativePath::parse(name).unwrap()
}

fn quiet() -> Arc<dyn Progress> {
    Arc::new(NoProgress)
}

fn serve(place: &Path) -> MemorySession {
    let (near, far) = pair(64 * 1024);
    let server = Server::new(place, ServerConfig::default()).unwrap();
    tokio::spawn(async move { server.run(&far).await });
    near
}
