//! What players and browsers are answered.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::time::Duration;

use manyway_play::Config;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::common::{Web, parse};

fn content() -> Vec<u8> {
    (0..100_000_u32).map(|number| number.to_be_bytes()[2] ^ number.to_be_bytes()[3]).collect()
}

async fn web() -> (TempDir, Web) {
    let directory = TempDir::new().unwrap();
    std::fs::create_dir(directory.path().join("a dir")).unwrap();
    std::fs::write(directory.path().join("film.mp4"), content()).unwrap();
    std::fs::write(directory.path().join("a dir/ü.html"), "<script>").unwrap();
    std::fs::write(directory.path().join("empty.ts"), "").unwrap();
    let web = Web::start(directory.path(), Config::default()).await;
    (directory, web)
}

#[tokio::test]
async fn single_ranges_are_answered_and_others_ignored() {
    let (_directory, web) = web().await;
    let all = content();
    let tag = web.ask("HEAD /film.mp4", &[]).await.field("etag").to_owned();
    assert!(tag.starts_with('"'), "a strong tag: {tag}");
    let same = format!("If-Range: {tag}");
    for (fields, status, range) in [
        (&[][..], 200, 0..100_000),
        (&["Range: bytes=0-0"], 206, 0..1),
        (&["Range: bytes=70000-70009"], 206, 70_000..70_010),
        (&["Range: bytes=90000-"], 206, 90_000..100_000),
        (&["Range: bytes=0-"], 206, 0..100_000),
        (&["Range: bytes=-10"], 206, 99_990..100_000),
        (&["Range: bytes=0-1,5-6"], 200, 0..100_000),
        (&["Range: lines=0-1"], 200, 0..100_000),
        (&["Range: bytes=5-9", &same], 206, 5..10),
        (&["Range: bytes=5-9", "If-Range: \"other\""], 200, 0..100_000),
    ] {
        let answer = web.ask("GET /film.mp4", fields).await;
        assert_eq!(answer.status, status, "{fields:?}");
        assert!(answer.body == all[range.clone()], "{fields:?}");
        assert_eq!(answer.field("content-length"), range.len().to_string());
        assert_eq!((answer.field("etag"), answer.field("content-type")), (tag.as_str(), "video/mp4"));
        let shown = format!("bytes {}-{}/100000", range.start, range.end - 1);
        assert_eq!(answer.field("content-range"), if status == 206 { shown } else { String::new() });
    }
    for range in ["bytes=100000-", "bytes=-0"] {
        let answer = web.ask("GET /film.mp4", &[&format!("Range: {range}")]).await;
        assert_eq!((answer.status, answer.field("content-range")), (416, "bytes */100000"), "{range}");
    }
    let head = web.ask("HEAD /film.mp4", &["Range: bytes=0-0"]).await;
    assert_eq!((head.status, head.field("content-length"), head.body.len()), (200, "100000", 0));
    assert_eq!(head.field("accept-ranges"), "bytes");
    let empty = web.ask("GET /empty.ts", &[]).await;
    assert_eq!((empty.status, empty.field("content-length")), (200, "0"));
}

