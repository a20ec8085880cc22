//! Interfaces that fail, return, come and go.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use manyway_fetch::{Destination, FetchError};

use crate::common::{Act, Client, MB, Site, assert_content, bytes};

const TAG: &str = "\"v1\"";

#[tokio::test]
async fn connections_that_end_early_are_made_again_and_lose_nothing() {
    let site = Site::start(bytes(3 * MB, 1), |_| Act::CloseAfter { tag: TAG, bytes: 300_000 });
    let client = Client::new(&site.url("/f"), &[2, 3]);
    client.run().await.unwrap();
    assert_content(&client.path("f"), &site.content());
    assert_eq!(client.seen().advanced, 3_000_000, "what came before the end is kept");
}

#[tokio::test]
async fn an_interface_whose_server_falls_silent_does_not_hold_up_the_others() {
    let site = Site::start(bytes(4 * MB, 1), |ask| match ask.interface() {
        3 if !ask.is_first_byte() => Act::Silence,
        _ => Act::Slowly { tag: TAG, rate: 2 * MB },
    });
    let client = Client::new(&site.url("/f"), &[2, 3]);
    let begun = Instant::now();
    client.run().await.unwrap();
    let took = begun.elapsed();
    assert_content(&client.path("f"), &site.content());
    assert!(took < Duration::from_millis(4000), "alone it needs 2 s: {took:?}");
}

#[tokio::test]
async fn an_overloaded_server_is_left_alone_for_as_long_as_it_asks() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let site = Site::start(bytes(4 * MB, 1), move |ask| match ask.interface() {
        3 if !ask.is_first_byte() => {
            counter.fetch_add(1, Ordering::Relaxed);
            Act::Head("503 Busy\r\nRetry-After: 30\r\nContent-Length: 0".to_owned())
        }
        _ => Act::Slowly { tag: TAG, rate: 2 * MB },
    });
    let client = Client::new(&site.url("/f"), &[2, 3]);
    client.run().await.unwrap();
    assert_content(&client.path("f"), &site.content());
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    client.said_once("i3: the server answered 503 Service Unavailable; trying again");
}

#[tokio::test]
async fn interfaces_that_come_and_go_are_used_and_left() {
    let site = Site::start(bytes(8 * MB, 1), |_| Act::Slowly { tag: TAG, rate: 2 * MB });
    let client = Client::new(&site.url("/f"), &[2]);
    let changes = async {
        client.until(MB).await;
        client.network.set(&[2, 3]);
        client.until(3 * MB).await;
        assert!(client.received("i3") > 100_000);
        client.network.set(&[3]);
        client.until(4 * MB).await;
        let left = client.received("i2");
        client.until(6 * MB).await;
        assert_eq!(client.received("i2"), left);
    };
    let (result, ()) = tokio::join!(client.run(), changes);
    result.unwrap();
    assert_content(&client.path("f"), &site.content());
}

#[tokio::test]
async fn a_backup_waits_until_the_others_deliver_nothing() {
    let site = Site::start(bytes(4 * MB, 1), |_| Act::Slowly { tag: TAG, rate: 2 * MB });
    let client = Client::new(&site.url("/f"), &[2, 3]);
    client.network.make_backup(3);
    client.run().await.unwrap();
    assert_eq!(client.received("i3"), 0);
    let site = Site::start(bytes(4 * MB, 1), |ask| match ask.interface() {
        2 if !ask.is_first_byte() => Act::CloseAfter { tag: TAG, bytes: 0 },
        _ => Act::Slowly { tag: TAG, rate: 2 * MB },
    });
    let client = Client::new(&site.url("/f"), &[2, 3]);
    client.network.make_backup(3);
    client.run().await.unwrap();
    assert_content(&client.path("f"), &site.content());
    assert!(client.received("i3") > 3_000_000);
}

#[tokio::test]
async fn a_host_without_a_server_is_an_error_by_interface() {
    let error = Client::new("http://127.0.0.1:1/f", &[2, 3]).run().await.unwrap_err();
    let expected =
        "127.0.0.1 is not reached: i2: connecting: connection refused; i3: connecting: connection refused";
    assert_eq!(error.to_string(), expected);
    let error = Client::new("http://127.0.0.1:1/f", &[]).run().await.unwrap_err();
    assert!(matches!(error, FetchError::NoInterface { .. }), "{error}");
    let error = Client::new("http://nothing.invalid/f", &[2]).run().await.unwrap_err();
    assert!(error.to_string().starts_with("\"nothing.invalid\" could not be looked up"), "{error}");
}

#[tokio::test]
async fn a_place_that_cannot_be_written_is_named() {
    let site = Site::start(bytes(MB, 1), |_| Act::Serve { tag: TAG });
    let mut client = Client::new(&site.url("/f"), &[2]);
    client.plan.destination = Destination::File(client.path("new/f"));
    client.run().await.unwrap();
    client.plan.destination = Destination::File(client.path("new/f/g"));
    let error = client.run().await.unwrap_err();
    assert!(error.to_string().contains("new/f"), "{error}");
}
