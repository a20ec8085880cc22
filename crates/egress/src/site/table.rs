//! Clients of the network of sites, and routing among them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use ipnet::IpNet;
use tokio::sync::{Notify, mpsc};

use super::config::{HubConfig, overlap};
use super::joining::Joining;
use super::pool::Pool;
use crate::answer::{Reason, Refusal};
use crate::treatment::Treatment;

/// A packet for a client.
pub(super) type Outgoing = (Bytes, Treatment);

/// A client that has joined.
#[derive(Debug)]
pub(super) struct Entry {
    number: u64,
    /// Its ticket or key.
    name: String,
    pub(super) addresses: Vec<IpNet>,
    pub(super) networks: Vec<IpNet>,
    pub(super) queue: mpsc::Sender<Outgoing>,
    /// Another one has taken its place.
    pub(super) replaced: Notify,
}

/// All clients.
#[derive(Debug)]
pub(super) struct Table {
    pools: Vec<Pool>,
    entries: BTreeMap<u64, Arc<Entry>>,
    addresses: BTreeMap<IpAddr, Arc<Entry>>,
    /// The longest first.
    networks: Vec<(IpNet, Arc<Entry>)>,
    next: u64,
}

impl Table {
    pub(super) fn new(pools: Vec<Pool>) -> Self {
        let (entries, addresses, networks) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        Self { pools, entries, addresses, networks, next: 0 }
    }

    /// Whose address it is.
    pub(super) fn find(&self, address: IpAddr) -> Option<&Arc<Entry>> {
        let behind = || self.networks.iter().find(|(network, _)| network.contains(&address));
        self.addresses.get(&address).or_else(|| behind().map(|(_, entry)| entry))
    }

    /// Adds a client.
    // egress 11.3, 11.13, 11.14
    pub(super) fn join(
        &mut self,
        config: &HubConfig,
        name: &str,
        joining: &Joining,
        queue: mpsc::Sender<Outgoing>,
    ) -> Result<Arc<Entry>, Refusal> {
        let forbidden = |text: String| Refusal::with_text(Reason::Forbidden, text);
        for network in &joining.networks {
            let mut permitted = config.behind.iter().filter(|(who, _)| who == name);
            if !permitted.any(|(_, permitted)| permitted.contains(network)) {
                return Err(forbidden(format!(
                    "the server's --tun-behind {name}={network} permits this network"
                )));
            }
        }
        let mut replaced = BTreeSet::new();
        for (network, entry) in &self.networks {
            if !joining.networks.iter().any(|it| overlap(it, network)) {
                continue;
            }
            if entry.name != name {
                return Err(forbidden(format!("another client has {network}")));
            }
            replaced.insert(entry.number);
        }
        let own = |wanted: &IpAddr| self.addresses.get(wanted).filter(|entry| entry.name == name);
        let fixed = config.fixed.iter().filter(|(who, _)| who == name).map(|(_, address)| address);
        replaced.extend(joining.wanted.iter().chain(fixed).filter_map(own).map(|entry| entry.number));
        if self.entries.len() - replaced.len() >= config.clients {
            let text = format!("the network has {} clients", config.clients);
            return Err(Refusal::with_text(Reason::TooMany, text));
        }
        for number in replaced {
            if let Some(entry) = self.remove(number) {
                entry.replaced.notify_one();
            }
        }
        let addresses = self.assign(config, name, joining)?;
        let (number, name, networks) = (self.next, name.to_owned(), joining.networks.clone());
        let entry = Arc::new(Entry { number, name, addresses, networks, queue, replaced: Notify::new() });
        self.next += 1;
        self.entries.insert(number, Arc::clone(&entry));
        self.addresses.extend(entry.addresses.iter().map(|it| (it.addr(), Arc::clone(&entry))));
        self.networks.extend(entry.networks.iter().map(|it| (*it, Arc::clone(&entry))));
        self.networks.sort_by_key(|(network, _)| std::cmp::Reverse(network.prefix_len()));
        Ok(entry)
    }

    /// An address of each network.
    fn assign(&mut self, config: &HubConfig, name: &str, joining: &Joining) -> Result<Vec<IpNet>, Refusal> {
        let mut addresses: Vec<IpNet> = Vec::new();
        for index in 0..self.pools.len() {
            let Some(pool) = self.pools.get_mut(index) else { break };
            let is_v4 = pool.server().addr().is_ipv4();
            let wanted = joining.wanted.iter().find(|it| it.is_ipv4() == is_v4).copied();
            let taken = match config.fixed_of(name, is_v4) {
                Some(fixed) => pool.take_fixed(fixed),
                None => pool.take(wanted),
            };
            if let Some(address) = taken {
                addresses.push(address);
                continue;
            }
            let network = pool.server().trunc();
            self.give_back(&addresses);
            let text =
                format!("no address of {network} is free; the server needs a larger network for --tun");
            return Err(Refusal::with_text(Reason::TooMany, text));
        }
        Ok(addresses)
    }

    fn give_back(&mut self, addresses: &[IpNet]) {
        for address in addresses {
            self.pools.iter_mut().for_each(|pool| pool.give_back(address.addr()));
        }
    }

    /// Removes a client that has left, unless it was removed before.
    pub(super) fn leave(&mut self, entry: &Entry) {
        self.remove(entry.number);
    }

