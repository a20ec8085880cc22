//! Messages between the library and the independent peer of MMSP/1 in Python, over two paths with lost packets.
//! Tests need `python3`; where it is missing they count as skipped.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Output, Stdio};

use manyway::{Connection, ConnectionConfig, HostPort, MessageOptions, ReceiveStream, SendStream, Wire};
use manyway_sim::skipped::skip;
use tokio::task::spawn_blocking;

use crate::common::{client_from, pattern, soon};
use crate::mmsp1::{hosts, server};

const MESSAGES: u8 = 100;

/// The peer, which drops 2 % of the packets that it sends and of those that arrive, on two addresses; `None` where there is no Python.
fn peer(arguments: &[&str]) -> Option<Child> {
    let mut command = Command::new("python3");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/mmsp1_peer.py")).args(arguments);
    command.args([
        "--bind",
        "127.0.0.2",
        "--loss",
        "2",
        "--loss-in",
        "2",
        "--seed",
        "3",
        "--linger",
        "0.2",
        "--json",
        "--timeout",
        "20",
    ]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().map_err(|error| skip(format!("python3: {error}"))).ok()
}

/// Waits for the end of the peer, which gives up after 20 s.
async fn end(peer: Child) -> Output {
    spawn_blocking(|| peer.wait_with_output()).await.unwrap().unwrap()
}

#[track_caller]
fn assert_complete(output: &Output) {
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(output.status.success(), "{out}\n{err}");
    // A path that carried few packets may have lost none.
    let mut dropped = out.split(r#""packets_dropped_here": "#).skip(1);
    assert!(out.contains(r#""faults": []"#) && dropped.any(|count| !count.starts_with("0,")), "{out}");
    assert!(out.contains("packets_dropped_on_arrival"), "{out}");
}

/// Sends back each message of a stream.
async fn echo((mut send, mut receive): (SendStream, ReceiveStream)) {
    while let Ok(Some(message)) = receive.receive_message().await {
        let options = MessageOptions::default().protocol(message.protocol);
        send.send_message(message.data, options).await.unwrap();
    }
}

async fn echo_all(connection: Connection) {
    while let Ok(stream) = connection.accept().await {
        tokio::spawn(echo(stream));
    }
}

#[tokio::test]
async fn a_server_sends_back_the_messages_of_the_independent_peer() {
    let server = server("127.0.0.0/8", &["127.0.0.1:0"]);
    let host = hosts(&server).remove(0).to_string();
    let count = MESSAGES.to_string();
    let messages = ["--streams", "4", "--size", "3000", "--send", &count, "--expect", &count];
    let Some(peer) = peer(&[&["connect", &host, "--bind", "127.0.0.1"], &messages[..]].concat()) else {
        return;
    };
    let echoing = async { echo_all(server.accept().await.unwrap()).await };
    let (output, ()) = soon(async { tokio::join!(end(peer), echoing) }).await;
    assert_complete(&output);
}

#[tokio::test]
async fn the_independent_peer_sends_back_the_messages_of_a_client() {
    let Some(mut peer) = peer(&["listen", "127.0.0.1:0", "--echo"]) else { return };
    let line = BufReader::new(peer.stderr.take().unwrap()).lines().next().unwrap().unwrap();
    let port = line.split("port ").nth(1).unwrap().split(',').next().unwrap();
    let host: HostPort = format!("127.0.0.1:{port}").parse().unwrap();
    let client = client_from(config(), &[[127, 0, 0, 1], [127, 0, 0, 3]]);
    let connection = soon(client.connect_mmsp1(&[host])).await.unwrap();
    let mut streams = [soon(connection.open()).await.unwrap(), soon(connection.open()).await.unwrap()];
    for number in 0..MESSAGES {
        for (send, _) in &mut streams {
            let data = pattern(usize::from(number) * 50 + 1);
            soon(send.send_message(data.into(), MessageOptions::default().protocol(number.into())))
                .await
                .unwrap();
        }
    }
    for number in 0..MESSAGES {
        for (_, receive) in &mut streams {
            let message = soon(receive.receive_message()).await.unwrap().unwrap();
            assert_eq!(message.protocol, u32::from(number));
            assert!(message.data == pattern(usize::from(number) * 50 + 1));
        }
    }
    soon(connection.close(0, "")).await;
    assert_complete(&end(peer).await);
}

/// All paths at once.
fn config() -> ConnectionConfig {
    let mut config = Wire::Mmsp1.config();
    config.set_scheduler("round-robin").unwrap();
    config
}
