//! Copies standard input here to standard output there, over every network between the two.
//!
//! ```text
//! cargo run --release --example copy -- take [ADDR:PORT] > file  # prints a ticket to standard error
//! cargo run --release --example copy -- give TICKET < file
//! ```
//!
//! The sender exits with success only when the receiver has every byte. The receiver does so when it has seen the end
//! of the stream, not just a lost connection.

use std::error::Error;
use std::net::SocketAddr;

use manyway::interfaces::InterfaceWatcher;
use manyway::{
    ClosedBy, ConnectionError, Endpoint, EndpointOptions, HostPort, Identity, ServerOptions, Ticket,
    reachable_addresses,
};
use tokio::io::AsyncWriteExt;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["take"] => take("0.0.0.0:4455".parse()?).await,
        ["take", address] => take(address.parse()?).await,
        ["give", ticket] => give(&ticket.parse()?).await,
        _ => Err("usage: copy take [ADDR:PORT] > FILE | copy give TICKET < FILE".into()),
    }
}

async fn take(address: SocketAddr) -> Result<(), Box<dyn Error>> {
    let (identity, secret) = (Identity::generate()?, Ticket::generate_secret()?);
    let mut server = ServerOptions::new(identity.clone(), &secret);
    server.listen = vec![address];
    let mut options = EndpointOptions::default();
    options.server = Some(server);
    let endpoint = Endpoint::bind(options)?;
    let watcher = InterfaceWatcher::new()?;
    let addresses = reachable_addresses(endpoint.local_addresses(), watcher.snapshot());
    let hosts = addresses.into_iter().take(Ticket::MAX_HOSTS).map(HostPort::from).collect();
    note(&Ticket::new(identity.public_key().hash(), secret, hosts)?.to_string());

    let connection = endpoint.accept().await.ok_or("the endpoint ended")?;
    let (_, mut receive) = connection.accept().await?;
    let copied = tokio::io::copy(&mut receive, &mut tokio::io::stdout()).await?;
    tokio::io::stdout().flush().await?;
    // The sender closes once everything has been delivered.
    let end = connection.closed().await;
    if !matches!(end, ConnectionError::Closed { by: ClosedBy::Peer, code: 0, .. }) {
        return Err(end.into());
    }
    note(&format!("{copied} bytes"));
    endpoint.close(0, "").await;
    Ok(())
}

async fn give(ticket: &Ticket) -> Result<(), Box<dyn Error>> {
    let endpoint = Endpoint::bind(EndpointOptions::default())?;
    let connection = endpoint.connect(ticket).await?;
    let (mut send, _receive) = connection.open().await?;
    let copied = tokio::io::copy(&mut tokio::io::stdin(), &mut send).await?;
    send.finish()?;
    send.delivered().await?;
    for path in connection.info().await?.paths {
        let figures = path.statistics;
        note(&format!("{} carried {} bytes", figures.tuple, figures.bytes_sent.get()));
    }
    connection.close(0, "").await;
    endpoint.close(0, "").await;
    note(&format!("{copied} bytes"));
    Ok(())
}

#[expect(clippy::print_stderr, reason = "standard output is for the bytes")]
fn note(text: &str) {
    eprintln!("{text}");
}
