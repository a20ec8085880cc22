//! The addresses of this host.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, UdpSocket};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Knows the addresses of this host.
pub trait OwnAddresses: fmt::Debug + Send + Sync {
    /// Whether an address belongs to this host now.
    fn contain(&self, address: IpAddr) -> bool;
}

/// The addresses that the system reports, and advertised ones: those by which others reach this host through a NAT.
#[derive(Debug, Default)]
pub struct SystemAddresses {
    advertised: BTreeSet<IpAddr>,
    listed: Mutex<Option<(Instant, BTreeSet<IpAddr>)>>,
}

impl SystemAddresses {
    /// Those of the system and these.
    pub fn with_advertised(advertised: impl IntoIterator<Item = IpAddr>) -> Self {
        let advertised = advertised.into_iter().map(|address| address.to_canonical()).collect();
        Self { advertised, listed: Mutex::default() }
    }

    /// Whether an interface has it; the list is at most a second old.
    fn is_listed(&self, address: IpAddr) -> bool {
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, list)) = &*listed
            && at.elapsed() < KEPT
        {
            return list.contains(&address);
        }
        match if_addrs::get_if_addrs() {
            Ok(interfaces) => {
                let list: BTreeSet<_> = interfaces.iter().map(if_addrs::Interface::ip).collect();
                let found = list.contains(&address);
                *listed = Some((Instant::now(), list));
                found
            }
            Err(error) => {
                tracing::debug!(reason = %error, "the system does not list its addresses");
                false
            }
        }
    }
}

impl OwnAddresses for SystemAddresses {
    fn contain(&self, address: IpAddr) -> bool {
        self.advertised.contains(&address) || self.is_listed(address) || leads_here(address)
    }
}

/// Whether the system's route to an address leads to this host itself: then its source is that address. This covers
/// ranges that no interface lists. Sends nothing.
fn leads_here(address: IpAddr) -> bool {
    let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let from = || {
        let socket = UdpSocket::bind(any)?;
        socket.connect((address, 9))?;
        socket.local_addr()
    };
    from().is_ok_and(|from| from.ip() == address)
}

/// Addresses of a host change rarely, and connections are frequent.
const KEPT: Duration = Duration::from_secs(1);
