//! `manyway proxy`: SOCKS5 and HTTP CONNECT on one port.

mod http;
mod socks;
mod users;

use std::net::SocketAddr;
use std::sync::Arc;

use manyway_terminal::{CommandError, ExitCode, json};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::super::direction::Direction;
use super::bond::EgressBond;
use super::listening::{PATIENCE, listen, run as run_ports, serve};
use users::Users;

use crate::args::{GlobalArgs, ProxyArgs};
use crate::output::address as shown;
use crate::output::opening::Opening;

/// The first byte of a SOCKS5 connection (RFC 1928, section 3).
const SOCKS5: u8 = 5;

/// Serves programs until Ctrl-C or SIGTERM.
///
/// # Errors
/// The port is taken, the server is not reached, or it refuses.
pub async fn run(global: &GlobalArgs, arguments: &ProxyArgs) -> Result<ExitCode, CommandError> {
    let users = match &arguments.users {
        Some(path) => Users::read(path)?,
        None => Users::default(),
    };
    if users.is_empty() && !arguments.listen.ip().is_loopback() {
        let address = shown(arguments.listen);
        return Err(CommandError::usage(format!(
            "any host that reaches {address} could use the proxy: add --users FILE with a line NAME:PASSWORD for each user"
        )));
    }
    let listener = listen("--listen", arguments.listen).await?;
    let address = listener.local_addr()?;
    Direction::Both.tell_what_decides(global);
    let bond = Arc::new(EgressBond::start(global, &arguments.server).await?);
    announce(global, address, &users)?;
    let mut ports = JoinSet::new();
    let (shared, users) = (Arc::clone(&bond), Arc::new(users));
    ports.spawn(serve(listener, move |socket| attend(socket, Arc::clone(&shared), Arc::clone(&users))));
    run_ports(global, bond.bond(), ports).await
}

/// Serves one program's connection: its first byte tells the protocol.
async fn attend(socket: TcpStream, bond: Arc<EgressBond>, users: Arc<Users>) {
    let mut first = [0];
    let Ok(Ok(1)) = tokio::time::timeout(PATIENCE, socket.peek(&mut first)).await else { return };
    if first == [SOCKS5] {
        socks::attend(socket, &bond, &users).await;
    } else {
        http::attend(socket, &bond, &users).await;
    }
}

/// The proxy's address to standard output, the rest to standard error.
fn announce(global: &GlobalArgs, address: SocketAddr, users: &Users) -> Result<(), CommandError> {
    if global.json {
        let listening = shown(address);
        let (socks, http) = (format!("socks5h://{listening}"), format!("http://{listening}"));
        let pac = format!("{http}/proxy.pac");
        return Ok(json::print(
            &json!({ "listening": listening, "socks5": socks, "http": http, "pac": pac }),
        )?);
    }
    opening(address, users).print(global.quiet)
}

fn opening(address: SocketAddr, users: &Users) -> Opening {
    // All addresses of this host are no address to connect to.
    let any = address.ip().is_unspecified();
    let place = if any { format!("THIS-HOST:{}", address.port()) } else { shown(address) };
    let user = (!users.is_empty()).then(|| format!("{}:PASSWORD", users.example()));
    let socks = match &user {
        Some(user) => format!("socks5h://{user}@{place}"),
        None => format!("socks5h://{place}"),
    };
    // nc sends no password over SOCKS5.
    let connect = match &user {
        Some(user) => format!("ncat --proxy-type socks5 --proxy {place} --proxy-auth {user}"),
        None => format!("nc -X 5 -x {place}"),
    };
    Opening::default().data(format!("socks5h://{}", shown(address))).message(format!(
        "SOCKS5 (TCP and UDP) and HTTP CONNECT until Ctrl-C, for example:\n  \
         curl -x {socks} https://example.org\n  \
         git -c http.proxy={socks} clone https://git.example.org/it\n  \
         ssh -o ProxyCommand='{connect} %h %p' user@host.example.org\n  \
         export ALL_PROXY={socks}\n  \
         a browser: proxy configuration from http://{place}/proxy.pac"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lines_of_a_proxy_fit_every_terminal() {
        for width in [80, 120] {
            let own = opening("127.0.0.1:1080".parse().unwrap(), &Users::default());
            let network = opening("0.0.0.0:1080".parse().unwrap(), &Users::parse("ann:secret").unwrap());
            let screens = [own, network].map(|opening| opening.screen(width)).join("\n\n");
            insta::assert_snapshot!(format!("proxy_{width}"), screens);
        }
    }
}
