//! SOCKS5 (RFC 1928): CONNECT and UDP ASSOCIATE, with user and password (RFC 1929) where they are required.

use std::future::Future as _;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use fast_socks5::server::{Socks5ServerProtocol, SocksServerError, states};
use fast_socks5::util::target_addr::TargetAddr;
use fast_socks5::{ReplyError, Socks5Command, new_udp_header, parse_udp_request};
use manyway_egress::{
    Destination, DestinationError, EgressError, FlowKind, Host, Name, Reason, enlarge_receive_buffer,
};
use tokio::io::{copy, sink};
use tokio::net::{TcpStream, UdpSocket};

use super::super::bond::EgressBond;
use super::super::flows::{FlowSink, Flows, Outgoing};
use super::super::listening::{PATIENCE, carry, serve_udp};
use super::users::Users;

/// Serves one program.
pub(super) async fn attend(socket: TcpStream, bond: &Arc<EgressBond>, users: &Users) {
    if let Err(reason) = converse(socket, bond, users).await {
        tracing::debug!(%reason, "a program's request failed");
    }
}

async fn converse(socket: TcpStream, bond: &Arc<EgressBond>, users: &Users) -> Result<(), SocksServerError> {
    let ends = (socket.local_addr(), socket.peer_addr());
    let asking = async { authenticated(socket, users).await?.read_command().await };
    let Ok(asked) = tokio::time::timeout(PATIENCE, asking).await else { return Ok(()) };
    let (protocol, command, target) = asked?;
    match command {
        Socks5Command::TCPConnect => connect(protocol, target, bond).await,
        Socks5Command::UDPAssociate => associate(protocol, ends, bond).await,
        Socks5Command::TCPBind => protocol.reply_error(&ReplyError::CommandNotSupported).await,
    }
}

async fn authenticated(
    socket: TcpStream,
    users: &Users,
) -> Result<Socks5ServerProtocol<TcpStream, states::Authenticated>, SocksServerError> {
    if users.is_empty() {
        return Socks5ServerProtocol::accept_no_auth(socket).await;
    }
    let check = |name: String, password: String| users.contain(&name, &password);
    Ok(Socks5ServerProtocol::accept_password_auth(socket, check).await?.0)
}

type Asked = Socks5ServerProtocol<TcpStream, states::CommandRead>;

async fn connect(protocol: Asked, target: TargetAddr, bond: &EgressBond) -> Result<(), SocksServerError> {
    let Ok(destination) = destination_of(target) else {
        return protocol.reply_error(&ReplyError::HostUnreachable).await;
    };
    match bond.connect(&destination).await {
        Ok(opened) => {
            // The source address of the server's connection has no meaning here.
            let socket = protocol.reply_success(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))).await?;
            carry(socket, opened).await;
            Ok(())
        }
        Err(error) => protocol.reply_error(&reply_of(&error)).await,
    }
}

/// Relays the program's datagrams as long as it keeps its TCP connection (RFC 1928, section 7), whose ends are given.
async fn associate(
    protocol: Asked,
    ends: (io::Result<SocketAddr>, io::Result<SocketAddr>),
    bond: &Arc<EgressBond>,
) -> Result<(), SocksServerError> {
    let (Ok(near), Ok(program)) = ends else {
        return protocol.reply_error(&ReplyError::GeneralFailure).await;
    };
    let relay = match UdpSocket::bind((near.ip(), 0)).await {
        Ok(relay) => Arc::new(relay),
        Err(_) => return protocol.reply_error(&ReplyError::GeneralFailure).await,
    };
    enlarge_receive_buffer(&*relay);
    let Ok(address) = relay.local_addr() else {
        return protocol.reply_error(&ReplyError::GeneralFailure).await;
    };
    let mut socket = protocol.reply_success(address).await?;
    let flows = Flows::new(Arc::clone(bond), FlowKind::Udp, UdpRelay(Arc::clone(&relay)));
    // The first socket of the program's host that uses the relay is the one that may.
    let user = OnceLock::new();
    let pass_on = |source: SocketAddr, datagram: &[u8]| {
        if source.ip() == program.ip()
            && *user.get_or_init(|| source) == source
            && let Some((destination, payload)) = parse(datagram)
        {
            let payload = Bytes::copy_from_slice(payload);
            flows.pass(source, Outgoing { destination, payload, dscp: None });
        }
    };
    let mut nowhere = sink();
    tokio::select! {
        // Whatever it says there: its end matters.
        _ = copy(&mut socket, &mut nowhere) => {}
        () = serve_udp(relay, pass_on) => {}
    }
    Ok(())
}

