//! What is fetched, and where it is stored.

use std::time::{Duration, Instant};

use manyway_fetch::{Destination, FetchError, Outlet, Present};

use crate::common::{Act, Client, MB, Site, assert_content, bytes};

const TAG: &str = "\"v1\"";

fn served(_: &crate::common::Ask) -> Act {
    Act::Serve { tag: TAG }
}

#[tokio::test]
async fn a_file_comes_over_both_interfaces_in_pieces_of_one_version() {
    let site = Site::start(bytes(8 * MB, 1), |_| Act::Slowly { tag: TAG, rate: 4 * MB });
    let client = Client::new(&site.url("/dir/film%20one.mp4?token=x"), &[2, 3]);
    let begun = Instant::now();
    let fetched = client.run().await.unwrap();
    let took = begun.elapsed();
    assert_eq!((fetched.path, fetched.length), (client.path("film one.mp4"), 8_000_000));
    assert!(!fetched.is_verified, "no sum was given");
    assert_content(&client.path("film one.mp4"), &site.content());
    assert_eq!(client.names(), ["film one.mp4"]);
    let (one, other) = (client.received("i2"), client.received("i3"));
    assert!(one > 2_000_000 && other > 2_000_000, "{one} and {other}");
    // One alone needs 2 s.
    assert!(took < Duration::from_millis(1700), "{took:?}");
    let seen = client.seen();
    assert_eq!((seen.advanced, seen.resumed), (8_000_000, 0));
    assert_eq!(seen.found, [("film one.mp4".to_owned(), Some(8_000_000))]);
    assert_eq!(seen.said, Vec::<String>::new());
    for ask in site.asked().iter().filter(|ask| !ask.is_first_byte()) {
        assert_eq!((ask.header("if-range"), ask.header("accept-encoding")), (Some(TAG), Some("identity")));
    }
}

#[tokio::test]
async fn a_slow_interface_does_not_hold_up_the_end() {
    let site = Site::start(bytes(6 * MB, 1), |ask| match ask.interface() {
        2 => Act::Slowly { tag: TAG, rate: 3 * MB },
        _ => Act::Slowly { tag: TAG, rate: 20_000 },
    });
    let client = Client::new(&site.url("/f"), &[2, 3]);
    let begun = Instant::now();
    client.run().await.unwrap();
    let took = begun.elapsed();
    assert_content(&client.path("f"), &site.content());
    assert!(took < Duration::from_millis(4500), "the fast one alone needs 2 s: {took:?}");
}

#[tokio::test]
async fn a_stopped_download_goes_on_where_it_was() {
    let site = Site::start(bytes(6 * MB, 1), |_| Act::Slowly { tag: TAG, rate: 4 * MB });
    let client = Client::new(&site.url("/f?token=1"), &[2, 3]);
    let error = client.run_until(client.until(3 * MB)).await.unwrap_err();
    assert!(matches!(error, FetchError::Stopped { is_kept: true }), "{error}");
    assert_eq!(client.names(), [".f.url-record.manyway-part", ".f.url.manyway-part"]);
    let before = client.seen().advanced;
    client.run().await.unwrap();
    assert_content(&client.path("f"), &site.content());
    assert_eq!(client.names(), ["f"]);
    let seen = client.seen();
    assert_eq!((seen.resumed, seen.advanced), (before, 6_000_000), "nothing is fetched twice");
}

#[tokio::test]
async fn what_was_left_of_another_version_is_not_used() {
    let first = Site::start(bytes(3 * MB, 1), |_| Act::Slowly { tag: TAG, rate: 4 * MB });
    let mut client = Client::new(&first.url("/f"), &[2]);
    client.run_until(client.until(MB)).await.unwrap_err();
    let second = Site::start(bytes(3 * MB, 2), |_| Act::Serve { tag: "\"v2\"" });
    client.plan.address = manyway_fetch::WebAddress::parse(&second.url("/f")).unwrap();
    client.run().await.unwrap();
    assert_eq!(client.seen().resumed, 0);
    assert_content(&client.path("f"), &second.content());
}

