//! Interfaces that come and go during a transfer, between two network namespaces.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};

use crate::test_namespace::{in_namespace, ip, wait_for_carrier};
use crate::{Connection, Endpoint, EndpointOptions, HostPort, Identity, PathState, ServerOptions, Ticket};

/// A thread in a network namespace of its own; threads that it starts, such as drivers, are there too.
pub(super) struct There {
    pub(super) thread: String,
    orders: mpsc::Sender<Order>,
}

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(30);

type Order = Box<dyn FnOnce() + Send>;

impl There {
    pub(super) fn new() -> Self {
        let (orders, receiver) = mpsc::channel::<Order>();
        let (ready, thread) = mpsc::channel();
        std::thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            ready.send(nix::unistd::gettid().to_string()).unwrap();
            receiver.into_iter().for_each(|order| order());
        });
        Self { thread: thread.recv().unwrap(), orders }
    }

    pub(super) fn run<T: Send + 'static>(&self, order: impl FnOnce() -> T + Send + 'static) -> T {
        let (reply, answer) = mpsc::channel();
        self.orders.send(Box::new(move || reply.send(order()).unwrap())).unwrap();
        answer.recv().unwrap()
    }

    /// Creates a veth pair between here and there, with addresses that end in 1 and 2.
    pub(super) fn lay_cable(&self, number: u8) {
        ip(&format!("link add mwhere{number} type veth peer name mwthere{number} netns {}", self.thread));
        ip(&format!("address add 10.98.{number}.1/24 dev mwhere{number}"));
        ip(&format!("link set dev mwhere{number} up"));
        self.run(move || {
            ip(&format!("address add 10.98.{number}.2/24 dev mwthere{number}"));
            ip(&format!("link set dev mwthere{number} up"));
        });
        wait_for_carrier(&format!("mwhere{number}"));
    }
}

/// Waits until the active paths use exactly these interfaces.
pub(super) async fn until_active(connection: &Connection, interfaces: &[&str]) {
    let start = Instant::now();
    loop {
        let info = connection.info().await.unwrap();
        let active = info.paths.iter().filter(|path| path.statistics.state == PathState::Active);
        let mut names: Vec<_> = active.filter_map(|path| path.interface.as_deref()).collect();
        names.sort_unstable();
        if names == interfaces {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(8), "{info:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn a_transfer_follows_interfaces_that_come_and_go() {
    let name = "driver::tests_in_namespace::a_transfer_follows_interfaces_that_come_and_go";
    in_namespace(name, || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.unwrap().block_on(transfer());
    });
}

async fn transfer() {
    let there = There::new();
    there.lay_cable(1);
    let identity = Identity::from_seed(&[1; 32]);
    let server = ServerOptions::new(identity.clone(), &[2; 16]);
    let options = EndpointOptions { server: Some(server), ..EndpointOptions::default() };
    let server = there.run(move || Endpoint::bind(options)).unwrap();
    let client = Endpoint::bind(EndpointOptions::default()).unwrap();
    let hosts: Vec<HostPort> = ["10.98.1.2", "10.98.2.2"].map(|host| host.parse().unwrap()).into();
    let ticket = Ticket::new(identity.public_key().hash(), [2; 16], hosts).unwrap();
    let connect = async { client.connect(&ticket).await.unwrap() };
    let accept = async { server.accept().await.unwrap() };
    let (connection, accepted) = tokio::join!(connect, accept);

    let enough = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&enough);
    let (mut send, _receive) = connection.open().await.unwrap();
    let writer = tokio::spawn(async move {
        let mut written = 0_u64;
        while !stop.load(Ordering::Relaxed) {
            let chunk: Vec<u8> =
                (written..written + 50_000).map(|at| at.to_be_bytes()[6] ^ at.to_be_bytes()[7]).collect();
            send.write_chunk(chunk.into()).await.unwrap();
            written += 50_000;
        }
        send.finish().unwrap();
        send.delivered().await.unwrap();
        written
    });
    let (_send, mut receive) = accepted.accept().await.unwrap();
    let reader = tokio::spawn(async move {
        let mut read = 0_u64;
        while let Some(chunk) = receive.read_chunk(usize::MAX).await.unwrap() {
            for byte in &chunk {
                assert_eq!(*byte, read.to_be_bytes()[6] ^ read.to_be_bytes()[7]);
                read += 1;
            }
        }
        read
    });

    until_active(&connection, &["mwhere1"]).await;
    // A second network appears.
    there.lay_cable(2);
    until_active(&connection, &["mwhere1", "mwhere2"]).await;
    // The first disappears with its socket …
    ip("link delete dev mwhere1");
    until_active(&connection, &["mwhere2"]).await;
    // … and returns as another interface of the same name and address.
    there.lay_cable(1);
    until_active(&connection, &["mwhere1", "mwhere2"]).await;
    // Set down, it stays, but carries nothing.
    ip("link set dev mwhere2 down");
    until_active(&connection, &["mwhere1"]).await;
    ip("link set dev mwhere2 up");
    until_active(&connection, &["mwhere1", "mwhere2"]).await;

    enough.store(true, Ordering::Relaxed);
    let Ok((written, read)) = tokio::time::timeout(LONG, async { tokio::join!(writer, reader) }).await else {
        panic!("it stands still: {:#?}\n{:#?}", connection.info().await, accepted.info().await)
    };
    assert_eq!(written.unwrap(), read.unwrap());
    let close = async {
        connection.close(0, "").await;
        client.close(0, "").await;
        server.close(0, "").await;
    };
    tokio::time::timeout(LONG, close).await.expect("closing ends");
}
