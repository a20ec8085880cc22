//! Interfaces of the loopback network, and a run of a download.

mod server;

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use manyway_fetch::{
    Destination, Event, FetchError, Fetched, Figures, Interface, Network, Plan, Present, RootCertStore,
    Sha256, WebAddress, client_config, fetch,
};
use tempfile::TempDir;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Notify;

pub(crate) use server::{Act, Ask, Site};

pub(crate) const MB: usize = 1_000_000;

/// Interfaces `iN` with the address 127.0.0.N.
#[derive(Debug, Default)]
pub(crate) struct Loopback {
    interfaces: Mutex<Vec<Interface>>,
    changed: Notify,
}

impl Loopback {
    pub(crate) fn set(&self, numbers: &[u8]) {
        *self.interfaces.lock().unwrap() = numbers.iter().map(|number| interface(*number)).collect();
        self.changed.notify_one();
    }

    pub(crate) fn make_backup(&self, number: u8) {
        self.interfaces
            .lock()
            .unwrap()
            .iter_mut()
            .for_each(|it| it.is_backup |= it.name == format!("i{number}"));
    }
}

fn interface(number: u8) -> Interface {
    let v4 = IpAddr::from([127, 0, 0, number]);
    Interface { name: format!("i{number}"), addresses: vec![v4, "::1".parse().unwrap()], is_backup: false }
}

impl Network for Loopback {
    fn interfaces(&self, _: &[SocketAddr]) -> Vec<Interface> {
        self.interfaces.lock().unwrap().clone()
    }

    fn explain(&self, _: &[SocketAddr]) -> String {
        String::new()
    }

    async fn changed(&self) {
        self.changed.notified().await;
    }

    async fn connect(&self, _: &str, local: IpAddr, remote: SocketAddr) -> io::Result<TcpStream> {
        let socket = if remote.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.bind(SocketAddr::new(local, 0))?;
        socket.connect(remote).await
    }
}

/// A directory, and what a download into it does.
pub(crate) struct Client {
    pub(crate) network: Arc<Loopback>,
    pub(crate) plan: Plan,
    directory: TempDir,
    seen: Arc<Mutex<Seen>>,
}

/// What the caller was told.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) said: Vec<String>,
    pub(crate) advanced: u64,
    pub(crate) resumed: u64,
    pub(crate) found: Vec<(String, Option<u64>)>,
}

impl Client {
    /// With these interfaces.
    pub(crate) fn new(address: &str, interfaces: &[u8]) -> Self {
        let (network, directory) = (Arc::new(Loopback::default()), TempDir::new().unwrap());
        network.set(interfaces);
        let plan = Plan {
            address: WebAddress::parse(address).unwrap(),
            destination: Destination::Directory(directory.path().to_owned()),
            present: Present::Replace,
            sum: None,
            patience: Duration::from_secs(1),
            limit: None,
            tls: client_config(RootCertStore::empty()).unwrap(),
            figures: Figures::default(),
        };
        Self { network, plan, directory, seen: Arc::default() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The names in the directory, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub(crate) fn wants_sum(&mut self, sum: &str) {
        self.plan.sum = Some(Sha256::parse(sum).unwrap());
    }

    /// Runs to the end.
    pub(crate) async fn run(&self) -> Result<Fetched, FetchError> {
        self.run_until(std::future::pending()).await
    }

    /// Runs until it is stopped.
    pub(crate) async fn run_until(&self, stop: impl Future<Output = ()>) -> Result<Fetched, FetchError> {
        let seen = Arc::clone(&self.seen);
        let observer: manyway_fetch::Observer = Arc::new(move |event: Event<'_>| {
            let mut seen = seen.lock().unwrap();
            match event {
                Event::Found { name, length } => seen.found.push((name.to_owned(), length)),
                Event::Resumed { bytes } => seen.resumed += bytes,
                Event::Advanced { bytes } => seen.advanced += bytes,
                Event::Said { text } | Event::Interface { text } => seen.said.push(text.to_owned()),
                _ => {}
            }
        });
        let running = fetch(&self.plan, &self.network, &observer, stop);
        tokio::time::timeout(Duration::from_secs(60), running).await.unwrap()
    }

    pub(crate) fn seen(&self) -> Seen {
        self.seen.lock().unwrap().clone()
    }

    /// Waits until so many bytes have arrived.
    pub(crate) async fn until(&self, bytes: usize) {
        while self.seen().advanced < u64::try_from(bytes).unwrap() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Whether a message with that text came exactly once.
    #[track_caller]
    pub(crate) fn said_once(&self, part: &str) {
        let said = self.seen().said;
        assert_eq!(said.iter().filter(|text| text.contains(part)).count(), 1, "{part:?} in {said:#?}");
    }

    /// Bytes received over an interface.
    pub(crate) fn received(&self, interface: &str) -> u64 {
        let figures = self.plan.figures.read();
        figures.iter().find(|own| own.name == interface).map_or(0, |own| own.received)
    }
}

/// Compares without printing megabytes.
#[track_caller]
pub(crate) fn assert_content(path: &Path, content: &[u8]) {
    let found = std::fs::read(path).unwrap();
    assert_eq!(found.len(), content.len());
    let difference = found.iter().zip(content).position(|(a, b)| a != b);
    assert_eq!(difference, None, "the first difference");
}

/// Bytes of which no two MiB are alike.
pub(crate) fn bytes(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u8::try_from(state >> 56).unwrap()
    };
    (0..length).map(|_| next()).collect()
}
