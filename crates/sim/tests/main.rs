//! The behaviour of connections, over networks in virtual time and through the public interface only.

mod acknowledgements;
mod attacks;
mod background;
mod bbr;
mod caps;
mod close;
mod congestion;
mod connection_ids;
mod coupled;
mod credit;
mod cross;
mod datagram_size;
mod deaths;
mod double_faults;
mod ecn;
mod fades;
mod flaps;
mod handshake;
mod identity;
mod messages;
mod migration;
mod pair;
mod pair_rates;
mod pairs;
mod paths;
mod peer_costs;
mod ping;
mod qlog;
#[path = "shared/random_changes.rs"]
mod random_changes;
mod random_operations;
mod rendezvous;
mod scheduler_laws;
mod schedulers;
mod server_links;
mod shaped;
mod slow_readers;
mod standstill;
mod streams;
mod suspend;
mod target_rate;
mod target_rate_tcp;
mod tcp_carrier;
mod toy_wire;
#[path = "shared/wanted_over_tcp.rs"]
mod wanted_over_tcp;
