//! Servers that break the rules: bounded memory, a clear error or a way around, and never a mixed file.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use manyway_fetch::FetchError;

use crate::common::{Act, Ask, Client, MB, Site, assert_content, bytes};

const TAG: &str = "\"v1\"";

fn part(ask: &Ask, headers: &str) -> Act {
    let length = ask.range().unwrap().len();
    Act::Part { headers: format!("ETag: {TAG}\r\nContent-Length: {length}\r\n{headers}\r\n") }
}

/// Interface 3 meets a server that breaks a rule, interface 2 an honest one.
async fn beside_an_honest_one(lie: impl Fn(&Ask) -> Act + Send + Sync + 'static) -> Client {
    let site = Site::start(bytes(5 * MB, 1), move |ask| match ask.interface() {
        3 if !ask.is_first_byte() => lie(ask),
        _ => Act::Slowly { tag: TAG, rate: 6 * MB },
    });
    let client = Client::new(&site.url("/f"), &[2, 3]);
    client.run().await.unwrap();
    assert_content(&client.path("f"), &site.content());
    client
}

#[tokio::test]
async fn other_bytes_than_asked_for_are_not_taken() {
    for range in ["bytes 0-9/5000000", "bytes 7-2000006/5000000", "bytes 0-4999999/5000000", "none"] {
        let client = beside_an_honest_one(move |ask| part(ask, &format!("Content-Range: {range}"))).await;
        client.said_once("the server sends other bytes than asked for");
    }
    beside_an_honest_one(|ask| part(ask, "X: y")).await.said_once("it does not say which");
}

#[tokio::test]
async fn a_body_of_another_length_than_its_range_is_not_taken() {
    let lie = |ask: &Ask| {
        let range = ask.range().unwrap();
        let (first, last) = (range.start, range.end - 2);
        part(ask, &format!("Content-Range: bytes {first}-{last}/5000000"))
    };
    beside_an_honest_one(lie).await.said_once("and calls them bytes");
}

#[tokio::test]
async fn another_version_at_one_interface_is_never_mixed_in() {
    let client = beside_an_honest_one(|_| Act::Serve { tag: "\"v2\"" }).await;
    client.said_once("i3: the server has another version of the file there");
    let longer = |ask: &Ask| {
        let range = ask.range().unwrap();
        part(ask, &format!("Content-Range: bytes {}-{}/5000001", range.start, range.end - 1))
    };
    beside_an_honest_one(longer).await.said_once("another version");
}

#[tokio::test]
async fn an_endless_head_is_not_read_to_its_end() {
    let client =
        beside_an_honest_one(|_| Act::Flood(b"HTTP/1.1 206 Partial Content\r\nX: y\r\nX: y\r\n")).await;
    client.said_once("the answer is not HTTP/1.1, or its head is too long");
}

#[tokio::test]
async fn a_server_that_does_not_speak_http_is_abandoned() {
    beside_an_honest_one(|_| Act::Flood(b"SSH-2.0-x\r\n")).await.said_once("not HTTP/1.1");
}

#[tokio::test]
async fn a_file_that_changes_meanwhile_ends_the_download_and_the_next_run_starts_again() {
    let count = AtomicUsize::new(0);
    let site = Site::start(bytes(4 * MB, 1), move |_| match count.fetch_add(1, Ordering::Relaxed) {
        0..=2 => Act::Slowly { tag: TAG, rate: 4 * MB },
        _ => Act::Serve { tag: "\"v2\"" },
    });
    let client = Client::new(&site.url("/f"), &[2, 3]);
    let error = client.run().await.unwrap_err();
    assert!(matches!(error, FetchError::Changed) && error.is_transient(), "{error}");
    assert!(!client.path("f").exists());
    site.set_content(bytes(5 * MB, 2));
    client.run().await.unwrap();
    client.said_once("starting again");
    assert_content(&client.path("f"), &site.content());
}

#[tokio::test]
async fn a_server_that_promises_parts_and_sends_all_is_asked_for_the_whole_file() {
    let site = Site::start(bytes(3 * MB, 1), |ask| match ask.is_first_byte() {
        true => Act::Serve { tag: TAG },
        false => Act::Whole { headers: "" },
    });
    let client = Client::new(&site.url("/f"), &[2, 3]);
    client.run().await.unwrap();
    client.said_once("the server does not serve parts of this file");
    assert_content(&client.path("f"), &site.content());
    assert_eq!(client.names(), ["f"]);
}