#[tokio::test]
async fn a_file_that_changed_between_two_runs_is_fetched_anew_and_that_is_said() {
    let site = Site::start(bytes(3 * MB, 1), |ask| match ask.path.as_str() {
        "/f" => Act::Slowly { tag: TAG, rate: 4 * MB },
        _ => Act::Serve { tag: "\"v2\"" },
    });
    let mut client = Client::new(&site.url("/f"), &[2]);
    client.run_until(client.until(MB)).await.unwrap_err();
    site.set_content(bytes(3 * MB, 2));
    client.plan.address = manyway_fetch::WebAddress::parse(&site.url("/f?")).unwrap();
    client.run().await.unwrap();
    client.said_once("changed on the server since the last run");
    assert_content(&client.path("f"), &site.content());
}

#[tokio::test]
async fn without_a_strong_tag_there_is_one_connection_and_that_is_said_once() {
    for (tag, part) in [("", "no ETag"), ("W/\"v1\"", "is weak")] {
        let site = Site::start(bytes(3 * MB, 1), move |_| Act::Serve { tag });
        let client = Client::new(&site.url("/f"), &[2, 3]);
        client.run().await.unwrap();
        client.said_once("over one connection, and not resumable");
        client.said_once(part);
        assert_content(&client.path("f"), &site.content());
        let whole = site.asked().into_iter().filter(|ask| ask.range().is_none()).count();
        assert_eq!(whole, 1);
        let error = client.run_until(async {}).await.unwrap_err();
        assert!(matches!(error, FetchError::Stopped { .. }));
    }
}

#[tokio::test]
async fn without_ranges_the_first_answer_is_the_file() {
    let site = Site::start(bytes(3 * MB, 1), |_| Act::Whole { headers: "ETag: \"v1\"\r\n" });
    let client = Client::new(&site.url("/f"), &[2, 3]);
    client.run().await.unwrap();
    client.said_once("the server does not serve parts of this file");
    assert_content(&client.path("f"), &site.content());
    assert_eq!(site.asked().len(), 1);
}

#[tokio::test]
async fn an_empty_file_and_one_byte_are_files() {
    for length in [0, 1, 2] {
        let site = Site::start(bytes(length, 1), served);
        let client = Client::new(&site.url("/f"), &[2, 3]);
        assert_eq!(client.run().await.unwrap().length, u64::try_from(length).unwrap());
        assert_content(&client.path("f"), &site.content());
    }
}

#[tokio::test]
async fn a_server_with_an_ipv6_address_is_reached() {
    let Ok(listener) = std::net::TcpListener::bind("[::1]:0") else { return };
    drop(listener);
    let site = Site::listen("[::1]:0", bytes(MB, 1), None, served);
    let client = Client::new(&site.url("/f"), &[2]);
    client.run().await.unwrap();
    assert_content(&client.path("f"), &site.content());
}

