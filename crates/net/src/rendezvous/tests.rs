use std::time::Duration;

use manyway_proto::RelayLimits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::RendezvousServer;

#[tokio::test]
async fn connections_are_accepted_again_some_time_after_an_error() {
    let mut server =
        RendezvousServer::bind(&["127.0.0.1:0".parse().unwrap()], RelayLimits::default()).unwrap();
    let mut stream = TcpStream::connect(server.tcp_addresses()[0]).await.unwrap();
    // As after too many open files, and nothing else wakes the server.
    server.streams.rest(server.clock.now() + Duration::from_millis(200));
    let answered = async {
        // A record with a question where this end is seen.
        let mut question = vec![0; 64];
        question[2..4].copy_from_slice(&[1, 10]);
        stream.write_all(&[0, 64]).await.unwrap();
        stream.write_all(&question).await.unwrap();
        stream.read_u16().await.unwrap()
    };
    let answered = async {
        tokio::select! {
            length = answered => length,
            ended = server.run() => panic!("{ended:?}"),
        }
    };
    assert_eq!(tokio::time::timeout(Duration::from_secs(10), answered).await.unwrap(), 46);
}
