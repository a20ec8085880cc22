//! Constant inputs of every run of a target: identities, TLS settings, addresses.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use manyway_proto::fuzzing::SharedKeys;
use manyway_proto::identity::{self, AuthorisedKeys};
use manyway_proto::{
    AddressFilter, ClientConfig, ConnectionConfig, EndpointConfig, LocalAddress, LocalCandidate, Mmsp1Server,
    Role, ServerConfig,
};
use manyway_sim::{client_identity, server_identity};

/// The client's interfaces.
pub(crate) const INTERFACES: u8 = 2;
/// The persistent reset keys of client and server.
pub(crate) const RESET_KEYS: [[u8; 32]; 2] = [[8; 32], [9; 32]];

static CLIENT_TLS: LazyLock<Arc<rustls::ClientConfig>> =
    LazyLock::new(|| identity::client_config(server_identity().public_key().hash(), &client_identity()));

static SERVER_TLS: LazyLock<Arc<rustls::ServerConfig>> = LazyLock::new(|| {
    let clients = AuthorisedKeys::from_iter([*client_identity().public_key()]);
    identity::server_config(&server_identity(), Arc::new(clients))
});

/// The keys of connections without a handshake.
pub(crate) static KEYS: LazyLock<SharedKeys> = LazyLock::new(|| {
    SharedKeys::new(Arc::clone(&CLIENT_TLS), Arc::clone(&SERVER_TLS)).expect("both accept each other")
});

/// Small windows, so that a short input reaches them.
pub(crate) static SETTINGS: LazyLock<Arc<ConnectionConfig>> = LazyLock::new(|| {
    let mut config = ConnectionConfig::default();
    config.streams.stream_receive_window = 16 << 10;
    config.streams.connection_receive_window = 24 << 10;
    config.streams.max_window = 64 << 10;
    config.streams.peer_streams = 8;
    config.streams.send_buffer = 16 << 10;
    config.streams.max_send_buffer = 64 << 10;
    config.idle_timeout = Duration::from_secs(30);
    config.path_limit = 3;
    config.validate().expect("it is in its ranges");
    Arc::new(config)
});

/// The same for MMSP/1.
pub(crate) static MMSP1: LazyLock<Arc<ConnectionConfig>> = LazyLock::new(|| {
    let mut config = ConnectionConfig::mmsp1();
    config.streams = SETTINGS.streams.clone();
    config.idle_timeout = SETTINGS.idle_timeout;
    config.path_limit = SETTINGS.path_limit;
    config.stream_numbers = 8;
    config.validate().expect("it is in its ranges");
    Arc::new(config)
});

pub(crate) fn endpoint_config(is_server: bool) -> EndpointConfig {
    let mut config = EndpointConfig::default();
    config.reset_key = Some(RESET_KEYS[usize::from(is_server)]);
    if is_server {
        config.server = Some(ServerConfig {
            tls: Arc::clone(&SERVER_TLS),
            certificate: None,
            connection: Arc::clone(&SETTINGS),
        });
    }
    config
}

/// An end that speaks MMSP/1 alone.
pub(crate) fn mmsp1_endpoint_config(is_server: bool) -> EndpointConfig {
    let mut config = EndpointConfig::default();
    config.mmsp1 =
        is_server.then(|| Mmsp1Server { connection: Arc::clone(&MMSP1), from: AddressFilter::all() });
    config
}

pub(crate) fn client_config() -> ClientConfig {
    ClientConfig {
        tls: Arc::clone(&CLIENT_TLS),
        server_name: "fuzzing".try_into().expect("a name"),
        connection: Arc::clone(&SETTINGS),
    }
}

/// The server's only address.
pub(crate) fn server_address() -> LocalAddress {
    LocalAddress { interface: 1, address: ([10, 9, 0, 1], 4455).into() }
}

/// The addresses of the client's first `count` interfaces.
pub(crate) fn client_addresses(count: u8) -> Vec<LocalCandidate> {
    (0..count)
        .map(|number| LocalCandidate {
            address: LocalAddress {
                interface: u32::from(number) + 1,
                address: ([10, number, 0, 2], 40_000).into(),
            },
            role: Role::Primary,
        })
        .collect()
}

/// An address of neither end.
pub(crate) fn stranger(number: u8) -> SocketAddr {
    ([192, 0, 2, number % 8], 53).into()
}
