//! `manyway status`, and the log of a server.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::place::Place;
use crate::common::program::{MANYWAY, Running, Server, as_user, make_file, wait_until};

/// A user with a runtime directory and keys of its own.
struct User(TempDir);

impl User {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn own(&self, mut command: Command) -> Command {
        as_user(&mut command, self.0.path());
        command
    }

    fn serve(&self, place: &Place, arguments: &[&str]) -> Server {
        let serving = place.serving(&[&["--listen", "127.0.0.1:0"], arguments].concat());
        Server::start(self.own(serving))
    }

    fn run(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(MANYWAY);
        command.args(arguments);
        Running::start(self.own(command)).end().expect(0).out
    }

    /// Its commands with this verb, by `status --json`.
    fn commands(&self, verb: &str) -> Vec<Value> {
        let document: Value = serde_json::from_str(&self.run(&["status", "--json"])).unwrap();
        let commands = document["commands"].as_array().unwrap().clone();
        commands.into_iter().filter(|command| command["verb"] == verb).collect()
    }

    fn sockets(&self) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(self.0.path().join("manyway")) else { return Vec::new() };
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// A ticket of a server of this user with a rate of half a megabyte a second.
    fn slow_ticket(&self) -> String {
        let printed = self.run(&["keys", "add", "ticket", "slow", "--max-rate", "4M"]);
        printed.lines().find(|line| line.starts_with("mw1")).unwrap().to_owned()
    }
}

#[test]
fn a_running_transfer_is_shown_at_both_ends_with_peers_paths_rates_and_files() {
    let (place, user) = (Place::new(), User::new());
    let server = user.serve(&place, &[]);
    let ticket = user.slow_ticket();
    make_file(&place.here().join("film"), 50_000_000);
    let sending = Running::start(user.own(place.command(&["send", "film", &ticket])));
    let is_moving = |command: &Value| {
        let path = &command["peers"][0]["paths"][0];
        path["sent_bits_per_second"].as_u64().is_some_and(|rate| rate > 500_000)
    };
    wait_until("a rate", || user.commands("send").first().is_some_and(is_moving));

    let sender = &user.commands("send")[0];
    assert_eq!(sender["pid"], sending.id());
    assert_eq!((&sender["files"]["files"], &sender["files"]["current"]), (&1.into(), &"film".into()));
    assert!(sender["files"]["bytes_done"].as_u64().unwrap() > 0, "{sender}");
    let path = &sender["peers"][0]["paths"][0];
    assert_eq!((&path["state"], &path["local"]), (&"active".into(), &"127.0.0.1".into()), "{sender}");
    // The rate limit passes bursts.
    let is_receiving = |command: &Value| {
        command["peers"][0]["received_bits_per_second"].as_u64().is_some_and(|rate| rate > 500_000)
    };
    wait_until("its rate at the server", || user.commands("serve").first().is_some_and(is_receiving));
    let receiver = &user.commands("serve")[0];
    let client = &receiver["peers"][0];
    assert_eq!(
        (&client["name"], &client["files"]["current"]),
        (&"slow".into(), &"film".into()),
        "{receiver}"
    );

    let secret = &ticket[3..40];
    let text = user.run(&["status"]);
    for part in ["send ", "serve ", "film", "active", "slow"] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let metrics = user.run(&["status", "--prometheus"]);
    assert!(metrics.contains("# TYPE manyway_path_sent_bytes_total counter"), "{metrics}");
    assert!(metrics.contains("verb=\"send\"") && metrics.contains("state=\"active\""), "{metrics}");
    for told in [&text, &metrics, &sender.to_string(), &receiver.to_string()] {
        assert!(!told.contains(secret) && !told.contains("mw1"), "a ticket is a secret: {told}");
    }
    for socket in user.sockets() {
        let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{socket:?}");
    }
    sending.signal("INT");
    sending.end().expect(130);
    server.stop().expect(0);
    assert!(user.sockets().is_empty(), "{:?}", user.sockets());
}

#[test]
fn a_command_that_does_not_answer_is_named() {
    let (place, user) = (Place::new(), User::new());
    let server = user.serve(&place, &[]);
    server.running.suspend();
    let socket = user.sockets().pop().unwrap();
    let expected = format!("the command at {} does not answer", socket.display());
    assert_eq!(user.run(&["status"]).split_whitespace().collect::<Vec<_>>().join(" "), expected);
    let document: Value = serde_json::from_str(&user.run(&["status", "--json"])).unwrap();
    assert_eq!(document, serde_json::json!({ "commands": [], "unanswered": [socket] }));
    let mut primary = Command::new(MANYWAY);
    primary.args(["paths", "--primary", "eth0"]);
    Running::start(user.own(primary)).end().expect(1).says(&expected);
    server.running.signal("CONT");
    server.stop().expect(0);
    assert_eq!(user.run(&["status"]), "no command of this user is running\n");
}

