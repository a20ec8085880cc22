//! What an endpoint does while its only connection is idle.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test, with a figure for people")]

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use manyway::{Endpoint, EndpointOptions, LocalAddress, Locals, Role, ServerOptions};

use crate::common::{SECRET, address, identity, read_all, soon, ticket};

/// Set in the process that has only the two endpoints: others of this program's tests would be counted, too.
const ALONE: &str = "MANYWAY_WAKE_UPS_ALONE";
/// From the last bytes until the count begins: acknowledgements and the release of memory lie in it.
const SETTLE: Duration = Duration::from_secs(3);
const IDLE: Duration = Duration::from_secs(10);

#[test]
fn an_endpoint_with_an_idle_connection_wakes_up_at_most_once_a_second() {
    if std::env::var_os(ALONE).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        return runtime.block_on(count());
    }
    let name = "wake_ups::an_endpoint_with_an_idle_connection_wakes_up_at_most_once_a_second";
    let mut alone = Command::new(std::env::current_exe().unwrap());
    alone.args([name, "--exact", "--nocapture", "--test-threads=1"]).env(ALONE, "1");
    let output = alone.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("wake-ups"), "{output:?}");
    println!("{text}");
}

async fn count() {
    let mut options = EndpointOptions::default();
    let mut serving = ServerOptions::new(identity(), &SECRET);
    serving.listen = vec!["127.0.0.1:0".parse().unwrap()];
    serving.threads = 1;
    options.server = Some(serving);
    let server = Endpoint::bind(options).unwrap();
    let mut options = EndpointOptions::default();
    let local = LocalAddress { interface: 0, address: ([127, 0, 0, 1], 0).into() };
    options.locals = Locals::Fixed(vec![(local, Role::Primary)]);
    let client = Endpoint::bind(options).unwrap();
    let ticket = ticket(&[address(&server)]);
    let (ours, theirs) = soon(async { tokio::join!(client.connect(&ticket), server.accept()) }).await;
    let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
    let (mut send, _) = ours.open().await.unwrap();
    send.write_chunk(vec![7; 1000].into()).await.unwrap();
    send.finish().unwrap();
    let (_, mut receive) = theirs.accept().await.unwrap();
    assert_eq!(soon(read_all(&mut receive)).await.len(), 1000);

    tokio::time::sleep(SETTLE).await;
    let before = switches();
    tokio::time::sleep(IDLE).await;
    let after = switches();
    assert_eq!(before.len(), 2, "one thread for each endpoint: {before:?}");
    for (thread, count) in after {
        let wake_ups = count - before.get(&thread).unwrap();
        println!("{wake_ups} wake-ups of an endpoint in {IDLE:?}");
        assert!(wake_ups <= IDLE.as_secs(), "{wake_ups}");
    }
}

/// How often each thread of an endpoint gave up its core by itself, which it does to wait.
fn switches() -> BTreeMap<String, u64> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let statuses = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).unwrap());
    let of_endpoints = statuses.filter(|status| status.starts_with("Name:\tmanyway-"));
    let field = |status: &str, name| {
        let value = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        value.trim().to_owned()
    };
    let count = |status: String| {
        (field(&status, "Pid:"), field(&status, "voluntary_ctxt_switches:").parse().unwrap())
    };
    of_endpoints.map(count).collect()
}
