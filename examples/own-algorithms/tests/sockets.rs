//! Both algorithms on real sockets, with nothing but the library.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use manyway::{Endpoint, EndpointOptions, HostPort, Identity, ServerOptions, Ticket};

fn options() -> EndpointOptions {
    let mut options = EndpointOptions::default();
    own_algorithms::register(&mut options.connection).unwrap();
    options.connection.set_scheduler("ration=20").unwrap();
    options.connection.set_congestion("gentle").unwrap();
    options
}

#[tokio::test]
async fn a_megabyte_is_sent_by_the_named_algorithms() {
    let (identity, secret) = (Identity::from_seed(&[7; 32]), [9; 16]);
    let mut server = ServerOptions::new(identity.clone(), &secret);
    server.listen = vec!["127.0.0.1:0".parse().unwrap()];
    let mut serving = options();
    serving.server = Some(server);
    let server = Endpoint::bind(serving).unwrap();
    let address = server.local_addresses()[0].address;
    let ticket = Ticket::new(identity.public_key().hash(), secret, vec![HostPort::from(address)]).unwrap();
    let client = Endpoint::bind(options()).unwrap();
    let (connection, accepted) = tokio::join!(client.connect(&ticket), server.accept());
    let (connection, accepted) = (connection.unwrap(), accepted.unwrap());

    let (mut send, _) = connection.open().await.unwrap();
    let sending = tokio::spawn(async move {
        send.write_chunk(vec![5; 1_000_000].into()).await.unwrap();
        send.finish().unwrap();
        send
    });
    let (_, mut receive) = accepted.accept().await.unwrap();
    let mut received = 0;
    while let Some(chunk) = receive.read_chunk(usize::MAX).await.unwrap() {
        received += chunk.len();
    }
    assert_eq!(received, 1_000_000);
    drop(sending.await.unwrap());

    // An open connection knows the names of its own settings, too.
    assert!(connection.set_congestion("bbr").await.unwrap());
    assert!(connection.set_congestion("gentle").await.unwrap());
    assert!(!connection.set_congestion("magic").await.unwrap());
    client.close(0, "done").await;
}