/// The destination and the payload of a program's datagram (RFC 1928, section 7). Fragments are optional there, and no
/// program is known that sends them.
fn parse(datagram: &[u8]) -> Option<(Destination, &[u8])> {
    // It reads from memory, so it never waits.
    let mut context = Context::from_waker(Waker::noop());
    let Poll::Ready(Ok((0, target, payload))) = pin!(parse_udp_request(datagram)).poll(&mut context) else {
        return None;
    };
    Some((destination_of(target).ok()?, payload))
}

/// Wraps what comes back for a program.
struct UdpRelay(Arc<UdpSocket>);

impl FlowSink for UdpRelay {
    fn deliver(&self, program: SocketAddr, source: &Destination, payload: &[u8]) {
        let header = match source.host() {
            Host::Ip(ip) => new_udp_header(SocketAddr::new(*ip, source.port())),
            Host::Name(name) => new_udp_header(TargetAddr::Domain(name.to_string(), source.port())),
            Host::Resolver => return,
        };
        let Ok(mut datagram) = header else { return };
        datagram.extend_from_slice(payload);
        // A program that does not read loses datagrams, as on any network.
        let _ = self.0.try_send_to(&datagram, program);
    }
}

fn destination_of(target: TargetAddr) -> Result<Destination, DestinationError> {
    match target {
        TargetAddr::Ip(address) => Destination::new(Host::Ip(address.ip()), address.port()),
        // Some programs send addresses as names.
        TargetAddr::Domain(name, port) => match name.parse() {
            Ok(address) => Destination::new(Host::Ip(address), port),
            Err(_) => Destination::new(Host::Name(Name::parse(&name)?), port),
        },
    }
}

// egress 3.2
#[expect(clippy::wildcard_enum_match_arm, reason = "the list is open")]
fn reply_of(error: &EgressError) -> ReplyError {
    let EgressError::Refused(refusal) = error else { return ReplyError::GeneralFailure };
    match refusal.reason {
        Reason::Refused => ReplyError::ConnectionRefused,
        Reason::NetworkUnreachable => ReplyError::NetworkUnreachable,
        Reason::HostUnreachable | Reason::NameNotFound | Reason::LookupFailed => ReplyError::HostUnreachable,
        Reason::TimedOut => ReplyError::TtlExpired,
        Reason::Forbidden | Reason::NotEnabled => ReplyError::ConnectionNotAllowed,
        _ => ReplyError::GeneralFailure,
    }
}

#[cfg(test)]
mod tests {
    use manyway_egress::Refusal;

    use super::*;

    #[test]
    fn internationalised_names_are_converted_for_dns() {
        let target = TargetAddr::Domain("Bücher.example".to_owned(), 443);
        assert_eq!(destination_of(target).unwrap().to_string(), "xn--bcher-kva.example:443");
    }

    #[test]
    fn datagrams_are_read_with_their_destination_and_fragments_are_not() {
        let datagram = b"\0\0\0\x01\xc0\0\x02\x07\0\x35question";
        let (destination, payload) = parse(datagram).unwrap();
        assert_eq!((destination.to_string().as_str(), payload), ("192.0.2.7:53", &b"question"[..]));
        let mut fragment = datagram.to_vec();
        fragment[2] = 1;
        assert!(parse(&fragment).is_none());
        assert!((0..10).all(|length| parse(&datagram[..length]).is_none()));
    }

    #[test]
    fn every_reason_has_the_reply_of_the_specification() {
        let replies = [1, 5, 3, 4, 6, 2, 4, 4, 2, 1, 1, 1];
        for (reason, reply) in Reason::ALL.into_iter().zip(replies) {
            assert_eq!(reply_of(&Refusal::new(reason).into()).as_u8(), reply, "{reason:?}");
        }
    }
}
