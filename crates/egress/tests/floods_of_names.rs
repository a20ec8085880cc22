//! Clients that ask for more names than they may at a time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use manyway_egress::{Destination, FlowKind, GatewayConfig, Reason, Treatment, connect, open_flow};
use tokio::net::UdpSocket;
use tokio::task::JoinSet;

use crate::common::{Names, gateway, in_time, reason, serve_flows, serve_with};

/// Look-ups of a client at the same time.
const LOOKUPS: usize = 8;

fn mute() -> Names {
    Names { is_mute: true, ..Names::default() }
}

fn destination(number: usize) -> Destination {
    Destination::parse(&format!("host{number:03}.test"), 80).unwrap()
}

// egress 6.3
#[tokio::test(start_paused = true)]
async fn a_client_that_connects_to_many_names_has_eight_look_ups_at_a_time_and_takes_none_from_another() {
    let names = mute();
    let asked = Arc::clone(&names.asked);
    let gateway = gateway(&[], GatewayConfig::default(), names);
    let (session, _) = serve_with(gateway.clone());
    let (session, mut connecting) = (Arc::new(session), JoinSet::new());
    for number in 0..100 {
        let session = Arc::clone(&session);
        connecting.spawn(async move { reason(connect(&*session, &destination(number)).await) });
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(asked.load(Ordering::SeqCst), LOOKUPS);
    let (other, _) = serve_with(gateway);
    assert_eq!(reason(connect(&other, &destination(0)).await), Reason::LookupFailed);
    assert_eq!(asked.load(Ordering::SeqCst), LOOKUPS + 1);
    let reasons = connecting.join_all().await;
    assert!(reasons.iter().all(|reason| *reason == Reason::LookupFailed), "{reasons:?}");
}

// egress 6.3
#[tokio::test(start_paused = true)]
async fn a_client_that_gives_up_its_requests_has_no_further_look_ups_before_the_system_ends_them() {
    let names = mute();
    let (asked, turns) = (Arc::clone(&names.asked), Arc::clone(&names.turns));
    let (client, _, _) = serve_flows(gateway(&[], GatewayConfig::default(), names));
    let give_up = async |numbers: std::ops::Range<usize>| {
        for number in numbers {
            let to = destination(number);
            let flow = open_flow(&client, FlowKind::Udp, Some(&to), Treatment::default()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
            drop(flow);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        asked.load(Ordering::SeqCst)
    };
    assert_eq!(give_up(0..30).await, LOOKUPS);
    turns.lock().unwrap().truncate(LOOKUPS - 1);
    assert_eq!(give_up(30..60).await, LOOKUPS + 1);
}

// egress 6.3, 8.3
#[tokio::test(start_paused = true)]
async fn a_flow_has_one_look_up_at_a_time_and_all_flows_of_a_client_eight() {
    let names = mute();
    let asked = Arc::clone(&names.asked);
    let (client, _, _) = serve_flows(gateway(&[], GatewayConfig::default(), names));
    let mut flows = Vec::new();
    for count in 1..=2 * LOOKUPS {
        let mut flow = open_flow(&client, FlowKind::Udp, None, Treatment::default()).await.unwrap();
        for number in 0..100 {
            flow.0.send(Some(&destination(number)), b"to a name").unwrap();
        }
        flows.push(flow);
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(asked.load(Ordering::SeqCst), count.min(LOOKUPS));
    }
}

// egress 8.3
#[tokio::test]
async fn a_flow_remembers_sixty_four_names() {
    const REMEMBERED: usize = 64;
    let answers = |number| (destination(number).host().to_string(), vec![vec!["127.0.0.1".parse().unwrap()]]);
    let names = Names { answers: (0..=REMEMBERED).map(answers).collect(), ..Names::default() };
    let asked = Arc::clone(&names.asked);
    let (client, _, _) = serve_flows(gateway(&["127.0.0.0/8"], GatewayConfig::default(), names));
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let port = socket.local_addr().unwrap().port();
    let (mut sender, _receiver) =
        open_flow(&client, FlowKind::Udp, None, Treatment::default()).await.unwrap();
    let mut send_to = async |numbers: Vec<usize>| {
        for number in numbers {
            let to = Destination::new(destination(number).host().clone(), port).unwrap();
            sender.send(Some(&to), b"to a name").unwrap();
            in_time(socket.recv_from(&mut [0; 20])).await.unwrap();
        }
        asked.load(Ordering::SeqCst)
    };
    assert_eq!(send_to((0..REMEMBERED).chain(0..REMEMBERED).collect()).await, REMEMBERED);
    assert_eq!(send_to(vec![REMEMBERED]).await, REMEMBERED + 1);
    // One was forgotten for it.
    assert!(send_to((0..=REMEMBERED).collect()).await > REMEMBERED + 1);
}