#[tokio::test]
async fn only_the_right_sum_counts_as_verified() {
    let site = Site::start(b"abc".to_vec(), served);
    let mut client = Client::new(&site.url("/f"), &[2]);
    client.wants_sum("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert!(client.run().await.unwrap().is_verified);
    std::fs::remove_file(client.path("f")).unwrap();
    site.set_content(b"abd".to_vec());
    let error = client.run().await.unwrap_err();
    assert!(error.to_string().contains("its sum is a52d159f"), "{error}");
    assert_eq!(client.names(), Vec::<String>::new());
}

#[tokio::test]
async fn a_file_that_is_there_is_replaced_kept_or_renamed() {
    let site = Site::start(b"new".to_vec(), served);
    for (present, names, content) in [
        (Present::Replace, &["f"][..], "new"),
        (Present::Keep, &["f"], "old"),
        (Present::BackUp, &["f", "f~"], "new"),
    ] {
        let mut client = Client::new(&site.url("/f"), &[2]);
        std::fs::write(client.path("f"), "old").unwrap();
        client.plan.present = present;
        assert_eq!(client.run().await.unwrap().is_kept, present == Present::Keep);
        assert_eq!(client.names(), names);
        assert_content(&client.path("f"), content.as_bytes());
    }
}

#[tokio::test]
async fn the_servers_name_or_the_callers_is_used_and_leads_nowhere_else() {
    let site = Site::start(b"abc".to_vec(), |_| {
        let headers = "Content-Disposition: attachment; filename=\"../../evil.sh\"\r\n";
        Act::Whole { headers }
    });
    let mut client = Client::new(&site.url("/f"), &[2]);
    client.run().await.unwrap();
    assert_eq!(client.names(), ["evil.sh"]);
    client.plan.destination = Destination::File(client.path("mine"));
    client.run().await.unwrap();
    assert_eq!(client.names(), ["evil.sh", "mine"]);
}

#[tokio::test]
async fn redirects_are_followed_a_few_times() {
    let site = Site::start(b"abc".to_vec(), |ask| match ask.path.as_str() {
        "/a" => Act::Head("302 Found\r\nLocation: b/c.txt?x\r\nContent-Length: 0".to_owned()),
        "/round" => Act::Head("302 Found\r\nLocation: /round\r\nContent-Length: 0".to_owned()),
        _ => Act::Serve { tag: TAG },
    });
    let client = Client::new(&site.url("/a"), &[2]);
    client.run().await.unwrap();
    assert_eq!(client.names(), ["c.txt"]);
    client.said_once("redirected to ");
    let error = Client::new(&site.url("/round"), &[2]).run().await.unwrap_err();
    assert!(error.to_string().contains("more than 10 redirects"), "{error}");
}

#[tokio::test]
async fn an_error_of_the_server_names_the_status_and_not_the_token() {
    let site = Site::start(Vec::new(), |_| Act::Head("404 Not Found\r\nContent-Length: 0".to_owned()));
    let error = Client::new(&site.url("/f?token=secret"), &[2, 3]).run().await.unwrap_err();
    assert_eq!(error.to_string(), format!("the server answered 404 Not Found to {}", site.url("/f")));
    assert!(!error.is_transient());
}

#[tokio::test]
async fn an_address_that_expires_is_looked_for_again_where_it_came_from() {
    let tokens = std::sync::atomic::AtomicUsize::new(0);
    let site = Site::start(bytes(3 * MB, 1), move |ask| {
        use std::sync::atomic::Ordering::Relaxed;
        match ask.path.strip_prefix("/f?token=") {
            None => Act::Head(format!(
                "302 Found\r\nLocation: /f?token={}\r\nContent-Length: 0",
                tokens.load(Relaxed)
            )),
            Some(token) if token.parse() == Ok(tokens.load(Relaxed)) => {
                if !ask.is_first_byte() && ask.range().unwrap().start > 0 && token == "0" {
                    tokens.fetch_add(1, Relaxed);
                    return Act::Head("403 Forbidden\r\nContent-Length: 0".to_owned());
                }
                Act::Serve { tag: TAG }
            }
            Some(_) => Act::Head("403 Forbidden\r\nContent-Length: 0".to_owned()),
        }
    });
    let client = Client::new(&site.url("/latest"), &[2]);
    let error = client.run().await.unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("403 Forbidden"), "{error}");
    client.run().await.unwrap();
    assert!(client.seen().resumed >= 1_000_000, "{:?}", client.seen());
    assert_content(&client.path("f"), &site.content());
}

/// A pipe that is read slowly at first.
struct Slow(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl Slow {
    fn add(&self, bytes: &[u8]) -> usize {
        let mut got = self.0.lock().unwrap();
        if got.len() < 100_000 {
            std::thread::sleep(Duration::from_millis(50));
        }
        got.extend_from_slice(bytes);
        bytes.len()
    }
}

impl std::io::Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(self.add(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn an_output_in_order_gets_the_file_over_both_interfaces() {
    let rule = |ask: &crate::common::Ask| match ask.interface() {
        2 => Act::Slowly { tag: TAG, rate: 4 * MB },
        _ => Act::Slowly { tag: TAG, rate: MB },
    };
    let site = Site::start(bytes(6 * MB, 1), rule);
    let mut client = Client::new(&site.url("/f"), &[2, 3]);
    let got = std::sync::Arc::default();
    client.plan.destination = Destination::Output(Outlet::new(Slow(std::sync::Arc::clone(&got))));
    client.run().await.unwrap();
    assert!(*got.lock().unwrap() == *site.content());
    assert!(client.received("i2") > 2_000_000 && client.received("i3") > 500_000);
    assert_eq!(client.names(), Vec::<String>::new());
    client.wants_sum(&"0".repeat(64));
    let error = client.run().await.unwrap_err().to_string();
    assert!(error.contains("its sum is") && !error.contains("removed"), "{error}");
    let whole = Site::start(bytes(MB, 2), |_| Act::Whole { headers: "" });
    client = Client::new(&whole.url("/f"), &[2]);
    let got = std::sync::Arc::default();
    client.plan.destination = Destination::Output(Outlet::new(Slow(std::sync::Arc::clone(&got))));
    client.run().await.unwrap();
    assert!(*got.lock().unwrap() == *whole.content());
}
