//! Cases from the field: systems that refuse, before and during a transfer.

use std::os::fd::{BorrowedFd, RawFd};
use std::process::Command;
use std::time::{Duration, Instant};

use bytes::Bytes;
use manyway_proto::LocalAddress;
use nix::sys::socket::{SockaddrIn, getsockname, setsockopt};
use nix::{libc, setsockopt_impl, sockopt_impl};

use super::tests_in_namespace::{There, until_active};
use crate::test_namespace::{in_namespace, ip};
use crate::test_seccomp::refuse_socket_option;
use crate::udp::BufferSizes;
use crate::{
    Advice, CarrierChoice, Connection, ConnectionConfig, Endpoint, EndpointOptions, Event, HostPort,
    Identity, Locals, PathReason, PathState, Role, ServerOptions, Ticket, Unused, Why,
};

const SECRET: [u8; 16] = [2; 16];

fn identity() -> Identity {
    Identity::from_seed(&[1; 32])
}

fn server_options() -> EndpointOptions {
    EndpointOptions { server: Some(ServerOptions::new(identity(), &SECRET)), ..EndpointOptions::default() }
}

fn ticket(hosts: &[&str]) -> Ticket {
    let hosts = hosts.iter().map(|host| host.parse::<HostPort>().unwrap()).collect();
    Ticket::new(identity().public_key().hash(), SECRET, hosts).unwrap()
}

/// Options of a client that uses every path for all data, and UDP alone.
fn client_options() -> EndpointOptions {
    let mut connection = ConnectionConfig::default();
    connection.set_scheduler("round-robin").unwrap();
    let mut options = EndpointOptions { connection, ..EndpointOptions::default() };
    options.carriers.choice = CarrierChoice::Udp;
    options
}

fn here(test: &str) -> String {
    format!("driver::field_tests::{test}")
}

/// Runs a test in a thread of its own, so that the seccomp filter of that thread affects no other test.
fn in_own_thread(test: impl Future<Output = ()> + Send + 'static) {
    let run = || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        runtime.unwrap().block_on(test);
    };
    std::thread::spawn(run).join().unwrap();
}

async fn connect(client: &Endpoint, server: &Endpoint, ticket: &Ticket) -> (Connection, Connection) {
    let connect = async { client.connect(ticket).await.unwrap() };
    let accept = async { server.accept().await.unwrap() };
    tokio::join!(connect, accept)
}

/// Sends until it is dropped; the receiver checks every byte.
struct Traffic {
    tasks: [tokio::task::JoinHandle<()>; 2],
    read: std::sync::Arc<std::sync::atomic::AtomicU64>,
}

impl Traffic {
    async fn start(from: &Connection, to: &Connection) -> Self {
        static CHUNK: [u8; 50_000] = [0x5a; 50_000];
        let (mut send, _) = from.open().await.unwrap();
        send.write_chunk(Bytes::from_static(&CHUNK)).await.unwrap();
        let (_, mut receive) = to.accept().await.unwrap();
        let read = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
        let count = std::sync::Arc::clone(&read);
        let writer =
            tokio::spawn(async move { while send.write_chunk(Bytes::from_static(&CHUNK)).await.is_ok() {} });
        let reader = tokio::spawn(async move {
            while let Ok(Some(chunk)) = receive.read_chunk(usize::MAX).await {
                assert!(chunk.iter().all(|byte| *byte == 0x5a));
                count.fetch_add(chunk.len() as u64, std::sync::atomic::Ordering::Relaxed);
            }
        });
        Self { tasks: [writer, reader], read }
    }

