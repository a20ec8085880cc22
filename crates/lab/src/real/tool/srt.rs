//! A camera that sends by SRT, with `srt-live-transmit` at both ends: messages with a lifetime, which is the latency of SRT.
//! Its receiver hands each packet out this long after it was sent, and drops what has not come by then.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use manyway_sim::pair::Side;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use super::shared::{Ended, LOOK, PATIENCE, Task, Tool, joined, text};
use crate::agent::document::{Exchange, Load, Received, Report};
use crate::error::LabError;
use crate::hosts::Hosts;

use crate::real::process::Trouble;
use crate::real::session::End;
use crate::real::through::{SRT, Verbs};
use crate::stop::Stop;

/// Camera and receiver, connected. Dropping it ends both.
pub(super) struct Film {
    camera: Ended,
    stdin: ChildStdin,
    receiver: Ended,
    stdout: ChildStdout,
    /// What the receiver says for people.
    words: JoinHandle<String>,
    /// The statistics of camera and receiver.
    statistics: [PathBuf; 2],
    shape: Shape,
    duration: Duration,
    stop: Stop,
}

/// The packets of a film.
#[derive(Debug, Clone, Copy)]
struct Shape {
    size: usize,
    interval: Duration,
    latency: Duration,
}

impl Film {
    /// Starts both ends, once the verb works, and waits until they are connected.
    pub(super) fn start(hosts: &Hosts, verbs: &Verbs, task: Task<'_>, stop: &Stop) -> Result<Self, Trouble> {
        let [Exchange { up: true, down: false, load }] = task.exchanges else {
            return Err(task.unable("it sends messages to the server, and nothing beside them"));
        };
        let Load::Messages { size: size @ 4..=MOST, interval, lifetime: Some(latency) } = *load else {
            return Err(task.unable("it sends messages of 4 to 1316 bytes with a lifetime"));
        };
        let io = |error| Trouble::Lab(LabError::Io { doing: format!("starting {SRT}"), error });
        let broken = || io(io::ErrorKind::BrokenPipe.into());
        let statistics = ["camera", "receiver"].map(|end| verbs.place().join(format!("srt-{end}")));
        let [of_camera, of_receiver] = &statistics;
        let milliseconds = latency.as_millis();

        let mut command = reporting(hosts.command(Side::Server, Path::new(SRT)), of_receiver);
        command.arg(format!("srt://{}?mode=listener&latency={milliseconds}", task.ends.listen));
        command.arg("file://con").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut receiver = Ended(command.spawn().map_err(io)?);
        let stdout = receiver.0.stdout.take().ok_or_else(broken)?;
        let errors = receiver.0.stderr.take();
        let words = thread::spawn(move || text(errors));

        let mut command = reporting(verbs.command(hosts, SRT), of_camera);
        command.arg(format!("-chunk:{size}")).arg("file://con");
        command.arg(format!("srt://{}?latency={milliseconds}&conntimeo=10000", task.ends.connect));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        // A signal reaches the program within `run`, too.
        command.process_group(0);
        let mut camera = Ended(command.spawn().map_err(io)?);
        let stdin = camera.0.stdin.take().ok_or_else(broken)?;
        until_connected(&lines(camera.0.stderr.take().ok_or_else(broken)?), stop)?;
        let (shape, duration) = (Shape { size, interval, latency }, task.scenario.duration);
        let stop = stop.clone();
        Ok(Self { camera, stdin, receiver, stdout, words, statistics, shape, duration, stop })
    }
}

impl Tool for Film {
    fn run(mut self: Box<Self>, begin: Instant) -> Result<End, LabError> {
        let (shape, stdout) = (self.shape, self.stdout);
        let reading = thread::spawn(move || watch(stdout, shape, begin));
        let sent = play(&self.stdin, shape, begin, self.duration, &self.stop)?;
        // What is in the buffers of both ends.
        thread::sleep(shape.latency + GRACE);
        let id = i32::try_from(self.camera.0.id()).ok().and_then(Pid::from_raw);
        // It may have ended by itself.
        let _ = id.map(|id| kill_process_group(id, Signal::INT));
        drop(self.stdin);
        for end in [&mut self.camera, &mut self.receiver] {
            let deadline = Instant::now() + PATIENCE;
            while matches!(end.0.try_wait(), Ok(None)) && Instant::now() < deadline {
                self.stop.check()?;
                thread::sleep(LOOK);
            }
        }
        drop((self.camera, self.receiver));
        let (received, words) = (joined(reading), joined(self.words));
        let told = self.statistics.each_ref().map(|file| fs::read_to_string(file).unwrap_or_default());
        let (told, failure) = match told_of_both(&told) {
            Ok(told) => (told, None),
            Err(error) => (BTreeMap::new(), Some(format!("{error}: {}", words.trim()))),
        };
        let client = Report { received: vec![None], sent: vec![Some(sent)], ..Report::default() };
        let server = Report { received: vec![Some(received)], sent: vec![None], ..Report::default() };
        Ok(End { client: Some(client), server: Some(server), failure, told, ..End::default() })
    }
}

/// Lets an end report its statistics since the start into a file, every few packets.
fn reporting(mut command: Command, file: &Path) -> Command {
    command.args(["-a:no", "-s:10", "-pf:json", "-f"]).arg(format!("-statsout:{}", file.display()));
    command
}

