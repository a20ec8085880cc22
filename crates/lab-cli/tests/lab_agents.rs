//! Agents of the lab as the lab drives them, over the loopback device: no root needed.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test may fail")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// An agent and its output. Dropping it kills it.
struct Agent {
    child: Child,
    words: Receiver<Value>,
}

impl Agent {
    fn start(assignment: &Value) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_manyway-lab"));
        command.arg("lab-agent").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = child.stdout.take().unwrap();
        let (sender, words) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(serde_json::from_str(&line).unwrap()).is_err() {
                    return;
                }
            }
        });
        let mut agent = Self { child, words };
        agent.order(assignment);
        agent
    }

    fn order(&mut self, order: &Value) {
        let input = self.child.stdin.as_mut().unwrap();
        // A killed agent reads no input.
        let _ = writeln!(input, "{order}");
    }

    #[track_caller]
    fn word(&self) -> Value {
        self.words.recv_timeout(PATIENCE).expect("the agent says something")
    }

    #[track_caller]
    fn expect(&self, word: &str) -> Value {
        let said = self.word();
        assert_eq!(said["word"], word, "{said}");
        said
    }

    /// Waits for its end after its input has ended.
    #[track_caller]
    fn ends(mut self) {
        drop(self.child.stdin.take());
        assert!(self.words.recv_timeout(PATIENCE).is_err());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // The agent ends its programs when its input ends.
        drop(self.child.stdin.take());
        let end = Instant::now() + PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
            std::thread::sleep(LOOK);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client and a server of one kind with 300 ms of this traffic.
fn pair(carrier: &Value, exchanges: &Value) -> (Agent, Agent) {
    let assignment = |end: &str| {
        json!({
            "end": end, "carrier": carrier, "exchanges": exchanges, "seed": 7,
            "duration": {"secs": 0, "nanos": 300_000_000}, "end_at": {"secs": 10, "nanos": 0},
        })
    };
    (Agent::start(&assignment("client")), Agent::start(&assignment("server")))
}

/// Leads both to the start.
#[track_caller]
fn begin(client: &mut Agent, server: &mut Agent) {
    let ports = [server.expect("listening"), client.expect("listening")].map(|word| word["port"].clone());
    client.order(&json!({"order": "connect", "port": ports[0]}));
    server.order(&json!({"order": "connect", "port": ports[1]}));
    for agent in [&mut *client, &mut *server] {
        assert_eq!(agent.expect("ready")["remarks"], json!([]));
    }
    for agent in [client, server] {
        agent.order(&json!({"order": "begin", "at": now()}));
    }
}

/// Nanoseconds of the clock that all processes share.
fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap()
}

/// Bulk traffic in both directions and messages beside it.
fn mixed() -> Value {
    let bulk = json!({"kind": "bulk", "size": null, "rate": 80_000_000});
    let messages = json!({"kind": "messages", "size": 100, "interval": {"secs": 0, "nanos": 20_000_000}});
    json!([{"up": true, "down": true, "load": bulk}, {"up": true, "down": false, "load": messages}])
}

#[track_caller]
fn check_mixed(client: &Value, server: &Value) {
    for report in [client, server] {
        assert_eq!(report["failure"], Value::Null);
        let bytes = report["received"][0]["arrivals"]["bytes"].as_u64().unwrap();
        assert!((500_000..=3_100_000).contains(&bytes), "80 Mbit/s for 300 ms are not {bytes} bytes");
    }
    assert_eq!(client["received"][1], Value::Null);
    let latencies = server["received"][1]["latencies"].as_array().unwrap();
    assert_eq!(latencies.len(), 15);
    assert_eq!(client["sent"][1], 15);
}

#[track_caller]
fn carries_mixed_traffic(carrier: &Value) {
    let (mut client, mut server) = pair(carrier, &mixed());
    begin(&mut client, &mut server);
    let (to_client, to_server) = (client.expect("report"), server.expect("report"));
    check_mixed(&to_client, &to_server);
    client.order(&json!({"order": "finish"}));
    server.order(&json!({"order": "finish"}));
    client.ends();
    server.ends();
}

fn tcp(congestion: &str, lanes: usize) -> Value {
    let pairs = vec![json!({"client": "127.0.0.1", "server": "127.0.0.1"}); lanes];
    json!({"kind": "tcp", "congestion": congestion, "pairs": pairs, "multipath": null})
}

fn external(sender: &str, receiver: &str) -> Value {
    let routes = [json!({"client": "127.0.0.1", "server": "127.0.0.1"})];
    json!({"kind": "external", "sender": sender, "receiver": receiver, "routes": routes})
}

fn one_way() -> Value {
    json!([{"up": true, "down": false, "load": {"kind": "bulk", "size": 1_000_000, "rate": null}}])
}