    /// Waits until this many more bytes have arrived.
    async fn until_more(&self, bytes: u64) {
        let wanted = self.read.load(std::sync::atomic::Ordering::Relaxed) + bytes;
        let start = Instant::now();
        while self.read.load(std::sync::atomic::Ordering::Relaxed) < wanted {
            assert!(start.elapsed() < Duration::from_secs(20), "the transfer stands still");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

#[test]
fn a_receive_buffer_that_the_system_limits_is_told_once_with_the_command_that_changes_it() {
    in_own_thread(async {
        // Only root gets more than the limit, and from now on not even root does.
        refuse_socket_option(libc::SO_RCVBUFFORCE);
        refuse_socket_option(libc::SO_SNDBUFFORCE);
        let text = std::fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap();
        let limit: usize = text.trim().parse().unwrap();
        let mut options = server_options();
        options.buffers = BufferSizes { receive: limit + 65_536, send: 4096 };
        if let Some(server) = &mut options.server {
            server.listen = vec!["127.0.0.1:0".parse().unwrap(), "127.0.0.2:0".parse().unwrap()];
        }
        let server = Endpoint::bind(options).unwrap();
        assert_eq!(server.advice(), [Advice::ReceiveBuffer { wanted: limit + 65_536, granted: limit }]);
        let text = server.advice()[0].to_string();
        assert!(text.ends_with(&format!("\n  sysctl -w net.core.rmem_max={}", limit + 65_536)), "{text}");

        let mut options = server_options();
        options.buffers = BufferSizes { receive: limit, send: 4096 };
        if let Some(server) = &mut options.server {
            server.listen = vec!["127.0.0.1:0".parse().unwrap()];
        }
        assert_eq!(Endpoint::bind(options).unwrap().advice(), []);
    });
}

sockopt_impl!(
    /// Disables checksums, with which the kernel refuses batches: EINVAL.
    NoChecksum,
    SetOnly,
    libc::SOL_SOCKET,
    libc::SO_NO_CHECK,
    bool
);

/// The socket of this process that is bound to the address.
fn socket_at(local: LocalAddress) -> BorrowedFd<'static> {
    let numbers = std::fs::read_dir("/proc/self/fd").unwrap();
    let numbers: Vec<RawFd> =
        numbers.map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect();
    let is_it = |fd: &RawFd| {
        let address = getsockname::<SockaddrIn>(*fd);
        address.is_ok_and(|address| {
            std::net::SocketAddr::from(std::net::SocketAddrV4::from(address)) == local.address
        })
    };
    let fd = numbers.into_iter().find(is_it).unwrap();
    // SAFETY: the socket belongs to an endpoint that the test keeps until its end.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

#[test]
fn a_system_that_begins_to_refuse_batches_gets_single_datagrams_and_none_is_lost() {
    in_own_thread(async {
        let mut options = server_options();
        if let Some(server) = &mut options.server {
            server.listen = vec!["127.0.0.1:0".parse().unwrap()];
        }
        let server = Endpoint::bind(options).unwrap();
        let mut options = EndpointOptions::default();
        let local = LocalAddress { interface: 0, address: "127.0.0.1:0".parse().unwrap() };
        options.locals = Locals::Fixed(vec![(local, Role::Primary)]);
        let client = Endpoint::bind(options).unwrap();
        let ticket = ticket(&[&server.local_addresses()[0].address.to_string()]);
        let (connected, accepted) = connect(&client, &server, &ticket).await;
        let traffic = Traffic::start(&connected, &accepted).await;
        traffic.until_more(3_000_000).await;
        let before = connected.info().await.unwrap().paths[0].statistics;
        let dropped_before = dropped_at(before.tuple.remote.port());
        setsockopt(&socket_at(before.tuple.local), NoChecksum, &true).unwrap();
        traffic.until_more(10_000_000).await;
        let after = connected.info().await.unwrap().paths[0].statistics;
        assert_eq!(after.state, PathState::Active);
        // The receiver's queue may overflow for a while, which is no failure here; a refused batch has dozens of
        // datagrams.
        let lost = after.packets_lost - before.packets_lost;
        let dropped = dropped_at(before.tuple.remote.port()) - dropped_before;
        let sent = after.packets_sent - before.packets_sent;
        assert!(lost < dropped + 10, "{lost} of {sent}, {dropped} of them by the receiver");
    });
}

/// Number of datagrams that the system dropped because the queue of the socket at this port was full.
fn dropped_at(port: u16) -> u64 {
    let table = std::fs::read_to_string("/proc/self/net/udp").unwrap();
    let port = format!(":{port:04X}");
    let is_local = |line: &&str| line.split_whitespace().nth(1).is_some_and(|local| local.ends_with(&port));
    table.lines().find(is_local).unwrap().split_whitespace().next_back().unwrap().parse().unwrap()
}

/// Where sockets cannot be bound to interfaces, only routes by source address lead packets through all networks. The
/// advice holds exactly these commands, and they work.
#[test]
fn sockets_that_may_not_be_tied_use_every_network_once_the_advice_is_followed() {
    in_namespace(&here("sockets_that_may_not_be_tied_use_every_network_once_the_advice_is_followed"), || {
        let test = async {
            let there = two_networks_to_one_address();
            let server = there.run(|| Endpoint::bind(server_options())).unwrap();
            refuse_socket_option(libc::SO_BINDTODEVICE);
            let client = Endpoint::bind(client_options()).unwrap();
            let (connected, accepted) = connect(&client, &server, &ticket(&["10.9.9.9"])).await;
            let traffic = Traffic::start(&connected, &accepted).await;
            until_active(&connected, &["mwhere1"]).await;
            traffic.until_more(1_000_000).await;
            let advice = client.advice();
            let commands: Vec<String> = advice.iter().flat_map(Advice::commands).collect();
            assert_eq!((advice.len(), commands.len()), (2, 4), "{advice:?}");
            assert!(commands[0].contains("default via 10.98.1.2 dev mwhere1 table"), "{commands:?}");
            commands.iter().for_each(|command| ip(command.strip_prefix("ip ").unwrap()));
            until_active(&connected, &["mwhere1", "mwhere2"]).await;
            until_each_carries(&connected, 1_000_000).await;
        };
        in_own_thread(test);
    });
}

/// A firewall of this host blocks a path: it is reported dead with that reason, is probed now and then, and returns.
#[test]
fn a_path_that_the_own_firewall_forbids_is_told_so_and_does_not_spin() {
    in_namespace(&here("a_path_that_the_own_firewall_forbids_is_told_so_and_does_not_spin"), || {
        let test = async {
            let there = two_networks_to_one_address();
            let server = there.run(|| Endpoint::bind(server_options())).unwrap();
            let client = Endpoint::bind(client_options()).unwrap();
            let (connected, accepted) = connect(&client, &server, &ticket(&["10.9.9.9"])).await;
            let traffic = Traffic::start(&connected, &accepted).await;
            until_active(&connected, &["mwhere1", "mwhere2"]).await;
            let mut events = connected.events();
            nft("add table inet w; add chain inet w o { type filter hook output priority 0; }; \
                 add rule inet w o oifname mwhere1 udp dport 4455 counter drop");
            let event = loop {
                let event = tokio::time::timeout(Duration::from_secs(5), events.recv()).await;
                // A probe may be found unanswered before the system has refused often enough.
                if let Event::Path(event) = event.unwrap().unwrap()
                    && (event.state, event.reason) == (PathState::Dead, PathReason::SendDenied)
                {
                    break event;
                }
            };
            let report = connected.report().await.unwrap();
            let row = report.iter().find(|row| row.path.is_some_and(|path| path.id == event.path));
            assert_eq!(row.unwrap().why, Why::Unused(Unused::Denied));
            let before = denied();
            tokio::time::sleep(Duration::from_secs(1)).await;
            let more = denied() - before;
            assert!(more < 50, "{more} datagrams in a second");
            traffic.until_more(1_000_000).await;
            until_active(&connected, &["mwhere2"]).await;
            nft("flush ruleset");
            until_active(&connected, &["mwhere1", "mwhere2"]).await;
        };
        in_own_thread(test);
    });
}

/// A host rejects packets from one network with ICMP. The sender suspects that path at once for this reason, and the
/// other path, which at a server uses the same socket, goes on.
#[test]
fn a_path_that_is_called_unreachable_is_suspected_and_the_others_are_left_alone() {
    let name = "a_path_that_is_called_unreachable_is_suspected_and_the_others_are_left_alone";
    in_namespace(&here(name), || {
        in_own_thread(async {
            let there = two_networks_to_one_address();
            let mut options = server_options();
            options.connection.set_scheduler("round-robin").unwrap();
            // With one address of one network, the host's answers for the other network would have a source that is
            // dropped.
            options.server.as_mut().unwrap().listen = vec!["10.9.9.9:4455".parse().unwrap()];
            let server = there.run(|| Endpoint::bind(options)).unwrap();
            let client = Endpoint::bind(client_options()).unwrap();
            let (connected, accepted) = connect(&client, &server, &ticket(&["10.9.9.9"])).await;
            until_active(&connected, &["mwhere1", "mwhere2"]).await;
            let upward = Traffic::start(&connected, &accepted).await;
            upward.until_more(2_000_000).await;
            let refuse = "add table inet r; add chain inet r i { type filter hook input priority 0; }; \
                          add rule inet r i iifname IF udp PORT 4455 reject with icmpx type host-unreachable";
            let here = refuse.replace("IF", "mwhere1").replace("PORT", "sport");
            let there_too = refuse.replace("IF", "mwthere1").replace("PORT", "dport");

            let suspected = suspected_by_words(&connected, |is_laid| {
                let script = if is_laid { there_too.clone() } else { REMOVE.into() };
                there.run(move || nft(&script));
            });
            let suspected = suspected.await;
            assert_eq!(suspected.tuple.local.address.ip().to_string(), "10.98.1.1");
            until_active(&connected, &["mwhere2"]).await;
            upward.until_more(2_000_000).await;
            there.run(|| nft(REMOVE));
            until_active(&connected, &["mwhere1", "mwhere2"]).await;
            drop(upward);

            let downward = Traffic::start(&accepted, &connected).await;
            downward.until_more(2_000_000).await;
            let suspected = suspected_by_words(&accepted, |is_laid| {
                nft(if is_laid { &here } else { REMOVE });
            });
            let suspected = suspected.await;
            assert_eq!(suspected.tuple.remote.ip().to_string(), "10.98.1.1");
            downward.until_more(2_000_000).await;
            let paths = accepted.info().await.unwrap().paths.into_iter().map(|path| path.statistics);
            let other = paths.into_iter().find(|path| path.id != suspected.path).unwrap();
            assert_eq!(other.state, PathState::Active);
        });
    });
}

const REMOVE: &str = "delete table inet r";

/// Installs the rule that rejects one path, and waits until the sender suspects that path because of the ICMP error. On
/// a busy machine a path may be suspected for silence first; then the rule is tried again.
async fn suspected_by_words(sender: &Connection, rule: impl Fn(bool)) -> crate::PathEvent {
    for _ in 0..4 {
        until_all_active(sender).await;
        let mut events = sender.events();
        rule(true);
        let suspected = first_change(&mut events).await;
        assert_eq!(suspected.state, PathState::Suspect);
        if suspected.reason == PathReason::Unreachable {
            return suspected;
        }
        rule(false);
    }
    panic!("something else raises suspicion each time");
}

async fn until_all_active(connection: &Connection) {
    let start = Instant::now();
    loop {
        let info = connection.info().await.unwrap();
        if info.paths.iter().all(|path| path.statistics.state == PathState::Active) {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(8), "{info:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The next state change of a path that is no mere attempt.
async fn first_change(events: &mut tokio::sync::broadcast::Receiver<Event>) -> crate::PathEvent {
    loop {
        let event = tokio::time::timeout(Duration::from_secs(5), events.recv()).await;
        if let Event::Path(event) = event.unwrap().unwrap()
            && event.state != PathState::Validating
        {
            return event;
        }
    }
}

/// A NAT that forgets a flow after a second of silence. The client's next packet opens it again, from another port on
/// the same path; a keep-alive holds it open, so that the server can send first.
#[test]
fn a_translator_that_forgets_an_idle_connection_ends_nothing_and_a_keep_alive_holds_it_open() {
    in_namespace(
        &here("a_translator_that_forgets_an_idle_connection_ends_nothing_and_a_keep_alive_holds_it_open"),
        || {
            in_own_thread(async {
                let (_router, there) = behind_a_translator();
                let server = there.run(|| Endpoint::bind(server_options())).unwrap();
                let ticket = ticket(&["10.97.0.2"]);
                let mut options = EndpointOptions::default();
                let quiet = Endpoint::bind(options.clone()).unwrap();
                options.connection.keep_alive = Some(Duration::from_millis(300));
                let kept = Endpoint::bind(options).unwrap();
                let (quiet, at_quiet) = connect(&quiet, &server, &ticket).await;
                let (kept, at_kept) = connect(&kept, &server, &ticket).await;
                let before = at_quiet.info().await.unwrap().paths[0].statistics.tuple.remote;
                tokio::time::sleep(Duration::from_millis(3500)).await;
                let soon = Duration::from_secs(2);
                tokio::time::timeout(soon, say(&at_kept, &kept)).await.expect("held open");
                tokio::time::timeout(soon, say(&quiet, &at_quiet)).await.expect("opened again");
                tokio::time::timeout(soon, say(&at_quiet, &quiet)).await.expect("answered");
                let after = at_quiet.info().await.unwrap();
                assert_eq!(after.paths.len(), 1);
                assert_ne!(after.paths[0].statistics.tuple.remote, before, "the translator forgot nothing");
            });
        },
    );
}

/// Sends a short text over a new stream and waits until it has arrived.
async fn say(from: &Connection, to: &Connection) {
    let (mut send, _receive) = from.open().await.unwrap();
    send.write_chunk(Bytes::from_static(b"word")).await.unwrap();
    send.finish().unwrap();
    let (_send, mut receive) = to.accept().await.unwrap();
    assert_eq!(receive.read_chunk(10).await.unwrap().unwrap(), "word");
}

/// A NAT, and a host at 10.97.0.2 behind it.
fn behind_a_translator() -> (There, There) {
    let (router, there) = (There::new(), There::new());
    router.lay_cable(1);
    let thread = there.thread.clone();
    router.run(move || {
        ip(&format!("link add mwout type veth peer name mwin netns {thread}"));
        ip("address add 10.97.0.1/24 dev mwout");
        ip("link set dev mwout up");
        nft("add table ip n; add chain ip n o { type nat hook postrouting priority 100; }; \
             add rule ip n o oifname mwout masquerade fully-random");
        let set = |name: &str, value| std::fs::write(format!("/proc/sys/net/{name}"), value).unwrap();
        set("ipv4/ip_forward", "1");
        set("netfilter/nf_conntrack_udp_timeout", "1");
        set("netfilter/nf_conntrack_udp_timeout_stream", "1");
    });
    there.run(|| {
        ip("address add 10.97.0.2/24 dev mwin");
        ip("link set dev mwin up");
    });
    ip("route add default via 10.98.1.2");
    (router, there)
}

/// Two links to a host with one address on both, which accepts from each only packets with the right source.
fn two_networks_to_one_address() -> There {
    let there = There::new();
    there.lay_cable(1);
    there.lay_cable(2);
    ip("route add default via 10.98.1.2 metric 10");
    ip("route add default via 10.98.2.2 metric 20");
    there.run(|| {
        ip("link set lo up");
        ip("address add 10.9.9.9/32 dev lo");
        nft("add table inet w; add chain inet w i { type filter hook input priority 0; }; \
             add rule inet w i iifname mwthere1 ip saddr != 10.98.1.0/24 drop; \
             add rule inet w i iifname mwthere2 ip saddr != 10.98.2.0/24 drop");
    });
    there
}

async fn until_each_carries(connection: &Connection, bytes: u64) {
    let start = Instant::now();
    loop {
        let paths = connection.info().await.unwrap().paths;
        if paths.iter().all(|path| path.statistics.bytes_sent.get() > bytes) {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(10), "{paths:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn nft(script: &str) -> String {
    let output = Command::new("nft").arg(script).output().unwrap();
    assert!(output.status.success(), "nft {script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Number of datagrams that the rule has dropped so far.
fn denied() -> u64 {
    let rules = nft("list ruleset");
    let words: Vec<_> = rules.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "packets").unwrap();
    words[at + 1].parse().unwrap()
}
