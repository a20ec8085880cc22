//! QUIC libraries of others, each between two processes of the program `manyway-peers`, which is built apart
//! (`contrib/peers`): nothing of Manyway depends on them.
//!
//! | process | line |
//! |---|---|
//! | receiver | an announcement, which the sender gets as an argument; in the end `{"received":BYTES,"seconds":TIME,"cpu":TIME}` |
//! | sender | `{"begun":true}` when its traffic begins; in the end `{"sent":BYTES,"cpu":TIME}` |

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use manyway_sim::pair::Side;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::machine;
use super::sample::Sample;
use crate::real::helper::Helper;
use crate::real::process::Trouble;
use crate::stop::Stop;

/// The program, and what it has.
#[derive(Debug)]
pub(crate) struct Peers {
    program: PathBuf,
    /// Name and version of each library.
    libraries: Vec<(String, String)>,
}

impl Peers {
    /// The program that the user names, or the one beside the lab, or the one in the search path.
    ///
    /// # Errors
    /// Why there is none, and how to get it.
    pub(crate) fn find(lab: &Path, named: Option<&Path>) -> Result<Self, String> {
        let program = named.map_or_else(|| Self::program(lab), Path::to_owned);
        let output = match Command::new(&program).arg("libraries").output() {
            Ok(output) => output,
            Err(error) if error.kind() == io::ErrorKind::NotFound && named.is_none() => {
                return Err(format!(
                    "there is no {PROGRAM} beside the lab or in PATH: `just peers` builds it"
                ));
            }
            Err(error) => return Err(format!("{} can not be run: {error}", program.display())),
        };
        let libraries = libraries(&String::from_utf8_lossy(&output.stdout));
        if !output.status.success() || libraries.is_empty() {
            return Err(format!("{} does not list its libraries", program.display()));
        }
        Ok(Self { program, libraries })
    }

    /// The program beside the lab, or the one in the search path.
    pub(crate) fn program(lab: &Path) -> PathBuf {
        let beside = lab.with_file_name(PROGRAM);
        if beside.exists() { beside } else { PathBuf::from(PROGRAM) }
    }

    /// Whether it has a library.
    pub(crate) fn has(&self, library: &str) -> bool {
        self.libraries.iter().any(|(name, _)| name == library)
    }

    /// The libraries with their versions, as a remark.
    pub(super) fn versions(&self) -> String {
        let all: Vec<String> =
            self.libraries.iter().map(|(name, version)| format!("{name} {version}")).collect();
        format!("versions: {}", all.join(", "))
    }

    /// Lets a process at the server receive at an address what one at the client sends for a time; `at` is the command
    /// that runs a program at a side.
    pub(super) fn measure(
        &self,
        library: &str,
        (address, duration): (IpAddr, Duration),
        at: &dyn Fn(Side, &Path) -> Command,
        stop: &Stop,
    ) -> Result<Sample, Trouble> {
        let mut command = at(Side::Server, &self.program);
        command.args(["receive", library, &SocketAddr::new(address, 0).to_string()]);
        let mut receiver = Helper::start("the receiver", command)?;
        let announcement = receiver.line(PATIENCE, stop)?;
        let mut command = at(Side::Client, &self.program);
        command.args(["send", library, &announcement, "--seconds", &duration.as_secs_f64().to_string()]);
        let mut sender = Helper::start("the sender", command)?;
        let _: Begun = understood("sender", &sender.line(PATIENCE, stop)?)?;
        let before = machine::busy_time();
        let deadline = Instant::now() + duration + PATIENCE;
        let (mut sent, mut received) = (None, None);
        loop {
            stop.check().map_err(Trouble::Lab)?;
            if let (Some(sent), Some(received)) = (&sent, &received) {
                let worked = machine::busy_time().saturating_sub(before);
                return sample(sent, received, worked).map_err(Trouble::Failure);
            }
            if sent.is_none() {
                sent = sender.poll(LOOK)?.map(|line| understood("sender", &line)).transpose()?;
            }
            if received.is_none() {
                received = receiver.poll(LOOK)?.map(|line| understood("receiver", &line)).transpose()?;
            }
            if Instant::now() >= deadline {
                let words = [sender.words(), receiver.words()].join(" ");
                return Err(Trouble::Failure(format!("it does not come to its end: {}", words.trim())));
            }
        }
    }
}

/// The sender's traffic begins.
#[derive(Debug, Deserialize)]
struct Begun {
    #[expect(dead_code, reason = "its presence tells that the line is this one")]
    begun: bool,
}

/// What a sender measured: bytes, and processor time in seconds.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Sent {
    sent: u64,
    cpu: f64,
}

/// What a receiver measured: bytes, the time from the first to the last, and processor time, both in seconds.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Received {
    received: u64,
    seconds: f64,
    cpu: f64,
}

