//! Who ends the TCP connections of the machine: the kernel, or where that is refused, this process.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use manyway_capture::{ADDRESS_V4, ADDRESS_V6, Connections, Stack, TUNNEL_DEVICE, Tun, Tunnel};
use manyway_terminal::CommandError;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::super::bond::EgressBond;
use super::super::captured::{Incoming, packets};
use super::super::listening::PAUSE;

/// Who ends the connections.
pub(super) enum TcpEnd {
    /// The kernel, at listeners to which nftables redirects them.
    Kernel(Connections),
    /// This process, from their packets.
    Stack(Arc<Stack>),
}

impl TcpEnd {
    /// Leads the traffic of the machine to the tunnel, and finds out which of them works. The kernel is faster. What programs
    /// open meanwhile goes to `carry`.
    pub(super) async fn take_over(
        tunnel: &mut Tunnel,
        connections: Connections,
        tun: &Arc<Tun>,
        bond: &Arc<EgressBond>,
        carry: &mut impl FnMut(Incoming),
    ) -> Result<Self, CommandError> {
        let redirected = tunnel.redirect();
        tunnel.take_over().map_err(CommandError::failed)?;
        let why = match redirected {
            Ok(()) => {
                let kernel = Self::Kernel(connections);
                let Some(probe) = kernel.first_that_fails(tunnel, carry).await else { return Ok(kernel) };
                let (loopback, own) = addresses(probe);
                format!(
                    "connections of this machine do not arrive by redirection: a firewall has to accept TCP from and to \
                     the addresses {loopback} and {own} (see `nft list ruleset`)"
                )
            }
            Err(error) => error.to_string(),
        };
        let names = tunnel.redirect_names();
        let device = Arc::clone(tun);
        // What finds no room is sent again.
        let stack = Arc::new(Stack::new(tun.mtu(), move |packet| drop(device.try_send(packet))));
        let end = Self::Stack(Arc::clone(&stack));
        let failed = tokio::select! {
            failed = end.first_that_fails(tunnel, carry) => failed,
            never = packets(tun, bond, Some(&stack)) => match never {},
        };
        if failed.is_some() {
            return Err(CommandError::failed(format!(
                "{why}. They do not arrive as packets of {TUNNEL_DEVICE} either: a firewall has to accept TCP there"
            )));
        }
        let names = if names.is_err() { "; names are asked where this machine asks for them" } else { "" };
        bond.say(&format!("{why}. The tunnel ends TCP itself, which takes more processor time{names}"));
        Ok(end)
    }

    /// Waits for a program that opens a connection.
    ///
    /// # Errors
    /// As [`Connections::accept`].
    pub(super) async fn accept(&self) -> io::Result<Incoming> {
        match self {
            Self::Kernel(connections) => connections
                .accept()
                .await
                .map(|(socket, destination)| Incoming::Accepted(socket, destination)),
            Self::Stack(stack) => Ok(Incoming::Asked(stack.accept().await)),
        }
    }

    /// The stack, if it is that.
    pub(super) fn stack(&self) -> Option<&Stack> {
        match self {
            Self::Kernel(_) => None,
            Self::Stack(stack) => Some(stack),
        }
    }

    /// Connects to addresses that exist in the tunnel alone, since a firewall of this host may drop connections in silence.
    async fn first_that_fails(&self, tunnel: &Tunnel, carry: &mut impl FnMut(Incoming)) -> Option<IpAddr> {
        for probe in tunnel.probes() {
            if !self.arrives(probe, carry).await {
                return Some(probe);
            }
        }
        None
    }

    async fn arrives(&self, probe: IpAddr, carry: &mut impl FnMut(Incoming)) -> bool {
        let probe = SocketAddr::new(probe, PROBE_PORT);
        let arrived = async {
            loop {
                match self.accept().await {
                    // It is not reset before it is connected.
                    Ok(Incoming::Asked(attempt)) if attempt.destination() == probe => {
                        return Some(attempt.accept());
                    }
                    Ok(incoming @ Incoming::Accepted(..)) if incoming.destination() == probe => return None,
                    Ok(incoming) => carry(incoming),
                    Err(_) => sleep(PAUSE).await,
                }
            }
        };
        let connected = async {
            // The kernel needs a moment until it uses a new IPv6 address.
            while TcpStream::connect(probe).await.is_err() {
                sleep(PAUSE).await;
            }
        };
        let both = async { tokio::join!(connected, arrived) };
        timeout(TEST, both).await.is_ok()
    }
}

/// Those that a redirected connection to the probe has.
fn addresses(probe: IpAddr) -> (IpAddr, IpAddr) {
    match probe {
        IpAddr::V4(_) => (Ipv4Addr::LOCALHOST.into(), ADDRESS_V4.into()),
        IpAddr::V6(_) => (Ipv6Addr::LOCALHOST.into(), ADDRESS_V6.into()),
    }
}

/// How long a connection of the machine to itself may take.
const TEST: Duration = Duration::from_secs(3);
const PROBE_PORT: u16 = 9;
