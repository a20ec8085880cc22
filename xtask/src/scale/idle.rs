//! Resident memory of a server process for idle connections over the loopback interface.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use manyway::{
    Connection, ConnectionConfig, Endpoint, EndpointOptions, HostPort, Identity, LocalAddress, Locals, Role,
    ServerOptions, Ticket,
};

use crate::output::print;

/// The argument of the process that serves.
pub(super) const SERVE: &str = "--serve";
/// Parallel handshakes.
const SET_UPS: usize = 32;
/// Time from the last handshake until memory is read: connections free memory after a second.
const REST: Duration = Duration::from_secs(4);

/// Prints a table: kilobytes of the server process for each connection.
pub(super) fn measure(counts: &[usize]) -> Result<(), String> {
    print("connections  server, resident  for each connection")?;
    for count in counts {
        let (before, after) = rss_of_server(*count)?;
        let each = after.saturating_sub(before) / (*count as u64).max(1);
        print(&format!("{count:>11}  {:>12} KiB  {:>13} bytes", after >> 10, each))?;
    }
    Ok(())
}

/// Memory with one connection, as a base, and with this many.
fn rss_of_server(count: usize) -> Result<(u64, u64), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut child = Command::new(program)
        .args(["scale", SERVE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let result = (|| {
        let mut orders = child.stdin.take().ok_or("the server takes no orders")?;
        let mut answers = BufReader::new(child.stdout.take().ok_or("the server gives no answers")?).lines();
        let mut answer = || answers.next().ok_or("the server ended")?.map_err(|error| error.to_string());
        let address = answer()?;
        let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
        runtime.block_on(async {
            let mut read = async || {
                tokio::time::sleep(REST).await;
                writeln!(orders, "read").map_err(|error| error.to_string())?;
                number(&answer()?)
            };
            let first = connect(&address, 1).await?;
            let before = read().await?;
            let held = connect(&address, count).await?;
            let after = read().await?;
            drop((first, held));
            Ok((before, after))
        })
    })();
    let _ = child.kill();
    let _ = child.wait();
    result
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("the server answers {text:?}"))
}

async fn connect(address: &str, count: usize) -> Result<(Endpoint, Vec<Connection>), String> {
    let mut options = EndpointOptions::default();
    options.connection = settings();
    let local = LocalAddress { interface: 0, address: ([127, 0, 0, 1], 0).into() };
    options.locals = Locals::Fixed(vec![(local, Role::Primary)]);
    let client = Endpoint::bind(options).map_err(|error| error.to_string())?;
    let host: HostPort = address.parse().map_err(|_| format!("the server answers {address:?}"))?;
    let ticket =
        Ticket::new(identity().public_key().hash(), SECRET, vec![host]).map_err(|error| error.to_string())?;
    let mut connections = Vec::with_capacity(count);
    while connections.len() < count {
        let more = (connections.len()..count).take(SET_UPS).map(|_| client.connect(&ticket));
        let mut waiting: Vec<_> = more.map(Box::pin).collect();
        let all = std::future::poll_fn(|context| {
            waiting.retain_mut(|attempt| match attempt.as_mut().poll(context) {
                std::task::Poll::Ready(connection) => {
                    connections.push(connection);
                    false
                }
                std::task::Poll::Pending => true,
            });
            if waiting.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        });
        all.await;
    }
    let connections: Result<Vec<_>, _> = connections.into_iter().collect();
    Ok((client, connections.map_err(|error| error.to_string())?))
}

/// Serves until it is killed: prints its address, then its memory for each line that it reads.
pub(super) fn serve() -> Result<(), String> {
    let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
    let mut server = ServerOptions::new(identity(), &SECRET);
    server.listen = vec![([127, 0, 0, 1], 0).into()];
    let mut options = EndpointOptions::default();
    options.connection = settings();
    options.server = Some(server);
    let endpoint = Endpoint::bind(options).map_err(|error| error.to_string())?;
    let address = endpoint.local_addresses().first().ok_or("no address")?.address;
    print(&address.to_string())?;
    runtime.spawn(async move {
        let mut held = Vec::new();
        while let Some(connection) = endpoint.accept().await {
            held.push(connection);
        }
    });
    for _ in std::io::stdin().lines() {
        print(&resident()?.to_string())?;
    }
    Ok(())
}

fn settings() -> ConnectionConfig {
    let mut settings = ConnectionConfig::default();
    settings.idle_timeout = Duration::from_secs(3600);
    settings
}

fn identity() -> Identity {
    Identity::from_seed(&[7; 32])
}

const SECRET: [u8; 16] = [9; 16];

/// Resident bytes of this process.
fn resident() -> Result<u64, String> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(number(line.trim().trim_end_matches(" kB"))? * 1024)
}
