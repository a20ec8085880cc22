//! Clients that request forbidden destinations, and peers that violate the protocol.

use std::sync::atomic::Ordering;
use std::time::Duration;

use manyway_egress::{Destination, GatewayConfig, Host, Reason, connect};
use manyway_session::Session as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::common::{
    Names, gateway, gateway_of, in_time, listen, read_all, reason, serve, serve_with, until,
};

// egress 5.1 to 5.3
#[tokio::test]
async fn no_forbidden_address_is_connected_to_in_any_notation() {
    let (session, _) = serve(&[]);
    for host in [
        // The host itself.
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "::1",
        "::",
        "::ffff:127.0.0.1",
        "::127.0.0.1",
        "64:ff9b::127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::1",
        "2001:0:4136:e378:8000:63bf:80ff:fffe",
        // Networks behind the server.
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "169.254.1.1",
        "fe80::1",
        "fc00::1",
        "fd00::1",
        "fec0::1",
        "::ffff:10.0.0.1",
        "::10.0.0.1",
        "64:ff9b::10.0.0.1",
        "64:ff9b:1::10.0.0.1",
        "64:ff9b:1:a00:0:100::",
        "2002:a00:1::1",
        "::ffff:192.168.1.1",
        // Metadata services of clouds.
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "64:ff9b::169.254.169.254",
        "fd00:ec2::254",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        // Multicast, broadcast, unspecified.
        "224.0.0.1",
        "239.255.255.250",
        "ff02::1",
        "255.255.255.255",
        "240.0.0.1",
        "192.0.2.1",
        "2001:db8::1",
    ] {
        let to = Destination::parse(host, 80).unwrap();
        assert_eq!(reason(in_time(connect(&session, &to)).await), Reason::Forbidden, "{host}");
    }
}

/// The system's resolver reads them as addresses.
#[tokio::test]
async fn an_address_written_as_a_name_is_checked_like_an_address() {
    let gateway =
        manyway_egress::Gateway::new(manyway_egress::Rules::new(Vec::new()), GatewayConfig::default());
    let (session, _) = serve_with(gateway);
    for name in ["localhost", "127.1", "0x7f.1", "2130706433", "0177.0.0.1", "0"] {
        let to = Destination::parse(name, 80).unwrap();
        let reason = reason(in_time(connect(&session, &to)).await);
        assert!(matches!(reason, Reason::Forbidden | Reason::NameNotFound), "{name}: {reason:?}");
    }
}

// egress 5.3
#[tokio::test]
async fn a_name_of_a_forbidden_address_is_forbidden_and_reveals_no_address() {
    for address in ["10.1.2.3", "127.0.0.1", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3", "fd00::7"] {
        let mut names = Names::of("inside.test", &[]);
        names.answers[0].1.push(vec![address.parse().unwrap()]);
        let (session, _) = serve_with(gateway(&[], GatewayConfig::default(), names));
        let to = Destination::parse("inside.test", 80).unwrap();
        let error = in_time(connect(&session, &to)).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("forbidden") && !text.contains("10.1") && !text.contains("private"), "{text}");
        assert_eq!(reason(Err::<(), _>(error)), Reason::Forbidden);
    }
}

// egress 5.10
#[tokio::test]
async fn a_denied_destination_is_not_connected_to_by_any_notation_name_or_name_server() {
    let forbidden = TcpListener::bind("127.0.0.2:0").await.unwrap();
    let port = forbidden.local_addr().unwrap().port();
    let allowed = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    let mut names = Names::of("changing.test", &[&["127.0.0.2", "127.0.0.1"], &["127.0.0.2"]]);
    names.servers = vec!["127.0.0.2:53".parse().unwrap()];
    let opened = ["127.0.0.0/8", "64:ff9b::/96"];
    let (session, _) = serve_with(gateway_of(&opened, &["127.0.0.2"], GatewayConfig::default(), names));
    for host in ["127.0.0.2", "::ffff:127.0.0.2", "64:ff9b::127.0.0.2"] {
        let to = Destination::parse(host, port).unwrap();
        let error = in_time(connect(&session, &to)).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("--deny") && !text.contains("--allow"), "{text}");
        assert_eq!(reason(Err::<(), _>(error)), Reason::Forbidden, "{host}");
    }
    let to = Destination::parse("changing.test", port).unwrap();
    let opened = in_time(connect(&session, &to)).await.unwrap();
    assert_eq!(opened.address, allowed.local_addr().unwrap());
    let error = in_time(connect(&session, &to)).await.unwrap_err();
    assert_eq!(error.to_string(), Reason::Forbidden.to_string(), "it names no address");
    let resolver = Destination::new(Host::Resolver, 53).unwrap();
    assert_eq!(reason(in_time(connect(&session, &resolver)).await), Reason::Forbidden);
    let connection = tokio::time::timeout(Duration::from_millis(50), forbidden.accept()).await;
    assert!(connection.is_err(), "the denied one was connected to");
}

