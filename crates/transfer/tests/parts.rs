//! Parts of files over a connection in memory.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::path::Path;
use std::sync::Arc;

use crate::common::{MemorySession, pair};
use manyway_transfer::{
    Excludes, Links, NoProgress, Part, PutItem, PutPlan, Reason, RelativePath, Rules, Server, ServerConfig,
    Session, TransferError, get, list, read_part,
};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};

fn serve(directory: &Path, config: ServerConfig) -> MemorySession {
    let (client, session) = pair(256 * 1024);
    let server = Server::new(directory, config).unwrap();
    tokio::spawn(async move { server.run(&session).await });
    client
}

fn path(name: &str) -> RelativePath {
    RelativePath::parse(name).unwrap()
}

async fn rest<R: AsyncRead + Unpin>(part: &mut Part<R>) -> Result<Vec<u8>, TransferError> {
    let mut bytes = Vec::new();
    while let Some(piece) = part.next().await? {
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

fn content() -> Vec<u8> {
    (0..200_000_u32).map(|number| number.to_be_bytes()[2] ^ number.to_be_bytes()[3]).collect()
}

// transfer 8.1, 8.2
#[tokio::test]
async fn a_part_has_the_bytes_of_its_range_as_far_as_the_file_goes() {
    let there = TempDir::new().unwrap();
    std::fs::create_dir(there.path().join("films")).unwrap();
    std::fs::write(there.path().join("films/a"), content()).unwrap();
    let client = serve(there.path(), ServerConfig::default());
    for (range, expected) in [
        (0..200_000, 0..200_000),
        (0..1, 0..1),
        (65_536..131_072, 65_536..131_072),
        (70_001..u64::MAX, 70_001..200_000),
        (199_999..200_000, 199_999..200_000),
        (200_000..300_000, 0..0),
        (u64::MAX - 1..u64::MAX, 0..0),
        (7..7, 0..0),
    ] {
        let mut part = read_part(&client, path("films/a"), range.clone()).await.unwrap();
        assert_eq!((part.entry().size, part.entry().path.as_str()), (200_000, "a"));
        assert_eq!(part.length(), expected.len() as u64, "{range:?}");
        assert!(rest(&mut part).await.unwrap() == content()[expected], "{range:?}");
    }
}

// transfer 8.1
#[tokio::test]
async fn what_is_no_regular_file_below_the_directory_has_no_parts() {
    let there = TempDir::new().unwrap();
    std::fs::write(there.path().join("file"), "content").unwrap();
    std::fs::create_dir(there.path().join("directory")).unwrap();
    let client = serve(there.path(), ServerConfig::default());
    let mut expected = vec![("none", Reason::NotFound), ("directory", Reason::NotFile)];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("file", there.path().join("link")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", there.path().join("outside")).unwrap();
        expected.push(("outside", Reason::NotFound));
        let mut part = read_part(&client, path("link"), 0..100).await.unwrap();
        assert_eq!(rest(&mut part).await.unwrap(), b"content");
    }
    for (name, reason) in expected {
        let result = read_part(&client, path(name), 0..100).await;
        assert!(
            matches!(&result, Err(TransferError::Refused(f)) if f.reason == reason),
            "{name}: {result:?}"
        );
    }
}

// transfer 7.4, 8.1
#[tokio::test]
async fn of_what_is_offered_parts_can_be_read_and_of_nothing_else() {
    let there = TempDir::new().unwrap();
    for name in ["offered", "secret"] {
        std::fs::write(there.path().join(name), name).unwrap();
    }
    let offer = vec![there.path().join("offered")];
    let (client, session) = pair(64 * 1024);
    let server = Server::offer(offer, ServerConfig::default(), Arc::new(NoProgress)).unwrap();
    tokio::spawn(async move { server.run(&session).await });
    let mut part = read_part(&client, path("offered"), 3..100).await.unwrap();
    assert_eq!(rest(&mut part).await.unwrap(), b"ered");
    let secret = read_part(&client, path("secret"), 0..100).await;
    assert!(matches!(&secret, Err(TransferError::Refused(f)) if f.reason == Reason::NotFound), "{secret:?}");
}

/// What a client gets of a name: its bytes by `read`, and whether `get` writes a file of it.
#[cfg(unix)]
async fn fetched(client: &MemorySession, name: &str) -> (Option<Vec<u8>>, bool) {
    let bytes = match read_part(client, path(name), 0..100).await {
        Ok(mut part) => Some(rest(&mut part).await.unwrap()),
        Err(TransferError::Refused(failure)) if failure.reason == Reason::NotFound => None,
        Err(error) => panic!("{name}: {error}"),
    };
    let here = TempDir::new().unwrap();
    let _ = get(client, vec![path(name)], here.path().into(), Arc::new(NoProgress)).await;
    (bytes, here.path().join(path(name).last()).is_file())
}

/// An offered directory with files, and links that lead inside and outside.
#[cfg(unix)]
fn offer_of_links(there: &TempDir, rules: Rules) -> MemorySession {
    use std::os::unix::fs::symlink;

    let (offered, outside) = (there.path().join("odir"), there.path().join("outside"));
    for directory in [&offered.join("sub"), &offered.join("private"), &outside] {
        std::fs::create_dir_all(directory).unwrap();
    }
    for file in [&offered.join("a"), &offered.join("my.key"), &offered.join("sub/a"), &outside.join("s")] {
        std::fs::write(file, "content").unwrap();
    }
    std::fs::write(offered.join("private/a"), "content").unwrap();
    for (target, link) in [
        ("sub/a", "in-file"),
        ("sub", "in-dir"),
        ("my.key", "to-key"),
        ("private", "to-private"),
        ("../outside/s", "out-file"),
        ("../outside", "out-dir"),
    ] {
        symlink(target, offered.join(link)).unwrap();
    }
    symlink(outside.join("s"), offered.join("sub/absolute")).unwrap();
    let item = PutItem::Path { path: offered, name: None };
    let (client, session) = pair(64 * 1024);
    let plan = PutPlan { items: vec![item], rules };
    let server = Server::offer(plan, ServerConfig::default(), Arc::new(NoProgress)).unwrap();
    tokio::spawn(async move { server.run(&session).await });
    client
}

// transfer 7.8, 8.1
#[cfg(unix)]
#[tokio::test]
async fn no_link_leads_out_of_an_offered_directory_unless_its_user_lets_links_be_followed() {
    let outside = ["odir/out-file", "odir/out-dir/s", "odir/sub/absolute", "odir/in-dir/absolute"];
    for (links, is_followed) in [(Links::Keep, false), (Links::Skip, false), (Links::Follow, true)] {
        let there = TempDir::new().unwrap();
        let client = offer_of_links(&there, Rules { links, ..Rules::default() });
        for name in ["odir/a", "odir/sub/a", "odir/in-file", "odir/in-dir/a"] {
            assert_eq!(fetched(&client, name).await, (Some(b"content".to_vec()), true), "{links:?} {name}");
        }
        for name in outside {
            let (bytes, is_written) = fetched(&client, name).await;
            assert_eq!((bytes.is_some(), is_written), (is_followed, is_followed), "{links:?} {name}");
        }
        assert!(list(&client, Some(path("odir/out-dir"))).await.is_err(), "{links:?}");
    }
}

// transfer 7.9
#[cfg(unix)]
#[tokio::test]
async fn what_the_user_leaves_out_of_an_offered_directory_is_not_found_by_any_name() {
    for links in [Links::Keep, Links::Follow] {
        let there = TempDir::new().unwrap();
        let exclude = Excludes::new(["*.key", "private/", "/odir/sub/a"]).unwrap();
        let client = offer_of_links(&there, Rules { links, exclude });
        let mut left_out = vec!["odir/my.key", "odir/private/a", "odir/sub/a"];
        if links == Links::Keep {
            left_out.extend(["odir/in-file", "odir/in-dir/a", "odir/to-key", "odir/to-private/a"]);
        }
        for name in left_out {
            assert_eq!(fetched(&client, name).await, (None, false), "{links:?} {name}");
        }
        assert_eq!(fetched(&client, "odir/a").await, (Some(b"content".to_vec()), true));
        let here = TempDir::new().unwrap();
        let _ = get(&client, vec![path("odir/sub")], here.path().into(), Arc::new(NoProgress)).await;
        assert!(!here.path().join("sub/a").exists(), "in a directory that is fetched");
        let listed = list(&client, Some(path("odir"))).await.unwrap();
        let names: Vec<_> = listed.iter().map(|entry| entry.path.as_str()).collect();
        assert_eq!(names, ["odir/a", "odir/sub"], "{links:?}");
        assert!(list(&client, Some(path("odir/private"))).await.is_err());
    }
}

// transfer 8.3
#[tokio::test]
async fn a_file_that_becomes_shorter_ends_the_part_with_its_reason() {
    let there = TempDir::new().unwrap();
    let file = std::fs::File::create(there.path().join("file")).unwrap();
    file.set_len(8 << 20).unwrap();
    let client = serve(there.path(), ServerConfig::default());
    let mut part = read_part(&client, path("file"), 0..u64::MAX).await.unwrap();
    file.set_len(1 << 20).unwrap();
    let result = rest(&mut part).await;
    assert!(matches!(&result, Err(TransferError::Refused(f)) if f.reason == Reason::Shorter), "{result:?}");
}

// transfer 8.4
#[tokio::test]
async fn too_many_parts_at_a_time_are_refused() {
    let there = TempDir::new().unwrap();
    std::fs::write(there.path().join("file"), vec![1; 1 << 20]).unwrap();
    let mut config = ServerConfig::default();
    config.parallel_reads = 1;
    let client = serve(there.path(), config);
    let mut first = read_part(&client, path("file"), 0..u64::MAX).await.unwrap();
    let second = read_part(&client, path("file"), 0..1).await;
    assert!(matches!(&second, Err(TransferError::Refused(f)) if f.reason == Reason::Limit), "{second:?}");
    assert_eq!(rest(&mut first).await.unwrap().len(), 1 << 20);
    assert!(read_part(&client, path("file"), 0..1).await.is_ok());
}

// transfer 8.4
#[tokio::test]
async fn one_connection_cannot_take_all_parts() {
    let there = TempDir::new().unwrap();
    std::fs::write(there.path().join("file"), vec![1; 1 << 20]).unwrap();
    let mut config = ServerConfig::default();
    config.parallel_reads_per_connection = 2;
    let server = Server::new(there.path(), config).unwrap();
    let connect = || {
        let (client, session) = pair(16 * 1024);
        let server = server.clone();
        tokio::spawn(async move { server.run(&session).await });
        client
    };
    let (greedy, other) = (connect(), connect());
    let _first = read_part(&greedy, path("file"), 0..u64::MAX).await.unwrap();
    let _second = read_part(&greedy, path("file"), 0..u64::MAX).await.unwrap();
    let third = read_part(&greedy, path("file"), 0..1).await;
    assert!(matches!(&third, Err(TransferError::Refused(f)) if f.reason == Reason::Limit), "{third:?}");
    assert!(read_part(&other, path("file"), 0..1).await.is_ok());
}

/// A piece that waits holds its whole buffer, so many small ones share one.
#[tokio::test]
async fn small_pieces_share_a_buffer() {
    let there = TempDir::new().unwrap();
    std::fs::write(there.path().join("file"), vec![1; 1 << 20]).unwrap();
    let (client, session) = pair(2048);
    let server = Server::new(there.path(), ServerConfig::default()).unwrap();
    tokio::spawn(async move { server.run(&session).await });
    let mut part = read_part(&client, path("file"), 0..u64::MAX).await.unwrap();
    let mut held = Vec::new();
    while let Some(piece) = part.next().await.unwrap() {
        held.push(piece);
    }
    // Between two pieces of one buffer there is a header at most.
    let shares = |two: &[bytes::Bytes]| {
        let [one, next] = two else { return false };
        (next.as_ptr() as usize).wrapping_sub(one.as_ptr() as usize + one.len()) <= 8
    };
    let buffers = 1 + held.windows(2).filter(|two| !shares(two)).count();
    assert!(held.len() > 256 && buffers <= 24, "{} pieces in {buffers} buffers", held.len());
}

/// The end repeats what was announced.
// transfer 8.2
#[tokio::test]
async fn an_end_with_other_numbers_is_refused() {
    for (files, is_right) in [(1, true), (2, false)] {
        let (client, server) = pair(64 * 1024);
        tokio::spawn(async move {
            let (mut send, mut receive) = server.accept().await.unwrap();
            receive.read_to_end(&mut Vec::new()).await.unwrap();
            let frame = |kind: u8, body: &[u8]| {
                let length = u32::try_from(body.len()).unwrap().to_be_bytes();
                [&[kind][..], &length[1..], body].concat()
            };
            let totals = |files: u64| [files.to_be_bytes(), 0_u64.to_be_bytes()].concat();
            send.write_all(&frame(2, &totals(1))).await.unwrap();
            send.write_all(&frame(0x10, &[&[0; 31][..], &[0, 1, b'a']].concat())).await.unwrap();
            send.write_all(&frame(0x14, &totals(files))).await.unwrap();
            send.shutdown().await.unwrap();
        });
        let mut part = read_part(&client, path("a"), 0..0).await.unwrap();
        assert_eq!(rest(&mut part).await.is_ok(), is_right, "{files}");
    }
}

/// A server from before this request answers as to any unknown verb.
// transfer 8.5
#[tokio::test]
async fn a_server_that_does_not_know_parts_refuses_them_as_unsupported() {
    let (client, server) = pair(64 * 1024);
    let answering = tokio::spawn(async move {
        let (mut send, mut receive) = server.accept().await.unwrap();
        let mut header = [0; 6];
        receive.read_exact(&mut header).await.unwrap();
        assert_eq!((header[0], header[4], header[5]), (1, 3, 8), "REQUEST, version 3, verb 8");
        // REFUSED with reason 15 and a text.
        send.write_all(&[3, 0, 0, 12, 15, 0, 9]).await.unwrap();
        send.write_all(b"request 8").await.unwrap();
        send.shutdown().await.unwrap();
    });
    let refused = read_part(&client, path("file"), 0..1).await;
    assert!(matches!(&refused, Err(TransferError::Refused(f)) if f.reason == Reason::Unsupported));
    answering.await.unwrap();
}