/// The lines that a program says for people.
fn lines(output: ChildStderr) -> Receiver<String> {
    let (sender, lines) = channel();
    // The pipe is read to its end, also when nothing receives the lines.
    thread::spawn(move || {
        BufReader::new(output).lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
    });
    lines
}

/// Waits until the camera says that it is connected.
fn until_connected(lines: &Receiver<String>, stop: &Stop) -> Result<(), Trouble> {
    let deadline = Instant::now() + PATIENCE;
    let mut said = String::new();
    while Instant::now() < deadline {
        stop.check().map_err(Trouble::Lab)?;
        match lines.recv_timeout(LOOK) {
            Ok(line) if line.contains("SRT target connected") => return Ok(()),
            Ok(line) => said = line,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    Err(Trouble::Failure(format!("SRT does not connect: {said}")))
}

/// Writes the packets at their times, each with its number; returns how many. Those for which the pipe has no room until they
/// are too late, since the camera does not read, count and are lost.
///
/// # Errors
/// The user interrupted, or the pipe cannot be told not to wait.
fn play(
    mut stdin: impl io::Write + AsFd,
    shape: Shape,
    begin: Instant,
    duration: Duration,
    stop: &Stop,
) -> Result<u64, LabError> {
    let failed = |error: Errno| LabError::Io { doing: format!("writing to {SRT}"), error: error.into() };
    ioctl_fionbio(&stdin, true).map_err(failed)?;
    let mut packet = vec![0; shape.size];
    for number in 0_u32.. {
        let due = shape.interval.saturating_mul(number);
        if due >= duration {
            return Ok(number.into());
        }
        stop.check()?;
        thread::sleep((begin + due).saturating_duration_since(Instant::now()));
        if let Some(place) = packet.first_chunk_mut() {
            *place = number.to_be_bytes();
        }
        let too_late = (begin + due + shape.latency).saturating_duration_since(Instant::now());
        // Whether there is room the write tells, too. A pipe takes so few bytes all at once or not at all.
        let _ = poll(&mut [PollFd::new(&stdin, PollFlags::OUT)], Timespec::try_from(too_late).ok().as_ref());
        if stdin.write_all(&packet).is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock) {
            // It has ended; the statistics tell how far it came.
            return Ok(u64::from(number) + 1);
        }
    }
    Ok(u32::MAX.into())
}

/// Reads what the receiver hands out, until its end.
fn watch(mut output: ChildStdout, shape: Shape, begin: Instant) -> Received {
    let mut received = Received::default();
    let mut packet = vec![0; shape.size];
    while output.read_exact(&mut packet).is_ok() {
        let at = begin.elapsed();
        received.arrivals.record(at, u64::try_from(shape.size).unwrap_or(u64::MAX));
        let number = packet.first_chunk().map_or(0, |place| u32::from_be_bytes(*place));
        let latency = at.saturating_sub(shape.interval.saturating_mul(number));
        received.latencies.push(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }
    received
}

/// What SRT tells of itself at both ends, in packets: sent again, and dropped since they were too late.
fn told_of_both([camera, receiver]: &[String; 2]) -> Result<BTreeMap<&'static str, f64>, String> {
    let last = |text: &str| {
        let line = text.lines().rfind(|line| !line.is_empty()).ok_or("SRT reports no statistics")?;
        serde_json::from_str::<Value>(line).map_err(|_| "the statistics of SRT are no JSON")
    };
    let (camera, receiver) = (last(camera)?, last(receiver)?);
    let number = |report: &Value, place: &str| {
        report.pointer(place).and_then(Value::as_f64).ok_or_else(|| format!("SRT does not report {place}"))
    };
    let dropped = number(&camera, "/send/packetsDropped")? + number(&receiver, "/recv/packetsDropped")?;
    Ok(BTreeMap::from([("dropped", dropped), ("sent again", number(&camera, "/send/packetsRetransmitted")?)]))
}

/// Bytes of a packet of SRT in a live stream.
const MOST: usize = 1316;
/// Time for the last packets after the latency.
const GRACE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_for_which_the_camera_has_no_room_are_lost_and_count() {
        let (mut reader, writer) = io::pipe().unwrap();
        let interval = Duration::from_nanos(1);
        let shape = Shape { size: MOST, interval, latency: Duration::ZERO };
        let sent = play(writer, shape, Instant::now(), interval * 1_000, &Stop::default()).unwrap();
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        let whole = bytes.len() / MOST;
        assert!((1..1_000).contains(&whole) && bytes.len() % MOST == 0, "{} bytes", bytes.len());
        assert_eq!(sent, 1_000);
    }

    #[test]
    fn the_last_statistics_of_both_ends_count() {
        let camera = "{}\n{\"send\":{\"packetsDropped\":1,\"packetsRetransmitted\":7}}\n\n".to_owned();
        let receiver = r#"{"recv":{"packetsDropped":2}}"#.to_owned();
        let told = told_of_both(&[camera.clone(), receiver]).unwrap();
        assert_eq!(told, BTreeMap::from([("dropped", 3.0), ("sent again", 7.0)]));
        for (receiver, reason) in
            [("", "no statistics"), ("srt", "no JSON"), ("{}", "does not report /recv/packetsDropped")]
        {
            let error = told_of_both(&[camera.clone(), receiver.to_owned()]).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