#[tokio::test]
async fn directories_are_pages_and_files_of_html_are_no_pages() {
    let (_directory, web) = web().await;
    let page = web.ask("GET /", &[]).await;
    let text = String::from_utf8(page.body.clone()).unwrap();
    assert_eq!((page.status, page.field("content-type")), (200, "text/html; charset=utf-8"));
    assert!(text.contains("href=\"/film.mp4\"") && text.contains("href=\"/a%20dir/\""), "{text}");
    let away = web.ask("GET /a%20dir", &[]).await;
    assert_eq!((away.status, away.field("location")), (301, "/a%20dir/"));
    assert!(String::from_utf8(web.ask("GET /a%20dir/", &[]).await.body).unwrap().contains("%C3%BC.html"));
    let html = web.ask("GET /a%20dir/%c3%bc.html", &[]).await;
    assert_eq!((html.status, html.field("content-type")), (200, "application/octet-stream"));
    assert_eq!(html.field("x-content-type-options"), "nosniff");
    for strict in [&page, &html, &web.ask("GET /none", &[]).await] {
        let policy = strict.field("content-security-policy");
        assert!(policy.contains("sandbox") && policy.contains("allow-downloads"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("media-src"), "{policy}");
    }
}

/// A browser shows media in a page with a player that it makes itself.
#[tokio::test]
async fn a_browser_may_play_media_by_its_url_and_no_other_site_may_embed_it() {
    let (directory, web) = web().await;
    std::fs::write(directory.path().join("picture.jpg"), "x").unwrap();
    std::fs::write(directory.path().join("song.mp3"), "x").unwrap();
    for name in ["film.mp4", "picture.jpg", "song.mp3"] {
        let answer = web.ask(&format!("GET /{name}"), &[]).await;
        let policy = answer.field("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; media-src 'self'; img-src 'self'"), "{policy}");
        assert!(!policy.contains("sandbox") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert_eq!(answer.field("cross-origin-resource-policy"), "same-origin");
    }
}

#[tokio::test]
async fn a_version_that_the_player_has_is_not_sent_again() {
    let (_directory, web) = web().await;
    let tag = web.ask("HEAD /film.mp4", &[]).await.field("etag").to_owned();
    for (field, status, length) in [
        (format!("If-None-Match: {tag}"), 304, 0),
        (format!("If-None-Match: \"x\", W/{tag}"), 304, 0),
        ("If-None-Match: *".to_owned(), 304, 0),
        ("If-None-Match: \"x\"".to_owned(), 206, 10),
        (format!("If-Match: \"x\", {tag}"), 206, 10),
        ("If-Match: *".to_owned(), 206, 10),
        (format!("If-Match: W/{tag}"), 412, 29),
        (format!("If-Match: \"x\"\r\nIf-None-Match: {tag}"), 412, 29),
    ] {
        let answer = web.ask("GET /film.mp4", &[&field, "Range: bytes=5-14"]).await;
        assert_eq!((answer.status, answer.body.len()), (status, length), "{field}");
        assert!(status == 412 || answer.field("etag") == tag, "{field}");
    }
}

#[tokio::test]
async fn a_connection_without_a_request_does_not_keep_its_place() {
    let (directory, _) = web().await;
    let mut config = Config::default();
    (config.connections, config.first_request_timeout) = (1, Duration::from_millis(200));
    let web = Web::start(directory.path(), config).await;
    let mut silent = TcpStream::connect(web.address).await.unwrap();
    silent.write_all(b"GET / HT").await.unwrap();
    assert_eq!(web.ask("GET /film.mp4", &[]).await.status, 200);
}

#[tokio::test]
async fn other_requests_are_refused_with_their_status() {
    let (_directory, web) = web().await;
    for (first, fields, status) in [
        ("GET /none.mp4", &[][..], 404),
        ("GET /../etc/passwd", &[], 404),
        ("GET /%2e%2e/etc/passwd", &[], 404),
        ("GET /%ff", &[], 404),
        ("GET /film.mp4/", &[], 404),
        ("POST /film.mp4", &[], 405),
        ("GET /film.mp4", &["Host: evil.example"], 421),
        ("GET /", &["Host: 127.0.0.1.evil.example:80"], 421),
        ("GET http://evil.example/", &["Host: localhost"], 421),
        ("GET http://localhost/", &["Host: evil.example"], 200),
        ("GET /", &["Host: localhost", "Host: localhost"], 400),
        ("GET /", &["X-No-Host: localhost"], 400),
    ] {
        assert_eq!(web.ask(first, fields).await.status, status, "{first} {fields:?}");
    }
    let long = format!("X: {}", "x".repeat(20_000));
    assert_eq!(web.ask("GET /", &[&long]).await.status, 431);
    let many = vec!["X: y"; 200];
    assert_eq!(web.ask("GET /", &many).await.status, 431);
}

#[tokio::test]
async fn a_connection_takes_one_request_after_another_until_it_is_idle() {
    let (directory, _) = web().await;
    let mut config = Config::default();
    config.idle_timeout = Duration::from_millis(300);
    let web = Web::start(directory.path(), config).await;
    let mut socket = TcpStream::connect(web.address).await.unwrap();
    for _ in 0..2 {
        let request = "GET /film.mp4 HTTP/1.1\r\nHost: 127.0.0.1\r\nRange: bytes=7-8\r\n\r\n";
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        while !bytes.windows(4).any(|four| four == b"\r\n\r\n") || parse(&bytes).body.len() < 2 {
            assert!(socket.read_buf(&mut bytes).await.unwrap() > 0);
        }
        assert_eq!(parse(&bytes).body, content()[7..9]);
    }
    let end = tokio::time::timeout(Duration::from_secs(10), socket.read(&mut [0; 1])).await;
    assert_eq!(end.unwrap().unwrap(), 0, "the server closes it");
}