/// The first answer is allowed, later ones are not; of one answer the forbidden addresses are left out.
// egress 5.6
#[tokio::test]
async fn a_rebinding_name_is_resolved_once_and_only_checked_addresses_are_connected_to() {
    let forbidden = TcpListener::bind("127.0.0.2:0").await.unwrap();
    let port = forbidden.local_addr().unwrap().port();
    let allowed = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    let names = Names::of("rebind.test", &[&["127.0.0.1"], &["127.0.0.2"]]);
    let asked = names.asked.clone();
    let (session, _) = serve_with(gateway(&["127.0.0.1"], GatewayConfig::default(), names));
    let to = Destination::parse("rebind.test", port).unwrap();
    let opened = in_time(connect(&session, &to)).await.unwrap();
    assert_eq!((opened.address, asked.load(Ordering::SeqCst)), (allowed.local_addr().unwrap(), 1));
    assert_eq!(reason(in_time(connect(&session, &to)).await), Reason::Forbidden, "the second answer");

    let names = Names::of("mixed.test", &[&["127.0.0.2", "::ffff:127.0.0.2", "127.0.0.1"]]);
    let (session, _) = serve_with(gateway(&["127.0.0.1"], GatewayConfig::default(), names));
    let to = Destination::parse("mixed.test", port).unwrap();
    let opened = in_time(connect(&session, &to)).await.unwrap();
    assert_eq!(opened.address, allowed.local_addr().unwrap());
    let connection = tokio::time::timeout(Duration::from_millis(50), forbidden.accept()).await;
    assert!(connection.is_err(), "the forbidden one was connected to");
}

// egress 6.1
#[tokio::test]
async fn the_connections_of_one_client_are_limited_and_reusable() {
    let mut config = GatewayConfig::default();
    config.client_connections = 2;
    let (session, quota) = serve_with(gateway(&["127.0.0.1"], config, Names::default()));
    let (listener, to) = listen().await;
    let first = in_time(connect(&session, &to)).await.unwrap();
    let second = in_time(connect(&session, &to)).await.unwrap();
    assert_eq!(reason(in_time(connect(&session, &to)).await), Reason::TooMany);
    drop((first, second));
    until(|| quota.free_connections() == 2).await;
    in_time(connect(&session, &to)).await.unwrap();
    drop(listener);
}

// egress 6.2
#[tokio::test]
async fn the_connections_of_all_clients_are_limited_together() {
    let mut config = GatewayConfig::default();
    config.connections = 1;
    let gateway = gateway(&["127.0.0.1"], config, Names::default());
    let ((one, _), (other, other_quota)) = (serve_with(gateway.clone()), serve_with(gateway));
    let (_listener, to) = listen().await;
    let kept = in_time(connect(&one, &to)).await.unwrap();
    assert_eq!(reason(in_time(connect(&other, &to)).await), Reason::TooMany);
    assert_eq!(other_quota.free_connections(), 512);
    drop(kept);
}

// egress 6.3
#[tokio::test(start_paused = true)]
async fn an_incomplete_request_times_out() {
    let (session, quota) = serve(&["127.0.0.1"]);
    for beginning in [&[][..], &[0x45], &[0x45, 1, 1, 0, 7, 0, 80, 1, 127]] {
        let (mut send, mut receive) = session.open().await.unwrap();
        send.write_all(beginning).await.unwrap();
        let mut answer = Vec::new();
        let _ = receive.read_to_end(&mut answer).await;
        assert_eq!(answer[..3], [0x45, 1, 12], "malformed");
    }
    assert_eq!(quota.free_connections(), 512);
}

