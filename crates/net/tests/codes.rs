//! A rendezvous server on loopback.
#![expect(clippy::unwrap_used, reason = "these are tests")]

use std::time::{Duration, Instant};

use manyway::{CarrierChoice, Endpoint, EndpointOptions, RelayLimits, RendezvousServer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};

/// Time after which a connection without a record is closed.
const FIRST: Duration = Duration::from_secs(3);

/// Waits until the server ends the connection.
async fn ended(mut stream: TcpStream) {
    let mut buffer = [0; 100];
    while stream.read(&mut buffer).await.is_ok_and(|length| length > 0) {}
}

// spec 10.54
#[tokio::test(flavor = "multi_thread")]
async fn a_rendezvous_server_closes_tcp_connections_that_say_nothing_and_takes_few_from_one_network() {
    let listen = ["127.0.0.1:0".parse().unwrap()];
    let mut server = RendezvousServer::bind(&listen, RelayLimits::default()).unwrap();
    let address = *server.tcp_addresses().first().unwrap();
    let serving = tokio::spawn(async move { server.run().await });
    let start = Instant::now();
    let mut dripping = TcpStream::connect(address).await.unwrap();
    let mut silent = Vec::new();
    for _ in 0..31 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    // More than are taken of one network.
    let neighbour = TcpSocket::new_v4().unwrap();
    neighbour.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    if let Ok(surplus) = neighbour.connect(address).await {
        ended(surplus).await;
    }
    assert!(start.elapsed() < FIRST, "the first ones have a place until then");
    // A record that never gets complete does not keep its connection.
    let dripping = tokio::spawn(async move {
        while dripping.write_all(&[0xff]).await.is_ok() {
            tokio::time::sleep(FIRST / 20).await;
        }
    });
    for stream in silent {
        ended(stream).await;
    }
    dripping.await.unwrap();
    assert!(start.elapsed() >= FIRST);
    // There is a place again.
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&[0, 1, 7]).await.unwrap();
    let closed = tokio::time::timeout(FIRST + FIRST / 10, ended(stream)).await;
    assert!(closed.is_err(), "one with a record stays for longer");
    serving.abort();
}

/// Whether a rendezvous server that never answers is asked over UDP and over TCP by an end with this carrier.
async fn asked(choice: CarrierChoice) -> [bool; 2] {
    let (listener, udp) = loop {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        if let Ok(udp) = UdpSocket::bind(listener.local_addr().unwrap()).await {
            break (listener, udp);
        }
    };
    let mut options = EndpointOptions::default();
    options.carriers.choice = choice;
    let endpoint = Endpoint::bind(options).unwrap();
    let (code, server) = ("7-guitar-island".parse().unwrap(), listener.local_addr().unwrap());
    let (servers, mut space) = ([server], [0; 1000]);
    // TCP follows 0.4 s after UDP.
    let while_asked = Duration::from_secs(3);
    let (redeemed, received, accepted) = tokio::join!(
        tokio::time::timeout(while_asked, endpoint.redeem_code(&code, &servers)),
        tokio::time::timeout(while_asked, udp.recv(&mut space)),
        tokio::time::timeout(while_asked, listener.accept()),
    );
    assert!(redeemed.is_err(), "it waits for an answer");
    [received.is_ok(), accepted.is_ok()]
}

// spec 10.52
#[tokio::test(flavor = "multi_thread")]
async fn letters_go_over_the_chosen_carrier_and_over_both_while_neither_is_chosen() {
    let (auto, udp, tcp) =
        tokio::join!(asked(CarrierChoice::Auto), asked(CarrierChoice::Udp), asked(CarrierChoice::Tcp));
    assert_eq!([auto, udp, tcp], [[true, true], [true, false], [false, true]]);
}
