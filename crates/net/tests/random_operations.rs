//! Several clients do random things at once to a server with several threads, over both carriers. Whatever they do, the
//! bytes that come back are those that were sent, and nothing is left at the end. Made for a race detector, too.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "these are tests")]

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use manyway::{
    CarrierChoice, Connection, ConnectionError, Endpoint, EndpointOptions, IdLayout, Lanes, LocalAddress,
    Locals, PairMode, ReadError, ReceiveStream, Role, SendStream, ServerOptions, Ticket,
};
use manyway_proto::Rng;
use manyway_sim::nightly::{few_or_many, rotating_seeds};
use tokio::task::JoinSet;

use crate::common::{Relay, SECRET, address, identity, pattern, read_all, soon, ticket, within};

const THREADS: usize = 3;
/// Reasons with which streams end early, and the close code of clients.
const GIVEN_UP: u64 = 4;
const ENOUGH: u64 = 9;

/// What the first byte of a stream asks the server to do with it.
const ECHO: u8 = 0;
const RESET: u8 = 1;
const STOP: u8 = 2;

#[test]
fn bytes_come_back_whatever_clients_do_to_a_server_with_threads() {
    for lanes in [Lanes::Never, Lanes::Always] {
        rotating_seeds(1, 10).for_each(|seed| run(seed, lanes));
    }
}

/// The server and each client have a thread and a runtime of their own, beside the threads of their endpoints: what passes
/// between them passes through the library.
fn run(seed: u64, lanes: Lanes) {
    let mut rng = Rng::from_seed([seed.to_le_bytes(); 4].concat().try_into().unwrap());
    let server = server(&mut rng, lanes);
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| block_on(serve(&server)));
        let clients: Vec<_> = (0..few_or_many(6, 12))
            .map(|number| {
                let (rng, server) = (rng.fork(), address(&server));
                scope.spawn(move || {
                    block_on(async {
                        Client::new(server, (number, lanes), rng).await.run(few_or_many(25, 150)).await;
                    });
                })
            })
            .collect();
        let ended: Vec<_> = clients.into_iter().map(|client| client.join().is_ok()).collect();
        block_on(server.close(0, ""));
        serving.join().unwrap();
        assert!(ended.iter().all(|client| *client), "seed {seed}: {ended:?}");
        assert_eq!(server.thread_loads(), [0; THREADS], "seed {seed}");
    });
}

fn block_on(task: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(within(120, task));
}

/// A server with threads, whose IDs have any length.
fn server(rng: &mut Rng, lanes: Lanes) -> Endpoint {
    let mut server = ServerOptions::new(identity(), &SECRET);
    server.listen = vec!["127.0.0.1:0".parse().unwrap()];
    server.threads = THREADS;
    let prefix = below(rng, 6);
    server.ids = IdLayout::new(8 + prefix + below(rng, 13 - prefix), &[0x4c; 5][..prefix]).unwrap();
    let mut options = EndpointOptions::default();
    options.server = Some(server);
    options.lanes = lanes;
    Endpoint::bind(options).unwrap()
}

/// Serves every client until the server is closed.
async fn serve(server: &Endpoint) {
    let mut connections = JoinSet::new();
    while let Some(connection) = server.accept().await {
        connections.spawn(async move {
            let mut streams = JoinSet::new();
            while let Ok((send, receive)) = connection.accept().await {
                streams.spawn(answer(send, receive));
            }
            streams.join_all().await;
        });
    }
    connections.join_all().await;
}

/// Does with a stream what its first byte asks for. The client may give it up at any time.
async fn answer(mut send: SendStream, mut receive: ReceiveStream) -> Option<()> {
    let first = receive.read_chunk(1).await.ok()??;
    match first[0] {
        RESET => {
            let _ = send.write_chunk(Bytes::from_static(&[7; 5000])).await;
            send.reset(GIVEN_UP);
        }
        STOP => receive.stop(GIVEN_UP),
        _ => {
            while let Some(chunk) = receive.read_chunk(30_000).await.ok()? {
                send.write_chunk(chunk).await.ok()?;
            }
            send.finish().ok()?;
        }
    }
    Some(())
}