// egress 1.3, 1.5
#[tokio::test]
async fn malformed_and_endless_requests_are_refused_at_their_header_and_harm_no_other() {
    let (session, quota) = serve(&["127.0.0.1"]);
    for (bytes, reason) in [
        (&[0x45, 1, 1, 0xff, 0xff][..], 12),
        (&[0x45, 9, 1, 0, 0], 11),
        (&[0x45, 1, 99, 0, 0], 11),
        (&[0x01, 0, 0, 0, 0], 12),
        (&[0x45, 1, 1, 0, 4, 0, 80, 3, 0], 12),
    ] {
        let (mut send, mut receive) = session.open().await.unwrap();
        // As much as the server accepts: an endless writer is stopped.
        let endless = async {
            send.write_all(bytes).await?;
            loop {
                send.write_all(&[0; 4096]).await?;
            }
            #[expect(unreachable_code, reason = "it names the type")]
            Ok::<(), std::io::Error>(())
        };
        let (ended, answer) = tokio::join!(in_time(endless), read_all(&mut receive));
        assert!(ended.is_err());
        assert_eq!(answer.unwrap()[..3], [0x45, 1, reason], "{bytes:?}");
    }
    assert_eq!(quota.free_connections(), 512);
    let (_listener, to) = listen().await;
    in_time(connect(&session, &to)).await.unwrap();
}

// egress 6.3
#[tokio::test(start_paused = true)]
async fn a_silent_name_server_delays_only_its_own_request() {
    let mut names = Names::of("slow.test", &[]);
    names.is_mute = true;
    let (session, quota) = serve_with(gateway(&[], GatewayConfig::default(), names));
    let to = Destination::parse("slow.test", 80).unwrap();
    let begin = tokio::time::Instant::now();
    assert_eq!(reason(connect(&session, &to).await), Reason::LookupFailed);
    assert_eq!(begin.elapsed().as_secs(), 10);
    assert_eq!(quota.free_connections(), 512);
}

// egress 6.4
#[tokio::test]
async fn the_buffers_of_a_client_stay_within_its_quota_and_everything_arrives() {
    let mut config = GatewayConfig::default();
    config.client_bytes = 20 << 10;
    let (session, quota) = serve_with(gateway(&["127.0.0.1"], config, Names::default()));
    let (listener, to) = listen().await;
    let mut streams = Vec::new();
    for _ in 0..4 {
        let opened = in_time(connect(&session, &to)).await.unwrap();
        let (mut destination, _) = in_time(listener.accept()).await.unwrap();
        tokio::spawn(async move {
            destination.write_all(&vec![3; 400_000]).await.unwrap();
        });
        streams.push(opened);
    }
    for opened in &mut streams {
        let mut got = vec![0; 400_000];
        in_time(opened.receive.read_exact(&mut got)).await.unwrap();
        assert!(quota.free_bytes() <= 20 << 10);
    }
    drop(streams);
    until(|| quota.free_bytes() == 20 << 10).await;
}

/// The unread stream is full; the others go on.
// egress 6.4
#[tokio::test]
async fn an_unread_stream_of_a_client_stops_no_other() {
    let (session, _) = serve(&["127.0.0.1"]);
    let (listener, to) = listen().await;
    let stuck = in_time(connect(&session, &to)).await.unwrap();
    let (mut flooding, _) = in_time(listener.accept()).await.unwrap();
    tokio::spawn(async move { while flooding.write_all(&[1; 65536]).await.is_ok() {} });
    let mut other = in_time(connect(&session, &to)).await.unwrap();
    let (mut destination, _) = in_time(listener.accept()).await.unwrap();
    destination.write_all(b"through").await.unwrap();
    let mut got = [0; 7];
    in_time(other.receive.read_exact(&mut got)).await.unwrap();
    assert_eq!(&got, b"through");
    drop(stuck);
}
