//! Sends a large sparse file while both sides are killed repeatedly.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use super::options::parse;
use super::process::{Namespace, POLL, Process};
use super::random::Random;
use crate::output::{show, text};

/// Options: size, rate, and number of kills.
#[derive(Debug)]
struct Plan {
    seed: u64,
    kills: u64,
    /// GiB of the file.
    size: u64,
    /// MiB of data in it; the rest is holes.
    data: u64,
    /// Mbit/s of the loopback interface.
    rate: u64,
}

/// Sends a file once undisturbed and once with kills, and prints the cost of the kills.
pub(crate) fn run(arguments: impl Iterator<Item = String>) -> ExitCode {
    let mut plan = Plan { seed: 1, kills: 5, size: 10, data: 2048, rate: 1000 };
    let parsed = parse(
        arguments,
        &mut [
            ("--seed", &mut plan.seed),
            ("--kills", &mut plan.kills),
            ("--size", &mut plan.size),
            ("--data", &mut plan.data),
            ("--rate", &mut plan.rate),
        ],
    );
    show(parsed.and_then(|()| torture(&plan)))
}

/// The cost of a series of transfers.
#[derive(Debug, Default)]
struct Cost {
    wire: u64,
    seconds: f64,
    client_peak: u64,
    server_peak: u64,
    log: String,
}

fn torture(plan: &Plan) -> Result<String, String> {
    let place = tempfile::TempDir::new().map_err(text)?;
    let mut random = Random(plan.seed);
    let source = place.path().join("big");
    make_sparse(&source, plan, &mut random)?;
    let namespace = Namespace::new(plan.rate)?;
    let undisturbed = course(&namespace, place.path(), &[])?;
    let mut thresholds: Vec<_> = (0..plan.kills)
        .map(|_| (plan.size << 30) / 100 * (3 + random.below(94)))
        .zip((0..).map(|number: u64| if number.is_multiple_of(2) { Victim::Client } else { Victim::Server }))
        .collect();
    // Both sides are killed, in an order by the seed.
    thresholds.sort_by_key(|(threshold, _)| *threshold);
    let killed = course(&namespace, place.path(), &thresholds)?;
    let mut table = String::new();
    let _ = writeln!(
        table,
        "{} GiB, {} MiB of it data, loopback at {} Mbit/s, seed {}, {} kills by SIGKILL\n{}",
        plan.size, plan.data, plan.rate, plan.seed, plan.kills, killed.log
    );
    for (name, cost) in [("undisturbed", &undisturbed), ("killed", &killed)] {
        let _ = writeln!(
            table,
            "{name:<12} {:>7.1} s {:>14} bytes on the wire, peak memory: client {} KiB, server {} KiB",
            cost.seconds, cost.wire, cost.client_peak, cost.server_peak
        );
    }
    let sign = if killed.wire < undisturbed.wire { '-' } else { '+' };
    let difference = killed.wire.abs_diff(undisturbed.wire);
    let per_myriad = difference * 10_000 / undisturbed.wire.max(1);
    let _ = writeln!(
        table,
        "sent more than undisturbed: {sign}{difference} bytes, {sign}{}.{:02} % (all on the wire: with packet headers, \
         handshakes and what was lost)",
        per_myriad / 100,
        per_myriad % 100
    );
    Ok(table)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Client,
    Server,
}

/// Sends the file into a fresh directory; kills a side whenever this much of the file has arrived.
fn course(namespace: &Namespace, place: &Path, kills: &[(u64, Victim)]) -> Result<Cost, String> {
    let target = place.join("target");
    std::fs::create_dir(&target).map_err(text)?;
    let before = namespace.bytes()?;
    let mut course = Course::start(namespace, place, &target)?;
    for (threshold, victim) in kills {
        course.wait_for(*threshold)?;
        let at = course.length();
        course.note(&format!("{victim:?} killed at {at}"));
        match victim {
            Victim::Client => {
                course.client.kill()?;
                course.start_client()?;
            }
            Victim::Server => course.restart_server()?,
        }
    }
    let summary = loop {
        if course.is_going_on()? {
            std::thread::sleep(POLL);
            continue;
        }
        if let Some(summary) = course.go_on()? {
            break summary;
        }
    };
    course.note_peaks();
    let mut cost = course.cost;
    cost.seconds = course.started.elapsed().as_secs_f64();
    cost.wire = namespace.bytes()? - before;
    let _ = writeln!(cost.log, "the last client: {summary}");
    drop((course.client, course.server));
    compare(&place.join("big"), &target.join("big"))?;
    std::fs::remove_dir_all(&target).map_err(text)?;
    Ok(cost)
}

/// A server and a client that sends to it.
struct Course<'a> {
    namespace: &'a Namespace,
    place: &'a Path,
    target: &'a Path,
    server: Process,
    client: Process,
    ticket: String,
    started: Instant,
    cost: Cost,
}

