//! Traffic over pipes in memory.

use tokio::io::duplex;

use super::*;
use crate::agent::document::{CarrierSpec, End, ManywaySpec};

fn assignment(end: End, load: Load, duration: Duration) -> Assignment {
    Assignment {
        end,
        carrier: CarrierSpec::Manyway(ManywaySpec::default()),
        exchanges: vec![Exchange { up: true, down: false, load }],
        dealing: None,
        duration,
        end_at: duration + Duration::from_secs(2),
        seed: 0,
    }
}

/// Makes a client send to a server over this many lanes; returns the server's report and how both ended.
async fn run(load: Load, duration: Duration, lanes: usize) -> (Report, Report, Result<(), String>) {
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for _ in 0..lanes {
        let (a, b) = duplex(1 << 16);
        for (lanes, pipe) in [(&mut near, a), (&mut far, b)] {
            let (read, write) = tokio::io::split(pipe);
            lanes.push(Lane::of_bytes(read, write));
        }
    }
    let at = clock::nanos();
    let mut client = Traffic::start(&assignment(End::Client, load, duration), vec![near], at);
    let mut server = Traffic::start(&assignment(End::Server, load, duration), vec![far], at);
    let (sent, received) = tokio::join!(client.finished(), server.finished());
    (client.report(), server.report(), sent.and(received))
}

fn received(report: &Report) -> &Received {
    report.received[0].as_ref().unwrap()
}

#[tokio::test]
async fn a_size_arrives_whole_over_several_lanes() {
    let load = Load::Bulk { size: Some(3_000_001), rate: None, chunk: None };
    let (client, server, ended) = run(load, Duration::from_secs(60), 3).await;
    assert_eq!(ended, Ok(()));
    assert_eq!(received(&server).arrivals.total().get(), 3_000_001);
    assert_eq!((client.sent[0], server.sent[0]), (Some(3_000_001), None));
}

#[tokio::test]
async fn bulk_for_a_time_ends_with_the_stream() {
    let load = Load::Bulk { size: None, rate: None, chunk: None };
    let (client, server, ended) = run(load, Duration::from_millis(50), 1).await;
    assert_eq!(ended, Ok(()));
    // The end may cut a piece.
    let (sent, arrived) = (client.sent[0].unwrap(), received(&server).arrivals.total().get());
    assert!(arrived > 0 && sent >= arrived && sent - arrived <= 128 << 10, "{sent} {arrived}");
}

#[tokio::test]
async fn bulk_at_a_rate_does_not_send_more() {
    let load = Load::Bulk { size: None, rate: Some(8_000_000), chunk: None };
    let (_, server, ended) = run(load, Duration::from_millis(200), 1).await;
    assert_eq!(ended, Ok(()));
    let arrived = received(&server).arrivals.total().get();
    assert!(arrived > 0 && arrived <= 200_000, "{arrived}");
}

#[tokio::test]
async fn every_message_arrives_with_its_latency() {
    let load = Load::Messages { size: 100, interval: Duration::from_millis(5), lifetime: None };
    let (client, server, ended) = run(load, Duration::from_millis(100), 1).await;
    assert_eq!(ended, Ok(()));
    assert_eq!(received(&server).latencies.len(), 20);
    assert_eq!(client.sent[0], Some(20));
}

#[tokio::test]
async fn a_stream_of_rare_messages_ends_with_the_last() {
    let load = Load::Messages { size: 100, interval: Duration::from_millis(600), lifetime: None };
    let (_, server, ended) = run(load, Duration::from_millis(1_200), 1).await;
    assert_eq!((ended, received(&server).latencies.len()), (Ok(()), 2));
}

#[test]
fn traffic_lasts_until_its_last_piece_is_due() {
    let begin = Instant::now();
    let after = |millis| begin + Duration::from_millis(millis);
    let times = Times { begin, stop: after(1_000), end: after(3_000) };
    let messages = |millis| {
        let interval = Duration::from_millis(millis);
        Load::Messages { size: 100, interval, lifetime: None }
    };
    let lasts = [1, 300, 500, 999, 1_000, 5_000].map(|interval| times.lasts_until(messages(interval)));
    assert_eq!(lasts, [999, 900, 500, 999, 0, 0].map(|millis| Some(after(millis))));
    let bulk = |size| Load::Bulk { size, rate: None, chunk: None };
    assert_eq!(times.lasts_until(bulk(None)), Some(after(1_000)));
    assert_eq!(times.lasts_until(bulk(Some(7))), None);
}

#[tokio::test]
async fn a_stream_that_ends_early_is_a_failure() {
    let load = Load::Bulk { size: None, rate: None, chunk: None };
    let (near, far) = duplex(1 << 16);
    let (read, write) = tokio::io::split(far);
    let lane = Lane::of_bytes(read, write);
    let assignment = assignment(End::Server, load, Duration::from_secs(60));
    let mut server = Traffic::start(&assignment, vec![vec![lane]], clock::nanos());
    drop(near);
    let failure = server.finished().await.unwrap_err();
    assert!(failure.contains("too early"), "{failure}");
}

/// Sends without limit to a reader that stops at once; the time for everything ends after `end_at`.
async fn send_to_nobody(end_at: Duration) -> Result<(), String> {
    let load = Load::Bulk { size: Some(1 << 30), rate: None, chunk: None };
    let (near, far) = duplex(1 << 16);
    let (read, write) = tokio::io::split(near);
    let assignment = Assignment { end_at, ..assignment(End::Client, load, Duration::from_secs(60)) };
    let mut client = Traffic::start(&assignment, vec![vec![Lane::of_bytes(read, write)]], clock::nanos());
    drop(far);
    client.finished().await
}

#[tokio::test]
async fn a_reader_that_leaves_is_a_failure_unless_the_time_is_over() {
    let failure = send_to_nobody(Duration::from_secs(60)).await.unwrap_err();
    assert!(failure.contains("sending after"), "{failure}");
    assert_eq!(send_to_nobody(Duration::from_millis(300)).await, Ok(()));
}
