//! Authentication of peers, and rights that end.

use std::sync::Arc;

use manyway_proto::identity::ServerTrust;
use manyway_proto::{ConnectionConfig, ConnectionError};
use manyway_sim::scenario::{MINUTE, MS, SECOND, mbit, megabytes};
use manyway_sim::{EndpointPair, EndpointPeer, PairBuilder, Side, client_identity, server_identity};

/// A client that accepts any key, and its server.
fn pair() -> EndpointPair {
    let config = Arc::new(ConnectionConfig::default());
    PairBuilder::new().path(mbit(20), 10 * MS).build(
        |rng| EndpointPeer::client_as(&client_identity(), ServerTrust::AnyKey, Arc::clone(&config), rng),
        |rng| EndpointPeer::server(Arc::clone(&config), rng),
    )
}

// spec 7.41
#[test]
fn a_client_that_accepts_any_key_can_check_it_before_it_sends_data() {
    let mut pair = pair();
    pair.connect(SECOND).unwrap();
    for (side, key) in [(Side::Client, server_identity()), (Side::Server, client_identity())] {
        let shown = pair.peer(side).unwrap().connection().unwrap().peer_public_key().unwrap().to_vec();
        assert_eq!(shown, key.public_key().to_spki());
    }
    pair.transfer(Side::Client, megabytes(1), MINUTE).unwrap();
}

// spec 7.42
#[test]
fn a_client_whose_rights_end_sees_a_failed_authentication() {
    let mut pair = pair();
    pair.connect(SECOND).unwrap();
    let now = pair.now();
    pair.peer(Side::Server).unwrap().connection().unwrap().revoke(now, "revoked");
    pair.run_for(SECOND).unwrap();
    let events = pair.peer(Side::Client).unwrap().events().to_vec();
    let expected = ConnectionError::Authentication { reason: "revoked".to_owned(), shown: None };
    let is_told = events
        .iter()
        .any(|(_, event)| matches!(event, manyway_proto::Event::Closed(error) if *error == expected));
    assert!(is_told, "{events:?}");
}