impl<'a> Course<'a> {
    fn start(namespace: &'a Namespace, place: &'a Path, target: &'a Path) -> Result<Self, String> {
        let started = Instant::now();
        let (server, ticket) = Process::serve(namespace.command(&place.join("keys"))?, LISTEN, target)?;
        let client = send(namespace, place, &ticket)?;
        Ok(Self { namespace, place, target, server, client, ticket, started, cost: Cost::default() })
    }

    /// Waits until this much of the file has arrived. A client that gave up meanwhile is restarted, as its user would.
    fn wait_for(&mut self, threshold: u64) -> Result<(), String> {
        while self.length() < threshold {
            if !self.is_going_on()? && self.go_on()?.is_some() {
                return Err(format!("it ended before {threshold} bytes had arrived"));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// The part of the file that has arrived.
    fn length(&self) -> u64 {
        self.target.join(".big.manyway-part").metadata().map_or(0, |part| part.len())
    }

    fn is_going_on(&mut self) -> Result<bool, String> {
        if !self.server.watch()? {
            return Err("the server has ended by itself".to_owned());
        }
        self.client.watch()
    }

    /// The result of the client that has ended; nothing if it was incomplete and runs again.
    fn go_on(&mut self) -> Result<Option<serde_json::Value>, String> {
        match self.client.outcome()? {
            (Some(0), Some(document)) => Ok(Some(document)),
            (Some(INCOMPLETE), Some(document)) => {
                let told = document.pointer("/error/text").cloned().unwrap_or_default();
                self.note(&format!("the client gave up and is started again: {told}"));
                self.start_client().map(|()| None)
            }
            (status, document) => Err(format!("the client ended with status {status:?}: {document:?}")),
        }
    }

    fn start_client(&mut self) -> Result<(), String> {
        self.note_peaks();
        self.client = send(self.namespace, self.place, &self.ticket)?;
        Ok(())
    }

    /// Kills the server and restarts it; the client has to notice by itself.
    fn restart_server(&mut self) -> Result<(), String> {
        self.note_peaks();
        self.server.kill()?;
        let (server, ticket) =
            Process::serve(self.namespace.command(&self.place.join("keys"))?, LISTEN, self.target)?;
        if ticket != self.ticket {
            return Err("the server has another ticket than before".to_owned());
        }
        self.server = server;
        Ok(())
    }

    fn note(&mut self, text: &str) {
        let _ = writeln!(self.cost.log, "{:>7.1} s: {text}", self.started.elapsed().as_secs_f64());
    }

    fn note_peaks(&mut self) {
        self.cost.client_peak = self.cost.client_peak.max(self.client.peak);
        self.cost.server_peak = self.cost.server_peak.max(self.server.peak);
    }
}

fn send(namespace: &Namespace, place: &Path, ticket: &str) -> Result<Process, String> {
    let mut command = namespace.command(&place.join("keys"))?;
    command.args(["--json", "send", "big", ticket]).current_dir(place);
    Process::start(command)
}

/// The status of a transfer that the same command resumes.
const INCOMPLETE: i32 = 4;
/// Inside of the namespace the port is free.
const LISTEN: &str = "127.0.0.1:4455";

/// Scatters the data in pieces of 1 MiB over the file.
fn make_sparse(path: &Path, plan: &Plan, random: &mut Random) -> Result<(), String> {
    let file = File::create(path).map_err(text)?;
    file.set_len(plan.size << 30).map_err(text)?;
    let mut piece = vec![0; 1 << 20];
    let places = plan.size << 10;
    let every = (places / plan.data.max(1)).max(1);
    for number in 0..plan.data.min(places) {
        random.fill(&mut piece);
        let at = (number * every + random.below(every)) << 20;
        file.write_all_at(&piece, at).map_err(text)?;
    }
    file.sync_all().map_err(text)
}

/// Checks that the copy has the same content and takes no more room.
fn compare(source: &Path, copy: &Path) -> Result<(), String> {
    let (mut left, mut right) = (File::open(source).map_err(text)?, File::open(copy).map_err(text)?);
    let (a, b) = (left.metadata().map_err(text)?, right.metadata().map_err(text)?);
    if a.len() != b.len() || b.blocks() > a.blocks() + a.blocks() / 100 {
        let (a, b) = ((a.len(), a.blocks()), (b.len(), b.blocks()));
        return Err(format!("length and blocks of the copy differ: {a:?} and {b:?}"));
    }
    let (mut ours, mut theirs) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        let read = left.read(&mut ours).map_err(text)?;
        if read == 0 {
            return Ok(());
        }
        let theirs = theirs.get_mut(..read).ok_or("no room")?;
        right.read_exact(theirs).map_err(text)?;
        if ours.get(..read) != Some(&*theirs) {
            return Err("the content of the copy differs".to_owned());
        }
    }
}
