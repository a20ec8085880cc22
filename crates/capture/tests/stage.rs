//! The program that the tests start: it becomes the command. It also is the command of some tests: a small client.
#![cfg_attr(target_os = "linux", expect(clippy::print_stdout, reason = "tests read its output"))]

use std::process::ExitCode;

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    ExitCode::FAILURE
}

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    if let Some(status) = manyway_capture::enter_stage() {
        return status.into();
    }
    let words: Vec<_> = std::env::args().skip(1).collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    match client::run(&words) {
        Ok(text) => println!("{text}"),
        Err(error) => {
            println!("{error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

#[cfg(target_os = "linux")]
mod client {
    use std::io::{self, Read as _, Write as _};
    use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _, UdpSocket};
    use std::time::Duration;

    use socket2::{Domain, Protocol, Socket, Type};

    const PATIENCE: Option<Duration> = Some(Duration::from_secs(10));

    pub(super) fn run(words: &[&str]) -> io::Result<String> {
        let address = |text: &str| text.parse::<SocketAddr>().map_err(io::Error::other);
        match words {
            ["connect", to] => connect(address(to)?),
            ["ask", to, question] => ask(address(to)?, question),
            ["ping", to] => ping(address(to)?),
            ["look-up", name] => look_up(name),
            ["raw"] => {
                Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)).map(|_| "open".to_owned())
            }
            ["packet"] => Socket::new(Domain::PACKET, Type::RAW, None).map(|_| "open".to_owned()),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn connect(to: SocketAddr) -> io::Result<String> {
        let mut socket = TcpStream::connect(to)?;
        socket.set_read_timeout(PATIENCE)?;
        socket.write_all(b"hello")?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer)?;
        Ok(answer)
    }

    fn ask(to: SocketAddr, question: &str) -> io::Result<String> {
        let socket = UdpSocket::bind(if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
        socket.set_read_timeout(PATIENCE)?;
        socket.connect(to)?;
        socket.send(question.as_bytes())?;
        let mut answer = [0; 2000];
        let length = socket.recv(&mut answer)?;
        Ok(text(answer.get(..length)))
    }

    /// Sends an echo request by an ICMP socket, which needs no privilege.
    fn ping(to: SocketAddr) -> io::Result<String> {
        let (domain, protocol, kind) = match to {
            SocketAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4, 8),
            SocketAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6, 128),
        };
        let mut socket = Socket::new(domain, Type::DGRAM, Some(protocol))?;
        socket.set_read_timeout(PATIENCE)?;
        socket.connect(&to.into())?;
        socket.write_all(&[&[kind, 0, 0, 0, 0, 0, 0, 7][..], b"ping"].concat())?;
        let mut answer = [0; 100];
        let length = socket.read(&mut answer)?;
        Ok(format!("type {} with {}", answer[0], text(answer.get(8..length))))
    }

    fn text(bytes: Option<&[u8]>) -> String {
        String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
    }

    fn look_up(name: &str) -> io::Result<String> {
        let addresses: Vec<_> = (name, 80).to_socket_addrs()?.map(|address| address.to_string()).collect();
        Ok(addresses.join(" "))
    }
}