/// A client with two addresses. Over UDP its packets pass relays, which can change their ports.
struct Client {
    endpoint: Endpoint,
    ticket: Ticket,
    relay: Option<Relay>,
    rng: Rng,
}

impl Client {
    async fn new(server: SocketAddr, (number, lanes): (usize, Lanes), rng: Rng) -> Self {
        let choice = [CarrierChoice::Udp, CarrierChoice::Tcp, CarrierChoice::Auto][number % 3];
        let mut options = EndpointOptions::default();
        let local = |host: u8| LocalAddress { interface: 0, address: ([127, 0, 0, host], 0).into() };
        options.locals = Locals::Fixed(vec![(local(1), Role::Primary), (local(2), Role::Primary)]);
        options.carriers.choice = choice;
        options.lanes = lanes;
        options.connection.pairs = PairMode::FullMesh;
        let endpoint = Endpoint::bind(options).unwrap();
        let relay = if choice == CarrierChoice::Udp { Some(Relay::new(server).await) } else { None };
        let ticket = ticket(&[relay.as_ref().map_or(server, |relay| relay.address)]);
        Self { endpoint, ticket, relay, rng }
    }

    async fn connect(&self) -> Connection {
        soon(self.endpoint.connect(&self.ticket)).await.unwrap()
    }

    async fn run(mut self, operations: usize) {
        let mut connection = self.connect().await;
        let mut streams = JoinSet::new();
        for _ in 0..operations {
            match below(&mut self.rng, 12) {
                0 => self.relay.iter().for_each(Relay::change_ports),
                1 => {
                    let paths = soon(connection.paths()).await.unwrap();
                    // The last one stays.
                    paths.iter().skip(1).for_each(manyway::Path::close);
                }
                2 => drop(soon(connection.report()).await.unwrap()),
                3 => {
                    soon(streams.join_all()).await;
                    streams = JoinSet::new();
                    close(&connection).await;
                    connection = self.connect().await;
                }
                4 => tokio::time::sleep(Duration::from_millis(below(&mut self.rng, 20) as u64)).await,
                _ => drop(streams.spawn(use_stream(connection.clone(), self.rng.fork()))),
            }
            if streams.len() > 5 {
                soon(streams.join_next()).await.unwrap().unwrap();
            }
        }
        soon(streams.join_all()).await;
        close(&connection).await;
        soon(self.endpoint.close(0, "")).await;
    }
}

async fn close(connection: &Connection) {
    let end = soon(connection.close(ENOUGH, "enough")).await;
    assert!(matches!(end, ConnectionError::Closed { code: ENOUGH, .. }), "{end:?}");
}

/// Opens a stream and ends it in one of all ways.
async fn use_stream(connection: Connection, mut rng: Rng) {
    let (mut send, mut receive) = connection.open().await.unwrap();
    let request = [ECHO, ECHO, ECHO, RESET, STOP][below(&mut rng, 5)];
    send.write_chunk(Bytes::copy_from_slice(&[request])).await.unwrap();
    let data = Bytes::from(pattern(1 + below(&mut rng, 200_000)));
    match request {
        RESET => {
            let end = loop {
                match receive.read_chunk(usize::MAX).await {
                    Ok(chunk) => assert!(chunk.is_some_and(|chunk| chunk.iter().all(|byte| *byte == 7))),
                    Err(error) => break error,
                }
            };
            assert!(matches!(end, ReadError::Reset(GIVEN_UP)), "{end:?}");
        }
        STOP => while send.write_chunk(data.clone()).await.is_ok() {},
        _ if below(&mut rng, 4) == 0 => {
            send.write_chunk(data).await.unwrap();
            send.reset(GIVEN_UP);
            receive.stop(GIVEN_UP);
        }
        _ => {
            let write = async {
                send.write_chunk(data.clone()).await.unwrap();
                send.finish().unwrap();
            };
            let ((), back) = tokio::join!(write, read_all(&mut receive));
            assert!(back == data, "{} bytes came back of {}", back.len(), data.len());
        }
    }
}

fn below(rng: &mut Rng, limit: usize) -> usize {
    usize::try_from(rng.next_u64() % limit as u64).unwrap()
}
