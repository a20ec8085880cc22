use std::future::poll_fn;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_proto::{ByteCount, LocalAddress};

use super::*;
#[cfg(all(target_os = "linux", not(manyway_portable)))]
use crate::test_namespace::{in_namespace, ip};

const HERE: LocalAddress = LocalAddress {
    interface: 0,
    address: SocketAddr::V4(std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 0)),
};

async fn pair(settings: &Settings, is_tls: bool) -> (RecordStream, RecordStream) {
    let acceptor = is_tls.then(|| Camouflage::acceptor().unwrap());
    let listener = Listener::bind(HERE.address, settings, acceptor).unwrap();
    let remote = listener.address();
    let accept = async {
        match poll_fn(|context| listener.poll_accept(context)).await.unwrap() {
            Accepted::Plain(stream) => stream,
            Accepted::Tls(accept, tuple) => handshake(accept, tuple).await.unwrap(),
        }
    };
    let (connected, accepted) = tokio::join!(connect(HERE, (remote, is_tls), settings.clone()), accept);
    (connected.unwrap(), accepted)
}

#[tokio::test]
async fn records_arrive_whole_and_in_order_over_a_connection_that_takes_only_a_part_at_once() {
    records_arrive(false).await;
}

#[tokio::test]
async fn records_arrive_whole_and_in_order_within_tls() {
    records_arrive(true).await;
}

async fn records_arrive(is_tls: bool) {
    let (mut here, mut there) = pair(&Settings::default(), is_tls).await;
    assert_eq!(
        (here.tuple().remote, here.tuple().local.address),
        (there.tuple().local.address, there.tuple().remote)
    );
    let sizes: Vec<usize> = (0..300).map(|number| (number * 1234) % 65_536).collect();
    let mut was_full = false;
    for (number, size) in sizes.iter().enumerate() {
        here.write(&vec![number.to_be_bytes()[7]; *size]).unwrap();
        was_full |= here.pending() > 0;
    }
    assert!(was_full, "the system takes no 10 MB at once");
    assert!(here.write(&[0; 65_536]).is_err(), "a record has at most 65 535 bytes");
    let write = async { poll_fn(|context| here.poll_flush(context)).await.unwrap() };
    let read = async {
        let (mut number, mut buffer) = (0, vec![0; 10_000]);
        while number < sizes.len() {
            assert!(poll_fn(|context| there.poll_read(context, &mut buffer)).await.unwrap() > 0);
            while let Some(record) = there.next_record() {
                assert_eq!(record.len(), sizes[number]);
                assert!(record.iter().all(|byte| *byte == number.to_be_bytes()[7]));
                number += 1;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), async { tokio::join!(write, read) })
        .await
        .expect("in time");
    assert_eq!(here.pending(), 0);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_system_says_what_is_on_its_way() {
    let (mut here, mut there) = pair(&Settings::default(), false).await;
    here.write(&[1; 50_000]).unwrap();
    let mut buffer = vec![0; 100_000];
    let mut read = 0;
    while read < 50_002 {
        read += poll_fn(|context| there.poll_read(context, &mut buffer)).await.unwrap();
    }
    // Acknowledgements of the system may take 40 ms.
    let start = std::time::Instant::now();
    while here.figures().unwrap().outstanding.0 > 0 {
        assert!(start.elapsed() < Duration::from_secs(5));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let figures = here.figures().unwrap();
    assert!(figures.window.0 > 0 && figures.rtt > Duration::ZERO, "{figures:?}");
    assert!(figures.minimum_rtt <= figures.rtt, "{figures:?}");
    // Nothing is read, so what is written stays on its way, or here.
    for _ in 0..400 {
        here.write(&[1; 60_000]).unwrap();
    }
    let figures = here.figures().unwrap();
    assert!(figures.outstanding.0 > 20_000_000 && figures.outstanding.0 <= 400 * 60_002, "{figures:?}");
}

#[cfg(all(target_os = "linux", not(manyway_portable)))]
#[test]
fn bytes_that_arrive_behind_a_gap_are_not_outstanding() {
    let name = "tcp::tests::bytes_that_arrive_behind_a_gap_are_not_outstanding";
    in_namespace(name, || {
        ip("link set lo up");
        // Drops segments that begin with a record of ones: the header of TCP has 32 bytes, the prefix of a record two.
        let script = "add table inet gap; add chain inet gap in { type filter hook input priority 0; }; \
                      add rule inet gap in meta l4proto tcp @th,272,8 1 drop";
        assert!(std::process::Command::new("nft").arg(script).status().unwrap().success());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (mut here, _there) = pair(&Settings::default(), false).await;
            here.write(&[1; 1_000]).unwrap();
            here.write(&[2; 1_000]).unwrap();
            let start = std::time::Instant::now();
            while !(900..1_100).contains(&here.figures().unwrap().outstanding.0) {
                assert!(start.elapsed() < Duration::from_secs(5), "{:?}", here.figures());
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
    });
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_receive_window_stays_when_larger_packets_arrive() {
    const WINDOW: ByteCount = ByteCount(200_000);
    let (mut here, mut there) = pair(&Settings::default(), false).await;
    there.set_receive_window(Some(WINDOW));
    let mut buffer = vec![0; 100_000];
    for length in [100, 1_000, 60_000, 60_000, 60_000] {
        here.write(&vec![1; length]).unwrap();
        while there.next_record().is_none() {
            poll_fn(|context| there.poll_read(context, &mut buffer)).await.unwrap();
        }
        there.figures().unwrap();
        assert!(there.receive_limit().unwrap() <= WINDOW);
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn receive_windows_have_steps_of_512_bytes_at_most_at_both_ends() {
    let (here, there) = pair(&Settings::default(), false).await;
    assert!(here.receive_scale().unwrap() <= 9 && there.receive_scale().unwrap() <= 9);
}

/// Late binding: what the system holds unsent can take no other path.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_system_keeps_at_most_128_kib_unsent_at_both_ends() {
    let (here, there) = pair(&Settings::default(), false).await;
    for stream in [here, there] {
        assert_eq!(stream.options().tcp_notsent_lowat().unwrap(), 128 << 10);
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn congestion_control_is_chosen_by_name_and_an_unknown_one_is_refused_with_advice() {
    let settings = |name: &str| Settings { congestion: Some(name.to_owned()), ..Settings::default() };
    let (here, _there) = pair(&settings("reno"), false).await;
    assert!(here.options().tcp_congestion().unwrap().starts_with(b"reno\0"));
    let error = Listener::bind(HERE.address, &settings("nonesuch"), None).err().unwrap().to_string();
    assert!(error.contains("nonesuch") && error.contains("tcp_allowed_congestion_control"), "{error}");
}

#[tokio::test]
async fn the_end_of_the_peer_is_noticed() {
    let (mut here, there) = pair(&Settings::default(), false).await;
    there.reset();
    let mut buffer = [0; 10];
    let result = poll_fn(|context| here.poll_read(context, &mut buffer)).await;
    assert!(result.is_err(), "{result:?}");
}
