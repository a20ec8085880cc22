//! A server with several threads on one port.
#![expect(clippy::unwrap_used, reason = "these are tests")]

use std::net::SocketAddr;
use std::time::Duration;

use manyway::{
    CarrierChoice, Connection, Endpoint, EndpointOptions, IdLayout, LocalAddress, Locals, PairMode, PathInfo,
    PathState, Role, ServerOptions,
};

use crate::common::{SECRET, address, identity, pattern, read_all, soon, ticket};

const THREADS: usize = 3;

fn options(listen: SocketAddr, choice: CarrierChoice) -> EndpointOptions {
    let mut server = ServerOptions::new(identity(), &SECRET);
    server.listen = vec![listen];
    server.threads = THREADS;
    let mut options = EndpointOptions::default();
    options.server = Some(server);
    options.carriers.choice = choice;
    options
}

fn server(choice: CarrierChoice) -> Endpoint {
    Endpoint::bind(options("127.0.0.1:0".parse().unwrap(), choice)).unwrap()
}

fn client(choice: CarrierChoice) -> Endpoint {
    let mut options = EndpointOptions::default();
    let local = |host: u8| LocalAddress { interface: 0, address: ([127, 0, 0, host], 0).into() };
    options.locals = Locals::Fixed(vec![(local(1), Role::Primary), (local(2), Role::Primary)]);
    options.carriers.choice = choice;
    options.connection.pairs = PairMode::FullMesh;
    Endpoint::bind(options).unwrap()
}

/// Connections of as many clients, with both ends.
async fn connect(server: &Endpoint, clients: &[Endpoint]) -> (Vec<Connection>, Vec<Connection>) {
    let ticket = ticket(&[address(server)]);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for client in clients {
        let (connected, accepted) =
            soon(async { tokio::join!(client.connect(&ticket), server.accept()) }).await;
        ours.push(connected.unwrap());
        theirs.push(accepted.unwrap());
    }
    (ours, theirs)
}

