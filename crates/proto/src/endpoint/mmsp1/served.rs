//! The connections that a server has over MMSP/1, and how many there may be (spec 3.97).
//!
//! Nothing but its address tells who a client is, so connections are limited by network.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::endpoint::ConnectionHandle;
use crate::prefix::Prefix;

/// Most connections of one network.
const MOST_OF_A_NETWORK: usize = 256;
/// Most connections.
const MOST: usize = 1024;

/// The address of a client and both ports in the header, as INFO named them.
pub(super) type Client = (SocketAddr, [u16; 2]);

/// Server connections by their clients: one that comes again has lost the old connection.
#[derive(Debug, Default)]
pub(super) struct Served {
    by_client: BTreeMap<Client, ConnectionHandle>,
    /// Connections that have not ended, by the network of the client, those that a newer one replaces included.
    networks: BTreeMap<Prefix, usize>,
    count: usize,
}

impl Served {
    /// Whether a connection of this client may begin. One that takes the place of an older one always may.
    pub(super) fn takes(&self, client: &Client) -> bool {
        let of_network = self.networks.get(&Prefix::of(client.0)).copied().unwrap_or(0);
        let has_place = self.count < MOST && of_network < MOST_OF_A_NETWORK;
        has_place || self.by_client.contains_key(client)
    }

    /// A connection begins; returns the one that it replaces.
    pub(super) fn insert(&mut self, client: Client, handle: ConnectionHandle) -> Option<ConnectionHandle> {
        self.count += 1;
        *self.networks.entry(Prefix::of(client.0)).or_default() += 1;
        self.by_client.insert(client, handle).filter(|old| *old != handle)
    }

    /// A connection has ended.
    pub(super) fn remove(&mut self, client: &Client, handle: ConnectionHandle) {
        if self.by_client.get(client) == Some(&handle) {
            self.by_client.remove(client);
        }
        self.count = self.count.saturating_sub(1);
        let network = Prefix::of(client.0);
        if let Some(count) = self.networks.get_mut(&network) {
            *count -= 1;
            if *count == 0 {
                self.networks.remove(&network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(network: usize, host: usize) -> Client {
        let number = u32::try_from((network << 8) + host % 256).unwrap();
        (SocketAddr::from((number.to_be_bytes(), 4000)), [u16::try_from(1024 + host).unwrap(), 5001])
    }

    /// Connects clients of a network, from this host on; returns how many were taken.
    fn fill(served: &mut Served, network: usize, from: usize) -> usize {
        let taken = (from..from + 2 * MOST).filter(|host| {
            let client = client(network, *host);
            let takes = served.takes(&client);
            if takes {
                assert_eq!(served.insert(client, ConnectionHandle::numbered((network << 16) + host)), None);
            }
            takes
        });
        taken.count()
    }

    // spec 3.97
    #[test]
    fn a_network_has_256_connections_and_all_have_1024() {
        let mut served = Served::default();
        let counts: Vec<usize> = (1..=6).map(|network| fill(&mut served, network, 0)).collect();
        assert_eq!(counts, [256, 256, 256, 256, 0, 0]);
        // The end of one makes room for one.
        served.remove(&client(1, 7), ConnectionHandle::numbered((1 << 16) + 7));
        assert_eq!(fill(&mut served, 9, 0), 1);
    }

    // spec 3.5b, 3.97
    #[test]
    fn a_client_that_comes_again_takes_the_place_of_its_old_connection() {
        let mut served = Served::default();
        fill(&mut served, 1, 0);
        let (client, old, new) =
            (client(1, 7), ConnectionHandle::numbered((1 << 16) + 7), ConnectionHandle::numbered(9));
        assert!(served.takes(&client));
        assert_eq!(served.insert(client, new), Some(old));
        served.remove(&client, old);
        assert!(served.takes(&client), "the new one is known");
        served.remove(&client, new);
        assert_eq!(fill(&mut served, 1, 5000), 1, "each has given its place back");
    }
}
