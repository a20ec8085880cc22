//! Programs that bring their own sender and receiver, over a verb: iperf3, and curl with a web server of the lab.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use manyway_sim::pair::Side;
use serde_json::Value;

use super::process::Trouble;
use super::session::End;
use super::through::{PROXY, Verbs, sockets};
use crate::agent::document::{Exchange, Load, Received, Report};
use crate::contender::{Program, Through};
use crate::error::LabError;
use crate::hosts::Hosts;
use crate::outcome::Arrivals;
use crate::scenario::Scenario;
use crate::stop::Stop;

/// A program at each end. Dropping it ends both.
pub(super) struct Tool {
    program: Program,
    /// Starts when the traffic does.
    client: Command,
    receiver: Side,
    duration: Duration,
    stop: Stop,
    /// What serves it ends with this.
    _server: Box<dyn Send>,
}

/// A child that ends with this.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Tool {
    /// Starts the server, once the verb works.
    pub(super) fn start(
        hosts: &Hosts,
        verbs: &Verbs,
        (through, scenario, exchanges): (&Through, &Scenario, &[Exchange]),
        stop: &Stop,
    ) -> Result<Self, Trouble> {
        let unable = |why: &str| {
            Trouble::Lab(LabError::Unsupported(format!("{through} is skipped in {}: {why}", scenario.name)))
        };
        let [Exchange { up, down, load: Load::Bulk { size: None, rate: None, chunk: None } }] = exchanges
        else {
            return Err(unable("it sends bulk without an end, and nothing beside it"));
        };
        let receiver = match (up, down) {
            (true, false) => Side::Server,
            (false, true) => Side::Client,
            _ => return Err(unable("it sends one way")),
        };
        let ends = sockets(through);
        let (server, client): (Box<dyn Send>, Command) = match through.program {
            Program::Curl if receiver == Side::Server => return Err(unable("it downloads")),
            Program::Curl => {
                let mut client = verbs.command(hosts, "curl");
                client.args(["-sS", "--noproxy", "", &format!("http://{}/", ends.connect)]);
                if ends.proxy.is_some() {
                    client.args(["--proxy", &format!("socks5h://127.0.0.1:{PROXY}")]);
                }
                (Box::new(Web::start(hosts, ends.listen, scenario.duration)?), client)
            }
            Program::Iperf3 | Program::Own => {
                let (listen, port) = (ends.listen.ip().to_string(), ends.listen.port().to_string());
                let mut server = hosts.command(Side::Server, "iperf3".as_ref());
                server.args(["-s", "-1", "-B", &listen, "-p", &port, "--forceflush"]);
                let mut client = verbs.iperf3(hosts)?;
                // Only whole seconds.
                let time = scenario.duration.as_secs_f64().ceil().to_string();
                client.args(["-c", &ends.connect.ip().to_string(), "-p", &port, "-J", "-i", "0.1"]);
                client.args(["-t", &time, "-P", &through.flows.to_string()]);
                client.arg(if receiver == Side::Client { "-R" } else { "--get-server-output" });
                (Box::new(listening(server)?), client)
            }
        };
        let (program, duration) = (through.program, scenario.duration);
        Ok(Self { program, client, receiver, duration, stop: stop.clone(), _server: server })
    }

    /// Runs the program at the client from an instant on, and reports what arrived.
    pub(super) fn run(mut self, begin: Instant) -> Result<End, LabError> {
        while let Some(left) = begin.checked_duration_since(Instant::now()) {
            thread::sleep(left.min(LOOK));
        }
        self.client.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let io = |error| LabError::Io { doing: format!("running {}", self.program.name()), error };
        let mut child = Ended(self.client.spawn().map_err(io)?);
        let output = child.0.stdout.take();
        let reading = match self.program {
            Program::Curl => thread::spawn(move || Output::Arrivals(arrivals(output, begin))),
            Program::Iperf3 | Program::Own => thread::spawn(move || Output::Text(text(output))),
        };
        let errors = child.0.stderr.take();
        let errors = thread::spawn(move || text(errors));
        let deadline = begin + self.duration.saturating_mul(2) + PATIENCE;
        let status = loop {
            self.stop.check()?;
            match child.0.try_wait().map_err(io)? {
                Some(status) => break Some(status),
                None if Instant::now() > deadline => break None,
                None => thread::sleep(LOOK),
            }
        };
        // It ends, and with it its output.
        drop(child);
        let received = match joined(reading) {
            Output::Arrivals(arrivals) => Ok(arrivals),
            Output::Text(text) => of_iperf3(&text, self.receiver),
        };
        let errors = joined(errors);
        let failure = match status {
            None => Some(format!("{} does not end", self.program.name())),
            Some(status) if !status.success() => {
                Some(format!("{} ended with {status}: {}", self.program.name(), errors.trim()))
            }
            Some(_) => None,
        };
        Ok(end(self.receiver, received, failure))
    }
}

