//! SOCKS5 (RFC 1928): CONNECT without a password.

use std::net::{Ipv4Addr, SocketAddr};

use fast_socks5::server::{Socks5ServerProtocol, SocksServerError};
use fast_socks5::util::target_addr::TargetAddr;
use fast_socks5::{ReplyError, Socks5Command};
use manyway_egress::{Destination, DestinationError, EgressError, Host, Name, Reason};
use tokio::net::TcpStream;

use super::super::bond::EgressBond;
use super::super::listening::{PATIENCE, carry};

/// Serves one program.
pub(super) async fn attend(socket: TcpStream, bond: &EgressBond) {
    if let Err(reason) = converse(socket, bond).await {
        tracing::debug!(%reason, "a program's request failed");
    }
}

async fn converse(socket: TcpStream, bond: &EgressBond) -> Result<(), SocksServerError> {
    let asking = async { Socks5ServerProtocol::accept_no_auth(socket).await?.read_command().await };
    let Ok(asked) = tokio::time::timeout(PATIENCE, asking).await else { return Ok(()) };
    let (protocol, command, target) = asked?;
    if command != Socks5Command::TCPConnect {
        return protocol.reply_error(&ReplyError::CommandNotSupported).await;
    }
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
    fn every_reason_has_the_reply_of_the_specification() {
        let replies = [1, 5, 3, 4, 6, 2, 4, 4, 2, 1, 1, 1];
        for (reason, reply) in Reason::ALL.into_iter().zip(replies) {
            assert_eq!(reply_of(&Refusal::new(reason).into()).as_u8(), reply, "{reason:?}");
        }
    }
}