#[tokio::test]
async fn received_parts_are_kept_after_a_malformed_response() {
    let count = AtomicUsize::new(0);
    let site = Site::start(bytes(4 * MB, 1), move |ask| {
        match (ask.is_first_byte(), count.fetch_add(1, Ordering::Relaxed)) {
            // As a portal of a hotel does when its time is over.
            (false, 2) => Act::Head("200 OK\r\nContent-Length: 5\r\n\r\nlogin".to_owned()),
            _ => Act::Serve { tag: TAG },
        }
    });
    let client = Client::new(&site.url("/f"), &[2]);
    let error = client.run().await.unwrap_err();
    assert!(matches!(error, FetchError::Broken { is_kept: true, .. }), "{error}");
    client.run().await.unwrap();
    assert!(client.seen().resumed >= 1_000_000, "{:?}", client.seen());
    assert_content(&client.path("f"), &site.content());
}

#[tokio::test]
async fn a_server_that_knows_no_tags_in_if_range_still_serves_pieces() {
    let site = Site::start(bytes(3 * MB, 1), |ask| match ask.header("if-range") {
        Some(_) => Act::Whole { headers: "ETag: \"v1\"\r\n" },
        None => Act::Serve { tag: TAG },
    });
    let client = Client::new(&site.url("/f"), &[2]);
    client.run().await.unwrap();
    assert_content(&client.path("f"), &site.content());
    client.said_once("ignores If-Range");
    assert!(site.asked().iter().all(|ask| ask.range().is_some()));
}

#[tokio::test]
async fn a_part_that_does_not_name_its_version_is_not_taken() {
    for tag in ["", "ETag: W/\"v1\"\r\n"] {
        let site = Site::start(bytes(3 * MB, 1), move |ask| match ask.range() {
            Some(range) if !ask.is_first_byte() => {
                let (first, last, length) = (range.start, range.end - 1, range.len());
                let range = format!("Content-Range: bytes {first}-{last}/3000000");
                Act::Part { headers: format!("{tag}Content-Length: {length}\r\n{range}\r\n") }
            }
            _ => Act::Serve { tag: TAG },
        });
        let client = Client::new(&site.url("/f"), &[2]);
        client.run().await.unwrap();
        client.said_once("i2: the server does not name the version of a part");
        client.said_once("over one connection");
        assert_content(&client.path("f"), &site.content());
    }
}

#[tokio::test]
async fn a_refused_part_is_an_error_or_leads_to_the_whole_file() {
    let head =
        |length: u32| Act::Head(format!("416 No\r\nContent-Range: bytes */{length}\r\nContent-Length: 0"));
    let site = Site::start(bytes(3 * MB, 1), move |ask| match ask.range() {
        Some(_) if !ask.is_first_byte() => head(3_000_000),
        _ => Act::Serve { tag: TAG },
    });
    let client = Client::new(&site.url("/f"), &[2]);
    client.run().await.unwrap();
    client.said_once("i2: the server refuses a part of the file");
    assert_content(&client.path("f"), &site.content());
    let site = Site::start(bytes(3 * MB, 1), move |ask| match ask.range() {
        Some(_) if !ask.is_first_byte() => head(1_000),
        _ => Act::Serve { tag: TAG },
    });
    let error = Client::new(&site.url("/f"), &[2]).run().await.unwrap_err();
    assert!(matches!(error, FetchError::Changed), "{error}");
}

#[tokio::test]
async fn the_whole_file_over_one_connection_is_complete_or_an_error() {
    let site = Site::start(bytes(MB, 1), |_| Act::CloseAfter { tag: "", bytes: 1000 });
    let client = Client::new(&site.url("/f"), &[2]);
    let error = client.run().await.unwrap_err();
    assert!(matches!(error, FetchError::Broken { is_kept: false, .. }), "{error}");
    assert_eq!(client.names(), Vec::<String>::new(), "nothing of it can be used");
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    let site = Site::start(bytes(MB, 1), |_| Act::Silence);
    let begun = std::time::Instant::now();
    let error = Client::new(&site.url("/f"), &[2, 3]).run().await.unwrap_err();
    assert!(error.to_string().contains("i2: no answer for 1 s"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(4));
}