#[test]
fn tcp_carries_bulk_both_ways_and_messages() {
    carries_mixed_traffic(&tcp("cubic", 1));
}

#[test]
fn tcp_side_by_side_is_measured_as_one() {
    carries_mixed_traffic(&tcp("cubic", 3));
}

#[test]
fn manyway_carries_bulk_both_ways_and_messages() {
    for wire in ["mmsp2", "mmsp1"] {
        carries_mixed_traffic(&json!({
            "kind": "manyway", "wire": wire, "detection": "probes", "carrier": "udp", "scheduler": "min-rtt", "congestion": "cubic", "interfaces": [],
            "remotes": ["127.0.0.1"], "discover": true, "paths": 1,
        }));
    }
}

#[test]
fn an_external_program_is_fed_and_read() {
    let files = TempDir::new().unwrap();
    let pipe = files.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let pipe = pipe.display();
    let carrier = external(&format!("cat > {pipe}"), &format!("cat {pipe}"));
    let (mut client, mut server) = pair(&carrier, &one_way());
    begin(&mut client, &mut server);
    let (sent, received) = (client.expect("report"), server.expect("report"));
    assert_eq!((&sent["failure"], &received["failure"]), (&Value::Null, &Value::Null));
    assert_eq!(received["received"][0]["arrivals"]["bytes"], 1_000_000);
}

#[test]
fn a_missing_program_is_reported() {
    let (client, server) = pair(&external("no-such-sender", "cat /dev/null; sleep 20"), &one_way());
    server.expect("listening");
    let mut client = client;
    client.expect("listening");
    client.order(&json!({"order": "connect", "port": 0}));
    let text = client.expect("failed")["text"].as_str().unwrap().to_owned();
    assert!(text.contains("the sender `no-such-sender` ended with exit status: 127"), "{text}");
    assert!(text.contains("not found"), "{text}");
}

#[test]
fn a_program_that_exits_early_is_reported() {
    let sender = "head -c 10 > /dev/null; echo enough >&2; sleep 0.5; exit 3";
    let (mut client, mut server) = pair(&external(sender, "sleep 20"), &one_way());
    begin(&mut client, &mut server);
    let failure = client.expect("report")["failure"].to_string();
    assert!(failure.contains("exit status: 3: enough"), "{failure}");
}

#[test]
fn a_hanging_program_is_killed() {
    let files = TempDir::new().unwrap();
    let note = files.path().join("pid");
    let sender = format!("echo $$ > {}; exec sleep 1000", note.display());
    let (mut client, mut server) = pair(&external(&sender, "sleep 1000"), &one_way());
    begin(&mut client, &mut server);
    client.order(&json!({"order": "finish"}));
    client.expect("report");
    let id = std::fs::read_to_string(note).unwrap();
    assert!(!Path::new("/proc").join(id.trim()).exists(), "it still runs");
}

#[test]
fn child_processes_of_a_program_end_with_the_agent() {
    let files = TempDir::new().unwrap();
    let note = files.path().join("pid");
    // Renamed when it is complete.
    let receiver = format!("sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; wait", note.display());
    let (client, server) = pair(&external("cat", &receiver), &one_way());
    let start = Instant::now();
    while !note.exists() {
        assert!(start.elapsed() < PATIENCE, "the receiver does not start");
        std::thread::sleep(LOOK);
    }
    let id = std::fs::read_to_string(note).unwrap();
    drop((client, server));
    let process = Path::new("/proc").join(id.trim());
    let start = Instant::now();
    // A zombie has no command line any more.
    while std::fs::read(process.join("cmdline")).is_ok_and(|words| !words.is_empty()) {
        assert!(start.elapsed() < PATIENCE, "it still runs");
        std::thread::sleep(LOOK);
    }
}

#[test]
fn the_client_reports_the_end_of_the_server() {
    let exchanges =
        json!([{"up": true, "down": false, "load": {"kind": "bulk", "size": null, "rate": null}}]);
    let mut pair = pair(&tcp("cubic", 1), &exchanges);
    begin(&mut pair.0, &mut pair.1);
    drop(pair.1);
    let failure = pair.0.expect("report")["failure"].to_string();
    assert!(failure.contains("sending after"), "{failure}");
}

#[test]
fn an_agent_without_a_lab_ends() {
    let (client, server) = pair(&tcp("cubic", 1), &one_way());
    server.expect("listening");
    client.expect("listening");
    server.ends();
    client.ends();
}

#[test]
fn an_invalid_assignment_is_refused() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_manyway-lab"));
    let mut child = command.arg("lab-agent").stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "hello").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no assignment of the lab"));
}

/// Longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(5);