#[test]
fn a_forward_and_a_proxy_are_listed_with_their_peer_and_its_paths() {
    let (place, user) = (Place::new(), User::new());
    let server = user.serve(&place, &["--egress"]);
    let address = server.listening();
    for (verb, arguments) in
        [("forward", ["-L", "127.0.0.1:0:example.org:80"]), ("proxy", ["--listen", "127.0.0.1:0"])]
    {
        let arguments = [&[verb, &server.ticket], &arguments[..]].concat();
        let running = Running::start(user.own(place.command(&arguments)));
        running.wait_until("its port", || !running.printed().is_empty());
        wait_until("its path", || {
            user.commands(verb).first().is_some_and(|it| it["peers"][0]["paths"][0]["state"] == "active")
        });
        let command = &user.commands(verb)[0];
        assert_eq!(command["pid"], running.id());
        let peers = command["peers"].as_array().unwrap();
        let path = &peers[0]["paths"][0];
        assert_eq!((peers.len(), &path["remote"]), (1, &address.as_str().into()), "{command}");
        assert_eq!(path["local"], "127.0.0.1", "{command}");
        assert_eq!(user.commands("serve")[0]["peers"][0]["name"], "default");
        let text = user.run(&["status"]);
        assert!(text.contains(verb) && text.contains(&address), "{text}");
        running.signal("TERM");
        running.end().expect(0);
        wait_until("the end of its connection", || {
            user.commands("serve")[0]["peers"].as_array().unwrap().is_empty()
        });
        assert!(user.commands(verb).is_empty());
    }
}

#[test]
fn the_socket_of_a_killed_command_is_removed_at_the_next_look() {
    let (place, user) = (Place::new(), User::new());
    let server = user.serve(&place, &["--ephemeral"]);
    assert_eq!(user.commands("serve").len(), 1);
    let Server { running, .. } = server;
    running.signal("KILL");
    wait_until("its end", || !std::path::Path::new(&format!("/proc/{}/fd/0", running.id())).exists());
    drop(running);
    assert_eq!(user.sockets().len(), 1, "no process could remove it");
    assert!(user.commands("serve").is_empty());
    assert!(user.sockets().is_empty(), "{:?}", user.sockets());
    assert_eq!(user.run(&["status"]), "no command of this user is running\n");
}

#[test]
fn a_server_logs_a_line_for_each_client_file_failure_and_refusal_and_no_secret() {
    let (place, user) = (Place::new(), User::new());
    let server = user.serve(&place, &["--read-only"]);
    make_file(&place.there().join("film"), 100_000);
    make_file(&place.here().join("own"), 1000);
    place.run(&["-q", "get", &server.ticket, "film"]).expect(0);
    server.running.wait_for("client 1 left");
    let _ = place.run(&["-q", "send", "own", &server.ticket]);
    server.running.wait_for("client 2 left");
    let ticket = server.ticket.clone();
    let log = server.stop().expect(0).err;
    for part in [
        "client 1 connected ticket default, from 127.0.0.1:",
        "client 1 sent film, 97.6 KiB",
        "client 2 refused ",
    ] {
        assert!(log.contains(part), "{part} in\n{log}");
    }
    assert!(!log.contains(&ticket[3..40]), "{log}");
}

#[test]
fn a_server_logs_json_on_request_and_an_unknown_client_is_refused_in_it() {
    let (place, user, other) = (Place::new(), User::new(), User::new());
    let server = user.serve(&place, &["--log-format", "json"]);
    make_file(&place.here().join("own"), 1000);
    place.run(&["-q", "send", "own", &server.ticket]).expect(0);
    server.running.wait_for("\"event\":\"left\"");
    user.run(&["keys", "remove", "default"]);
    let refused = Running::start(other.own(place.command(&["-q", "send", "own", &server.ticket]))).end();
    assert_eq!(refused.code, Some(3), "{refused:?}");
    let ticket = server.ticket.clone();
    let log = server.stop().expect(0).err;
    let documents: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!log.contains(&ticket[3..30]), "{log}");
    let of = |event: &str| documents.iter().find(|line| line["event"] == event).unwrap_or(&Value::Null);
    assert_eq!((&of("connected")["name"], &of("received")["file"]), (&"default".into(), &"own".into()));
    assert_eq!(of("received")["bytes"], 1000);
    assert!(of("left")["bytes_received"].as_u64().unwrap() >= 1000, "{log}");
    assert_eq!(of("refused")["reason"], "unknown key", "{log}");
    assert!(of("refused")["from"].as_str().unwrap().starts_with("127.0.0.1:"), "{log}");
    let listening = of("listening");
    assert_eq!(listening["directory"], place.there().display().to_string(), "{log}");
    assert!(listening["addresses"][0].as_str().unwrap().starts_with("127.0.0.1:"), "{log}");
    assert_eq!(of("stopping")["signal"], "SIGTERM", "{log}");

    let failed = Running::start(place.serving(&["--listen", "192.0.2.1:1", "--log-format", "json"])).end();
    let error: Value = serde_json::from_str(failed.err.trim()).unwrap();
    assert_eq!((&error["event"], &error["error"]["code"]), (&"error".into(), &1.into()), "{failed:?}");
}