/// What a program printed.
enum Output {
    /// The data themselves.
    Arrivals(Arrivals),
    /// A report of them.
    Text(String),
}

fn joined<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn end(receiver: Side, received: Result<Arrivals, String>, failure: Option<String>) -> End {
    let failure = failure.or_else(|| received.as_ref().err().cloned());
    let arrivals = received.unwrap_or_default();
    let bytes = arrivals.total().get();
    let received = vec![Some(Received { arrivals, ..Received::default() })];
    let receiving = Report { received, sent: vec![None], ..Report::default() };
    let sending = Report { received: vec![None], sent: vec![Some(bytes)], ..Report::default() };
    let (client, server) = match receiver {
        Side::Client => (receiving, sending),
        Side::Server => (sending, receiving),
    };
    End { client: Some(client), server: Some(server), failure, ..End::default() }
}

/// Starts iperf3, and waits until it listens.
fn listening(mut command: Command) -> Result<Ended, Trouble> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let io = |error| Trouble::Lab(LabError::Io { doing: "starting iperf3".to_owned(), error });
    let mut child = Ended(command.spawn().map_err(io)?);
    let mut output =
        BufReader::new(child.0.stdout.take().ok_or_else(|| io(io::ErrorKind::BrokenPipe.into()))?);
    let mut line = String::new();
    while !line.contains("Server listening") {
        line.clear();
        if output.read_line(&mut line).map_err(io)? == 0 {
            return Err(Trouble::Failure("iperf3 -s does not listen".to_owned()));
        }
    }
    // Its reports are not read, but the pipe has room for them.
    thread::spawn(move || io::copy(&mut output, &mut io::sink()));
    Ok(child)
}