fn understood<T: DeserializeOwned>(who: &str, line: &str) -> Result<T, Trouble> {
    serde_json::from_str(line)
        .map_err(|error| Trouble::Failure(format!("the {who} is not understood: {error}: {line:.80}")))
}

/// The figures; the error tells what can not be.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn sample(sent: &Sent, received: &Received, worked: Duration) -> Result<Sample, String> {
    let (bytes, seconds) = (received.received, received.seconds);
    if bytes != sent.sent || bytes == 0 {
        return Err(format!("{bytes} of {} bytes arrived", sent.sent));
    }
    let is_time = |time: f64| time.is_finite() && time > 0.0;
    if ![seconds, received.cpu, sent.cpu].into_iter().all(is_time) {
        return Err(format!("these can not be times: {seconds}, {} and {} s", sent.cpu, received.cpu));
    }
    let cost = |time: f64| time / bytes as f64 * 1e9;
    Ok(Sample {
        gigabits: bytes as f64 * 8.0 / seconds / 1e9,
        sender: cost(sent.cpu),
        receiver: cost(received.cpu),
        machine: cost(worked.as_secs_f64()),
        lost: 0.0,
    })
}

/// The libraries in a list: name and version of each on a line of its own.
fn libraries(text: &str) -> Vec<(String, String)> {
    let words = text.lines().filter_map(|line| line.split_once(' '));
    words.map(|(name, version)| (name.to_owned(), version.to_owned())).collect()
}

const PROGRAM: &str = "manyway-peers";
/// Time for an end to be ready, and for both to report.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::LabError;

    #[test]
    fn the_figures_are_those_of_both_ends() {
        let sample = measure(SENDS, RECEIVES, &Stop::default()).unwrap();
        assert_eq!((sample.gigabits, sample.sender, sample.receiver, sample.lost), (4.0, 0.5, 0.25, 0.0));
    }

    #[test]
    fn libraries_and_versions_are_read_from_a_list() {
        let peers =
            Peers { program: PathBuf::new(), libraries: libraries("quinn 0.11.12\n\nnothing\nother 3\n") };
        assert_eq!(peers.versions(), "versions: quinn 0.11.12, other 3");
        assert!(peers.has("quinn") && !peers.has("s2n-quic"));
    }

    #[test]
    fn without_a_program_the_reason_is_told() {
        let find = |named: &str| Peers::find(Path::new("lab"), Some(Path::new(named))).unwrap_err();
        let reason = find("/nowhere/peers");
        assert!(reason.starts_with("/nowhere/peers can not be run: No such file"), "{reason}");
        // One that fails, one that says something else.
        for other in ["false", "echo"] {
            assert_eq!(find(other), format!("{other} does not list its libraries"));
        }
    }

    #[test]
    fn a_program_that_dies_or_talks_nonsense_is_a_failure_with_its_words() {
        let half = r#"echo '{"begun":true}'; echo '{"sent":500000000,"cpu":0.25}'"#;
        for (sends, receives, reason) in [
            (SENDS, "echo gone >&2; exit 3", "the receiver ended with exit status: 3: gone"),
            (SENDS, "echo here; echo gone >&2; exit 4", "the receiver ended with exit status: 4: gone"),
            ("echo no route >&2; exit 5", RECEIVES, "the sender ended with exit status: 5: no route"),
            ("echo hello", RECEIVES, "the sender is not understood: expected"),
            (half, RECEIVES, "1000000000 of 500000000 bytes arrived"),
            (SENDS, r#"echo here; echo '{"received":1}'"#, "the receiver is not understood: missing field"),
            (SENDS, r#"echo x; echo '{"received":1000000000,"seconds":-2,"cpu":1}'"#, "can not be times: -2"),
        ] {
            let Err(Trouble::Failure(text)) = measure(sends, receives, &Stop::default()) else {
                panic!("this is no failure: {reason}");
            };
            assert!(text.contains(reason), "{text}");
        }
    }

    #[test]
    fn a_stop_ends_a_measurement() {
        let stop = Stop::default();
        stop.set();
        let ended = measure("sleep 9", "echo here; sleep 9", &stop);
        assert!(matches!(ended, Err(Trouble::Lab(LabError::Interrupted))));
    }

    const SENDS: &str = r#"echo '{"begun":true}'; echo '{"sent":1000000000,"cpu":0.5}'"#;
    const RECEIVES: &str = r#"echo here; echo '{"received":1000000000,"seconds":2,"cpu":0.25}'"#;

    /// With commands of the shell in the place of the program.
    fn measure(sends: &str, receives: &str, stop: &Stop) -> Result<Sample, Trouble> {
        let at = |side, _: &Path| {
            let mut command = Command::new("sh");
            command.arg("-c").arg(if side == Side::Client { sends } else { receives });
            command
        };
        let peers = Peers { program: PathBuf::new(), libraries: Vec::new() };
        peers.measure("quinn", (IpAddr::from([127, 0, 0, 1]), Duration::ZERO), &at, stop)
    }
}
