//! The processes that carry the connections: a server with `--egress`, clients with `forward`, and the destination.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::error::LabError;
use crate::real::through::beside;
use crate::stop::Stop;

/// What a process used until now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// Resident bytes.
    pub(super) resident: u64,
    /// Processor time.
    pub(super) cpu: Duration,
}

/// All processes. Dropping them ends these.
pub(super) struct Ends {
    clients: Vec<Process>,
    listening: Vec<SocketAddr>,
    server: Process,
    _destination: Process,
    _home: Home,
}

impl Ends {
    pub(super) fn start(program: &Path, clients: u32, stop: &Stop) -> Result<Self, LabError> {
        let manyway = beside(program);
        if !manyway.exists() {
            let text = format!("there is no {}: build the command beside the lab", manyway.display());
            return Err(LabError::Unsupported(text));
        }
        let home = Home::make()?;
        let mut echo = Command::new(program);
        let (destination, address) = Process::start("the destination", echo.arg("lab-echo"))?;
        let place = home.0.clone();
        let command = |words: &[&str]| {
            let mut command = Command::new(&manyway);
            command.env("MANYWAY_HOME", &place).env_remove("MANYWAY_LOG");
            command.args(["--json", "--quiet"]).args(words);
            command
        };
        let mut serve = command(&["serve", "--read-only", "--egress", "--allow", "127.0.0.1"]);
        serve.args(["--listen", "127.0.0.1:0"]).arg("--dir").arg(&place);
        let (server, _) = Process::start("manyway serve", &mut serve)?;
        let mut ends = Self {
            clients: Vec::new(),
            listening: Vec::new(),
            server,
            _destination: destination,
            _home: home,
        };
        for number in 0..clients {
            stop.check()?;
            let (mut keys, added) = Process::start(
                "manyway keys",
                &mut command(&["keys", "add", "ticket", &format!("c{number}")]),
            )?;
            let _ = keys.child.wait();
            let ticket = text_at(&added, "/ticket")?;
            let rule = format!("127.0.0.1:0:{}", address.trim());
            let (client, line) =
                Process::start("manyway forward", &mut command(&["forward", &ticket, "-L", &rule]))?;
            let listening = text_at(&line, "/forwards/0/listening")?;
            ends.listening.push(listening.parse().map_err(|_| said(&line))?);
            ends.clients.push(client);
        }
        Ok(ends)
    }

    /// Where the clients listen.
    pub(super) fn listening(&self) -> &[SocketAddr] {
        &self.listening
    }

    pub(super) fn server(&self) -> Usage {
        self.server.usage()
    }

    /// Of all clients together.
    pub(super) fn clients(&self) -> Usage {
        self.clients.iter().map(Process::usage).fold(Usage::default(), |sum, one| Usage {
            resident: sum.resident.saturating_add(one.resident),
            cpu: sum.cpu + one.cpu,
        })
    }
}

/// A process that ends with this.
struct Process {
    child: Child,
    /// The destination ends when it is closed.
    _stdin: Option<ChildStdin>,
}

impl Process {
    /// Starts it and waits for its first line.
    fn start(what: &str, command: &mut Command) -> Result<(Self, String), LabError> {
        let io = |error| LabError::Io { doing: format!("starting {what}"), error };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().map_err(io)?;
        let (stdin, output) = (child.stdin.take(), child.stdout.take());
        let process = Self { child, _stdin: stdin };
        let mut line = String::new();
        if let Some(output) = output {
            let mut output = BufReader::new(output);
            output.read_line(&mut line).map_err(io)?;
            // A closed pipe would end it at its next line.
            std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        }
        if line.is_empty() {
            return Err(LabError::Unsupported(format!("{what} ended before it was ready")));
        }
        Ok((process, line))
    }

    fn usage(&self) -> Usage {
        let of =
            |file: &str| fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).unwrap_or_default();
        Usage { resident: resident_in(&of("status")), cpu: cpu_in(&of("stat")) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `VmRSS` of `/proc/PID/status`, in bytes.
fn resident_in(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    let kib = line.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    kib << 10
}

/// User and system time of `/proc/PID/stat`: the twelfth and thirteenth field after the name in parentheses, in
/// hundredths of a second.
fn cpu_in(stat: &str) -> Duration {
    let fields = stat.rsplit_once(") ").map(|(_, fields)| fields).unwrap_or_default();
    let ticks: u64 =
        fields.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

fn text_at(line: &str, place: &str) -> Result<String, LabError> {
    let document: Value = serde_json::from_str(line).map_err(|_| said(line))?;
    document.pointer(place).and_then(Value::as_str).map(str::to_owned).ok_or_else(|| said(line))
}

fn said(line: &str) -> LabError {
    LabError::Unsupported(format!("manyway says something unknown: {line:.80}"))
}

/// A directory for keys that no user has. Dropping it removes it.
struct Home(PathBuf);

impl Home {
    fn make() -> Result<Self, LabError> {
        let path = std::env::temp_dir().join(format!("manyway-lab-flows-{}", std::process::id()));
        let io = |error| LabError::Io { doing: format!("making {}", path.display()), error };
        fs::create_dir_all(&path).map_err(io)?;
        Ok(Self(path))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // What is left is in the directory of temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_processor_time_are_read_from_proc() {
        assert_eq!(resident_in("VmHWM:\t 9 kB\nVmRSS:\t   12 kB\n"), 12 << 10);
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 50 3 4 20 0 1";
        assert_eq!(cpu_in(stat), Duration::from_secs(2));
        assert_eq!((resident_in(""), cpu_in("")), (0, Duration::ZERO));
    }

    #[test]
    fn what_a_command_prints_is_read() {
        let line = r#"{"forwards":[{"listening":"127.0.0.1:5"}]}"#;
        assert_eq!(text_at(line, "/forwards/0/listening").unwrap(), "127.0.0.1:5");
        assert!(text_at("mw1x", "/ticket").is_err());
    }
}