/// Everything that a program prints.
fn text(output: Option<impl io::Read>) -> String {
    let mut bytes = Vec::new();
    // What was read until an error is better than nothing.
    let _ = output.map(|output| output.take(MOST_TEXT).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Counts what arrives, until the end.
fn arrivals(output: Option<impl io::Read>, begin: Instant) -> Arrivals {
    let mut arrivals = Arrivals::default();
    let Some(mut output) = output else { return arrivals };
    let mut buffer = vec![0; READ];
    while let Ok(length @ 1..) = output.read(&mut buffer) {
        arrivals.record(begin.elapsed(), u64::try_from(length).unwrap_or(u64::MAX));
    }
    arrivals
}

/// What arrived at the receiver, from the report of iperf3 at the client.
fn of_iperf3(text: &str, receiver: Side) -> Result<Arrivals, String> {
    let report: Value =
        serde_json::from_str(text).map_err(|error| format!("iperf3 reports no JSON: {error}"))?;
    if let Some(error) = report.get("error").and_then(Value::as_str) {
        return Err(format!("iperf3: {error}"));
    }
    let of_receiver = match receiver {
        Side::Client => Some(&report),
        Side::Server => report.get("server_output_json"),
    };
    let intervals = of_receiver.and_then(|report| report.get("intervals")?.as_array());
    let mut arrivals = Arrivals::default();
    for interval in intervals.ok_or("iperf3 reports no intervals")? {
        let number = |name: &str| interval.pointer(&format!("/sum/{name}")).and_then(Value::as_f64);
        let bytes = interval.pointer("/sum/bytes").and_then(Value::as_u64);
        let (Some(start), Some(end), Some(bytes)) = (number("start"), number("end"), bytes) else {
            return Err("an interval of iperf3 has no start, end or bytes".to_owned());
        };
        spread(
            &mut arrivals,
            [start, end].map(|time| Duration::try_from_secs_f64(time).unwrap_or_default()),
            bytes,
        );
    }
    Ok(arrivals)
}

/// Adds bytes of which only the interval is known.
fn spread(arrivals: &mut Arrivals, [start, end]: [Duration; 2], bytes: u64) {
    if arrivals.span().is_none() {
        arrivals.record(start, 0);
    }
    let pieces = u64::try_from(end.saturating_sub(start).as_millis()).unwrap_or(u64::MAX) / 10;
    let pieces = pieces.clamp(1, 1_000);
    let mut left = bytes;
    for piece in 1..=pieces {
        let part = left / (pieces - piece + 1);
        left -= part;
        let passed = (end.saturating_sub(start))
            .mul_f64(crate::measures::count(piece) / crate::measures::count(pieces));
        arrivals.record(start + passed, part);
    }
}

/// A web server whose only page goes on for the duration of a run. Dropping it ends it.
struct Web {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Web {
    fn start(hosts: &Hosts, address: SocketAddr, lasts: Duration) -> Result<Self, Trouble> {
        let io = |error| Trouble::Lab(LabError::Io { doing: format!("listening at {address}"), error });
        let listener = hosts.inside(Side::Server, || TcpListener::bind(address)).map_err(Trouble::Lab)?;
        let listener = listener.map_err(io)?;
        listener.set_nonblocking(true).map_err(io)?;
        let ended = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&ended);
        let serve = move || {
            while !stop.load(Ordering::Relaxed) {
                match listener.accept() {
                    // A reader that leaves has its own reasons.
                    Ok((socket, _)) => drop(answer(socket, lasts, &stop)),
                    Err(_) => thread::sleep(LOOK),
                }
            }
        };
        Ok(Self { ended, thread: Some(thread::spawn(serve)) })
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has nothing to tell.
            let _ = thread.join();
        }
    }
}

/// Reads a request, and sends until the time is over.
fn answer(mut socket: TcpStream, lasts: Duration, stop: &AtomicBool) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(socket.try_clone()?.take(MOST_REQUEST)).lines();
    while !lines.next().transpose()?.is_none_or(|line| line.is_empty()) {}
    socket.write_all(
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/octet-stream\r\n\r\n",
    )?;
    let mut page = vec![0; READ];
    blake3::Hasher::new().finalize_xof().fill(&mut page);
    let end = Instant::now() + lasts;
    while Instant::now() < end && !stop.load(Ordering::Relaxed) {
        socket.write_all(&page)?;
    }
    Ok(())
}

/// Bytes of one read or write.
const READ: usize = 128 << 10;
/// Bytes of a report, and of a request.
const MOST_TEXT: u64 = 64 << 20;
const MOST_REQUEST: u64 = 64 << 10;
/// Time beyond that of the traffic.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"{"intervals":[
        {"streams":[],"sum":{"start":0,"end":0.1,"seconds":0.1,"bytes":125000}},
        {"streams":[],"sum":{"start":0.1,"end":0.2,"seconds":0.1,"bytes":250001}}]}"#;

    #[test]
    fn the_intervals_of_iperf3_are_arrivals() {
        let arrivals = of_iperf3(REPORT, Side::Client).unwrap();
        assert_eq!(arrivals.total().get(), 375_001);
        assert_eq!(arrivals.span(), Some((Duration::ZERO, Duration::from_millis(200))));
        let megabits = |from, to| {
            let at = Duration::from_millis;
            arrivals.rate(at(from), at(to)).bits_per_second() / 1_000_000
        };
        assert_eq!((megabits(10, 90), megabits(110, 190)), (10, 20));
        assert_eq!(arrivals.goodput().bits_per_second() / 1_000_000, 15);
    }

    #[test]
    fn of_an_upload_the_report_of_the_server_counts() {
        let whole = format!(r#"{{"intervals":[],"server_output_json":{REPORT}}}"#);
        assert_eq!(of_iperf3(&whole, Side::Server).unwrap().total().get(), 375_001);
        assert!(of_iperf3(REPORT, Side::Server).is_err());
    }

    #[test]
    fn an_error_of_iperf3_is_a_failure() {
        for (text, reason) in [
            (r#"{"intervals":[],"error":"unable to connect to server"}"#, "unable to connect"),
            ("iperf3: error", "no JSON"),
            (r#"{"start":{}}"#, "no intervals"),
            (r#"{"intervals":[{"sum":{"start":0}}]}"#, "has no start, end or bytes"),
        ] {
            let failure = of_iperf3(text, Side::Client).unwrap_err();
            assert!(failure.contains(reason), "{failure}");
        }
    }
}
