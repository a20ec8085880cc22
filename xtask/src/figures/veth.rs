//! The release binary over a veth pair between two network namespaces; needs root.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Describes [`gigabits`].
pub(super) fn scenario(time: Duration) -> String {
    format!(
        "two network namespaces, one veth pair, MTU 1500; manyway serve in one, manyway --json bench -t {} TICKET in \
         the other",
        time.as_secs()
    )
}

/// Measures once; returns Gbit/s.
pub(super) fn gigabits(time: Duration) -> Result<f64, String> {
    let program = program()?;
    let [near, far] = ["a", "b"].map(|side| Namespace(format!("mwf{}{side}", std::process::id())));
    for namespace in [&near, &far] {
        ip(&["netns", "add", &namespace.0])
            .map_err(|error| format!("network namespaces need root: {error}"))?;
    }
    ip(&["link", "add", "va", "netns", &near.0, "type", "veth", "peer", "name", "vb", "netns", &far.0])?;
    for (namespace, interface, address) in [(&near, "va", "10.9.1.1/24"), (&far, "vb", "10.9.1.2/24")] {
        ip(&["-n", &namespace.0, "addr", "add", address, "dev", interface])?;
        ip(&["-n", &namespace.0, "link", "set", interface, "mtu", "1500", "up"])?;
    }
    for (namespace, interface) in [(&near, "va"), (&far, "vb")] {
        wait_for_carrier(namespace, interface)?;
    }
    let directory = tempfile::TempDir::new().map_err(|error| error.to_string())?;
    let mut serve = far.command(&program);
    serve
        .args(["serve", "--ephemeral"])
        .arg("--dir")
        .arg(directory.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut server = Server(serve.spawn().map_err(|error| error.to_string())?);
    let mut ticket = String::new();
    let out = server.0.stdout.take().ok_or("the server has no output")?;
    BufReader::new(out).read_line(&mut ticket).map_err(|error| error.to_string())?;
    let seconds = time.as_secs().to_string();
    let mut bench = near.command(&program);
    let output = bench.args(["--json", "bench", "-t", &seconds, ticket.trim()]).output();
    let output = output.map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("bench: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let summary = text.lines().last().and_then(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let rate = summary.as_ref().and_then(|summary| summary.get("bits_per_second")?.as_f64());
    rate.map(|rate| rate / 1e9).ok_or_else(|| format!("bench printed no summary: {text}"))
}

/// The binary of the same build, beside this one.
fn program() -> Result<PathBuf, String> {
    let here = std::env::current_exe().map_err(|error| error.to_string())?;
    let program = here.with_file_name("manyway");
    if program.exists() {
        return Ok(program);
    }
    Err("there is no release binary; cargo build --release -p manyway-cli".to_owned())
}

fn wait_for_carrier(namespace: &Namespace, interface: &str) -> Result<(), String> {
    for _ in 0..250 {
        if ip(&["-n", &namespace.0, "link", "show", interface])?.contains("LOWER_UP") {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err("the veth pair got no carrier".to_owned())
}

fn ip(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("ip").args(arguments).output().map_err(|error| format!("ip: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("ip {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
    }
}

/// A network namespace; dropping it removes it.
struct Namespace(String);

impl Namespace {
    fn command(&self, program: &PathBuf) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0]).arg(program);
        command
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(Command::new("ip").args(["netns", "delete", &self.0]).output());
    }
}

/// A server; dropping it ends it.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
