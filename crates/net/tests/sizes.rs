//! The size of datagrams on the loopback interface.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use crate::common::{Pair, pattern, read_all, within};
use manyway::{Connection, ConnectionConfig};

async fn until_size(connection: &Connection, wanted: u16) {
    within(10, async {
        loop {
            let info = connection.info().await.unwrap();
            if info.paths.iter().any(|path| path.statistics.datagram == wanted) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg(all(target_os = "linux", not(manyway_portable)))]
async fn loopback_carries_datagrams_of_65_000_bytes() {
    let pair = Pair::new().await;
    until_size(&pair.connected, 65_000).await;
    until_size(&pair.accepted, 65_000).await;
    let (mut send, _receive) = pair.connected.open().await.unwrap();
    let content = pattern(5_000_000);
    let writer = async {
        send.write_chunk(content.clone().into()).await.unwrap();
        send.finish().unwrap();
    };
    let reader = async { read_all(&mut pair.accepted.accept().await.unwrap().1).await };
    let ((), read) = within(20, async { tokio::join!(writer, reader) }).await;
    assert!(read == content);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_smaller_setting_of_both_ends_bounds_the_size() {
    let mut small = ConnectionConfig::default();
    small.max_datagram = 1300;
    let pair = Pair::with(ConnectionConfig::default(), small).await;
    until_size(&pair.connected, 1300).await;
    until_size(&pair.accepted, 1300).await;
}