    fn remove(&mut self, number: u64) -> Option<Arc<Entry>> {
        let entry = self.entries.remove(&number)?;
        self.addresses.retain(|_, it| it.number != number);
        self.networks.retain(|(_, it)| it.number != number);
        self.give_back(&entry.addresses);
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    struct Scene {
        table: Table,
        config: HubConfig,
    }

    impl Scene {
        fn new(network: &str, behind: &[(&str, &str)]) -> Self {
            let config = HubConfig {
                networks: nets(&[network]),
                behind: behind.iter().map(|(who, net)| ((*who).to_owned(), net.parse().unwrap())).collect(),
                clients: 3,
                ..HubConfig::default()
            };
            let pools = config.networks.iter().filter_map(|it| Pool::new(*it)).collect();
            Self { table: Table::new(pools), config }
        }

        fn join(&mut self, name: &str, wanted: &[&str], networks: &[&str]) -> Result<Arc<Entry>, Refusal> {
            let wanted = wanted.iter().map(|it| it.parse().unwrap()).collect();
            let joining = Joining { wanted, networks: nets(networks) };
            self.table.join(&self.config, name, &joining, mpsc::channel(1).0)
        }

        fn finds(&self, address: &str) -> Option<u64> {
            self.table.find(address.parse().unwrap()).map(|entry| entry.number)
        }
    }

    // egress 11.13
    #[test]
    fn networks_need_a_permission_of_their_ticket_and_belong_to_one_client() {
        let permitted = [("branch", "192.168.0.0/16"), ("other", "192.168.5.0/24"), ("home", "10.1.0.0/16")];
        let mut scene = Scene::new("10.99.0.0/24", &permitted);
        let reason = |result: Result<Arc<Entry>, Refusal>| result.map(|it| it.number).unwrap_err();
        let refused = reason(scene.join("guest", &[], &["192.168.5.0/24"]));
        assert_eq!(refused.reason, Reason::Forbidden);
        assert!(refused.text.contains("--tun-behind guest=192.168.5.0/24"), "{}", refused.text);
        assert_eq!(
            reason(scene.join("home", &[], &["10.0.0.0/8"])).reason,
            Reason::Forbidden,
            "a part of it"
        );
        let branch = scene.join("branch", &[], &["192.168.5.0/24", "192.168.6.0/24"]).unwrap();
        assert_eq!(scene.finds("192.168.6.9"), Some(branch.number));
        assert_eq!(scene.finds("10.99.0.2"), Some(branch.number));
        assert_eq!((scene.finds("10.99.0.1"), scene.finds("192.168.7.9")), (None, None));
        let refused = reason(scene.join("other", &[], &["192.168.5.0/24"]));
        assert_eq!(refused.text, "another client has 192.168.5.0/24");
        scene.table.leave(&branch);
        assert!(scene.join("other", &[], &["192.168.5.0/24"]).is_ok());
        assert_eq!(scene.finds("192.168.6.9"), None);
    }

    // egress 11.14
    #[tokio::test]
    async fn a_client_that_comes_again_takes_its_own_place_and_no_other_s() {
        let mut scene = Scene::new("10.99.0.0/24", &[("branch", "192.168.5.0/24")]);
        let first = scene.join("branch", &[], &["192.168.5.0/24"]).unwrap();
        let thief = scene.join("guest", &["10.99.0.2"], &[]).unwrap();
        assert_eq!(thief.addresses, nets(&["10.99.0.3/24"]));
        let second = scene.join("branch", &["10.99.0.2"], &["192.168.5.0/24"]).unwrap();
        first.replaced.notified().await;
        assert_eq!((second.addresses.clone(), second.name.as_str()), (nets(&["10.99.0.2/24"]), "branch"));
        assert_eq!(scene.finds("192.168.5.1"), Some(second.number));
        // What the first leaves behind later is not the second's.
        scene.table.leave(&first);
        assert_eq!(scene.finds("10.99.0.2"), Some(second.number));
    }

    // egress 11.3
    #[tokio::test]
    async fn a_ticket_with_a_reserved_address_gets_it_whatever_it_asks_for_and_one_client_at_a_time() {
        let mut scene = Scene::new("10.99.0.0/24", &[]);
        scene.config.fixed = vec![("branch".to_owned(), "10.99.0.7".parse().unwrap())];
        scene.table = Table::new(scene.config.pools().unwrap());
        let thief = scene.join("guest", &["10.99.0.7"], &[]).unwrap();
        assert_eq!(thief.addresses, nets(&["10.99.0.2/24"]));
        let first = scene.join("branch", &["10.99.0.9"], &[]).unwrap();
        assert_eq!(first.addresses, nets(&["10.99.0.7/24"]));
        let second = scene.join("branch", &[], &[]).unwrap();
        first.replaced.notified().await;
        scene.table.leave(&first);
        assert_eq!(second.addresses, nets(&["10.99.0.7/24"]));
        assert_eq!(scene.finds("10.99.0.7"), Some(second.number));
    }

    // egress 11.3, 11.7
    #[test]
    fn clients_and_addresses_are_limited() {
        let mut scene = Scene::new("10.99.0.0/30", &[]);
        let only = scene.join("a", &[], &[]).unwrap();
        let refused = scene.join("b", &[], &[]).unwrap_err();
        assert_eq!(refused.reason, Reason::TooMany);
        assert!(refused.text.starts_with("no address of 10.99.0.0/30 is free"), "{}", refused.text);
        scene.table.leave(&only);
        assert!(scene.join("b", &[], &[]).is_ok());
        let mut scene = Scene::new("fd00:99::/64", &[]);
        for _ in 0..3 {
            scene.join("a", &[], &[]).unwrap();
        }
        assert_eq!(scene.join("a", &[], &[]).unwrap_err().text, "the network has 3 clients");
    }
}
