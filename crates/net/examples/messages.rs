//! Sends positions to a server, over every network that leads there. Each position is of use for a moment only, so a
//! lost or late one is not worth a wait. Commands travel beside them, ordered and reliable.
//!
//! ```text
//! cargo run --example messages -- serve [ADDR:PORT]   # prints a ticket; default 0.0.0.0:4455
//! cargo run --example messages -- tell TICKET [COUNT] # default 50 positions, one each 20 ms
//! ```

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use manyway::interfaces::InterfaceWatcher;
use manyway::{
    Class, Connection, Endpoint, EndpointOptions, HostPort, Identity, MessageOptions, Order, ServerOptions,
    Ticket, reachable_addresses,
};

type Failure = Box<dyn Error + Send + Sync>;

/// Payload protocols of this program.
const POSITION: u32 = 1;
const COMMAND: u32 = 2;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["serve"] => serve("0.0.0.0:4455".parse()?).await,
        ["serve", address] => serve(address.parse()?).await,
        ["tell", ticket] => tell(&ticket.parse()?, 50).await,
        ["tell", ticket, count] => tell(&ticket.parse()?, count.parse()?).await,
        _ => Err("usage: messages serve [ADDR:PORT] | messages tell TICKET [COUNT]".into()),
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
        tokio::spawn(listen(connection));
    }
    Ok(())
}

/// Counts positions and executes commands.
async fn listen(connection: Connection) -> Result<(), Failure> {
    let (_send, mut receive) = connection.accept().await?;
    let (mut positions, mut newest) = (0_u32, String::new());
    while let Some(message) = receive.receive_message().await? {
        let text = String::from_utf8_lossy(&message.data).into_owned();
        match message.protocol {
            POSITION => {
                positions += 1;
                newest = text;
            }
            COMMAND => say(&format!("{text}, after {positions} positions, at {newest}")),
            other => note(&format!("a message about {other}, of which nothing is known")),
        }
    }
    // To drop the connection would close it, perhaps before the client has read its figures.
    connection.closed().await;
    Ok(())
}

async fn tell(ticket: &Ticket, count: u32) -> Result<(), Failure> {
    let endpoint = Endpoint::bind(EndpointOptions::default())?;
    let connection = endpoint.connect(ticket).await?;
    let (mut send, _receive) = connection.open().await?;
    let position = MessageOptions::default()
        .protocol(POSITION)
        .order(Order::Unordered)
        .class(Class::Deadline)
        .lifetime(Duration::from_millis(200));
    for step in 0..count {
        send.send_message(format!("{step} m").into(), position).await?;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    send.send_message("stop".into(), MessageOptions::default().protocol(COMMAND)).await?;
    send.finish()?;
    send.delivered().await?;
    let figures = connection.info().await?.statistics.messages;
    note(&format!("{} of {} messages arrived, {} given up", figures.delivered, count + 1, figures.abandoned));
    connection.close(0, "done").await;
    endpoint.close(0, "done").await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "what the user asked for")]
fn say(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "what the user may want to know")]
fn note(text: &str) {
    eprintln!("{text}");
}
