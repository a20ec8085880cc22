//! Echoes what it receives, over every network that leads there, and prints the events of the paths.
//!
//! ```text
//! cargo run --example echo -- serve [ADDR:PORT]    # prints a ticket; default 0.0.0.0:4455
//! cargo run --example echo -- call TICKET [TEXT …] # default text: "hello over all networks"
//! ```
//!
//! Pull a cable while it runs: the events show how the connection goes on over the remaining paths.

use std::error::Error;
use std::net::SocketAddr;

use manyway::interfaces::InterfaceWatcher;
use manyway::{
    Connection, Endpoint, EndpointOptions, Event, HostPort, Identity, ReceiveStream, SendStream,
    ServerOptions, Ticket, reachable_addresses,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["serve"] => serve("0.0.0.0:4455".parse()?).await,
        ["serve", address] => serve(address.parse()?).await,
        ["call", ticket] => call(&ticket.parse()?, "hello over all networks").await,
        ["call", ticket, text @ ..] => call(&ticket.parse()?, &text.join(" ")).await,
        _ => Err("usage: echo serve [ADDR:PORT] | echo call TICKET [TEXT …]".into()),
    }
}

async fn serve(address: SocketAddr) -> Result<(), Failure> {
    // A real program keeps both, so that its tickets outlive a restart.
    let identity = Identity::generate()?;
    let secret = Ticket::generate_secret()?;
    let mut server = ServerOptions::new(identity.clone(), &secret);
    server.listen = vec![address];
    let mut options = EndpointOptions::default();
    options.server = Some(server);
    let endpoint = Endpoint::bind(options)?;

    let watcher = InterfaceWatcher::new()?;
    let addresses = reachable_addresses(endpoint.local_addresses(), watcher.snapshot());
    let hosts = addresses.into_iter().take(Ticket::MAX_HOSTS).map(HostPort::from).collect();
    say(&Ticket::new(identity.public_key().hash(), secret, hosts)?.to_string());

    while let Some(connection) = endpoint.accept().await {
        tokio::spawn(tell_events(connection.clone()));
        tokio::spawn(async move {
            // Each stream has a task of its own, so that a slow one does not hold up the others.
            while let Ok((send, receive)) = connection.accept().await {
                tokio::spawn(echo(send, receive));
            }
        });
    }
    Ok(())
}

async fn echo(mut send: SendStream, mut receive: ReceiveStream) -> Result<(), Failure> {
    while let Some(chunk) = receive.read_chunk(64 * 1024).await? {
        send.write_chunk(chunk).await?;
    }
    send.finish()?;
    Ok(())
}

async fn call(ticket: &Ticket, text: &str) -> Result<(), Failure> {
    let endpoint = Endpoint::bind(EndpointOptions::default())?;
    let connection = endpoint.connect(ticket).await?;
    let events = tokio::spawn(tell_events(connection.clone()));

    let (mut send, mut receive) = connection.open().await?;
    send.write_all(text.as_bytes()).await?;
    send.finish()?;
    let mut answer = String::new();
    receive.read_to_string(&mut answer).await?;
    say(&answer);

    for path in connection.info().await?.paths {
        let (name, figures) = (path.interface.unwrap_or_default(), path.statistics);
        note(&format!(
            "path {} {name} {}: {}, round trip {:?}",
            figures.id.0, figures.tuple, figures.state, figures.smoothed_rtt
        ));
    }
    connection.close(0, "done").await;
    endpoint.close(0, "done").await;
    events.await?;
    Ok(())
}

/// Prints the events of a connection until it ends.
async fn tell_events(connection: Connection) {
    let mut events = connection.events();
    // A listener that lags behind goes on with the events that are left.
    loop {
        match events.recv().await {
            Ok(Event::Path(path)) => {
                note(&format!("path {} {}: {} ({})", path.path.0, path.tuple, path.state, path.reason));
            }
            Ok(Event::Closed(reason)) => return note(&format!("the end: {reason}")),
            Ok(_) | Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {}
            Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
        }
    }
}

#[expect(clippy::print_stdout, reason = "what the user asked for")]
fn say(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "what the user may want to know")]
fn note(text: &str) {
    eprintln!("{text}");
}