/// Sends bytes on a stream of each connection at the same time, and back.
async fn echo(ours: &[Connection], theirs: &[Connection]) {
    let data = pattern(300_000);
    let mut tasks = tokio::task::JoinSet::new();
    for (ours, theirs) in ours.iter().zip(theirs) {
        let (ours, theirs, data) = (ours.clone(), theirs.clone(), data.clone());
        tasks.spawn(async move {
            let there = async {
                let (mut send, mut receive) = ours.open().await.unwrap();
                send.write_chunk(data.clone().into()).await.unwrap();
                send.finish().unwrap();
                assert!(read_all(&mut receive).await == data);
            };
            let back = async {
                let (mut send, mut receive) = theirs.accept().await.unwrap();
                send.write_chunk(read_all(&mut receive).await.into()).await.unwrap();
                send.finish().unwrap();
            };
            soon(async { tokio::join!(there, back) }).await;
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
}

/// Waits until both paths of a connection carry data.
async fn both_paths(connection: &Connection) {
    let is_active = |path: &&PathInfo| path.statistics.state == PathState::Active;
    while connection.info().await.unwrap().paths.iter().filter(is_active).count() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn clients_are_divided_among_the_threads_and_their_paths_lead_to_them() {
    let server = server(CarrierChoice::Udp);
    let clients: Vec<_> = (0..2 * THREADS).map(|_| client(CarrierChoice::Udp)).collect();
    let (ours, theirs) = connect(&server, &clients).await;
    assert_eq!(server.thread_loads(), [2; THREADS]);
    echo(&ours, &theirs).await;
    for connection in &ours {
        soon(both_paths(connection)).await;
    }
    echo(&ours, &theirs).await;
    soon(server.close(3, "enough")).await;
    for connection in &ours {
        assert_eq!(soon(connection.closed()).await.to_string(), "closed by the peer with code 3: enough");
    }
}

// spec 4.2, 4.25, 4.39
#[tokio::test]
async fn paths_lead_to_the_threads_whatever_the_length_and_the_prefix_of_ids() {
    for (length, prefix) in [(13, &[0x4c, 0xff, 0xff, 0xff, 0xff][..]), (20, &[])] {
        for choice in [CarrierChoice::Udp, CarrierChoice::Tcp] {
            let mut options = options("127.0.0.1:0".parse().unwrap(), choice);
            options.server.as_mut().unwrap().ids = IdLayout::new(length, prefix).unwrap();
            let server = Endpoint::bind(options).unwrap();
            let clients: Vec<_> = (0..THREADS).map(|_| client(choice)).collect();
            let (ours, theirs) = connect(&server, &clients).await;
            for connection in ours.iter().filter(|_| choice == CarrierChoice::Udp) {
                soon(both_paths(connection)).await;
            }
            echo(&ours, &theirs).await;
            soon(server.close(0, "")).await;
        }
    }
}

#[tokio::test]
async fn clients_over_tcp_are_divided_among_the_threads_as_well() {
    let server = server(CarrierChoice::Tcp);
    let clients: Vec<_> = (0..2 * THREADS).map(|_| client(CarrierChoice::Tcp)).collect();
    let (ours, theirs) = connect(&server, &clients).await;
    assert!(server.thread_loads().iter().all(|load| *load > 0), "{:?}", server.thread_loads());
    echo(&ours, &theirs).await;
    // What was written before the end still arrives, although the first thread has accepted all TCP connections.
    let data = pattern(2_000_000);
    for theirs in &theirs {
        let (mut send, _) = soon(theirs.open()).await.unwrap();
        soon(send.write_chunk(data.clone().into())).await.unwrap();
        send.finish().unwrap();
    }
    let received = async {
        for ours in &ours {
            let (_, mut receive) = ours.accept().await.unwrap();
            assert!(read_all(&mut receive).await == data);
        }
    };
    soon(async { tokio::join!(received, server.close(0, "")) }).await;
}

#[tokio::test]
async fn no_second_server_joins_the_port() {
    let first = server(CarrierChoice::Auto);
    let error = Endpoint::bind(options(address(&first), CarrierChoice::Auto)).unwrap_err();
    assert!(error.to_string().contains("is taken"), "{error}");
    let clients: Vec<_> = (0..THREADS).map(|_| client(CarrierChoice::Udp)).collect();
    let (ours, theirs) = connect(&first, &clients).await;
    assert_eq!(first.thread_loads(), [1; THREADS]);
    echo(&ours, &theirs).await;
}

#[tokio::test]
async fn threads_without_connections_wait_for_those_that_have_some() {
    for is_closed in [true, false] {
        let server = server(CarrierChoice::Udp);
        let clients: Vec<_> = (0..THREADS).map(|_| client(CarrierChoice::Udp)).collect();
        let (mut ours, mut theirs) = connect(&server, &clients).await;
        // Two of three threads have nothing to do.
        let (kept, left) = (ours.remove(1), theirs.remove(1));
        for connection in ours.iter().chain(&theirs) {
            connection.close(0, "").await;
        }
        let data = pattern(3_000_000);
        let (mut send, _) = soon(left.open()).await.unwrap();
        soon(send.write_chunk(data.clone().into())).await.unwrap();
        send.finish().unwrap();
        let received = async {
            let (_, mut receive) = kept.accept().await.unwrap();
            // Time in which the idle threads would have ended.
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert!(read_all(&mut receive).await == data);
        };
        if is_closed {
            soon(async { tokio::join!(received, server.close(0, "")) }).await;
        } else {
            drop(server);
            soon(received).await;
        }
    }
}

#[test]
fn a_number_of_threads_out_of_range_is_refused() {
    for threads in [0, 65] {
        let mut options = options("127.0.0.1:0".parse().unwrap(), CarrierChoice::Udp);
        options.server.as_mut().unwrap().threads = threads;
        let error = Endpoint::bind(options).unwrap_err().to_string();
        assert!(error.contains("threads") && error.contains("from 1 to 64"), "{error}");
    }
}
