//! iperf3, whose report at the client tells what arrived in each tenth of a second.

use std::io::{self, BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use manyway_sim::pair::Side;
use serde_json::Value;

use super::download::Ends;
use super::shared::{Ended, Task, spread, text};
use crate::error::LabError;
use crate::hosts::Hosts;
use crate::outcome::Arrivals;
use crate::real::process::Trouble;
use crate::real::through::Verbs;
use crate::stop::Stop;

/// iperf3 at both ends.
pub(super) struct Iperf3 {
    _server: Ended,
    receiver: Side,
}

impl Ends for Iperf3 {
    fn start(
        hosts: &Hosts,
        verbs: &Verbs,
        Task { through, scenario, ends, .. }: Task<'_>,
        receiver: Side,
        _: &Stop,
    ) -> Result<(Self, Command), Trouble> {
        let (listen, port) = (ends.listen.ip().to_string(), ends.listen.port().to_string());
        let mut server = hosts.command(Side::Server, "iperf3".as_ref());
        server.args(["-s", "-1", "-B", &listen, "-p", &port, "--forceflush"]);
        let mut client = verbs.iperf3(hosts)?;
        // Only whole seconds.
        let time = scenario.duration.as_secs_f64().ceil().to_string();
        client.args(["-c", &ends.connect.ip().to_string(), "-p", &port, "-J", "-i", "0.1"]);
        client.args(["-t", &time, "-P", &through.flows.to_string()]);
        client.arg(if receiver == Side::Client { "-R" } else { "--get-server-output" });
        Ok((Self { _server: listening(server)?, receiver }, client))
    }

    fn read(&mut self, output: impl io::Read, _: Instant) -> Result<Arrivals, String> {
        arrivals(&text(Some(output)), self.receiver)
    }
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

/// What arrived at the receiver, from the report of iperf3 at the client.
fn arrivals(text: &str, receiver: Side) -> Result<Arrivals, String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"{"intervals":[
        {"streams":[],"sum":{"start":0,"end":0.1,"seconds":0.1,"bytes":125000}},
        {"streams":[],"sum":{"start":0.1,"end":0.2,"seconds":0.1,"bytes":250001}}]}"#;

    #[test]
    fn the_intervals_of_iperf3_are_arrivals() {
        let arrived = arrivals(REPORT, Side::Client).unwrap();
        assert_eq!(arrived.total().get(), 375_001);
        assert_eq!(arrived.span(), Some((Duration::ZERO, Duration::from_millis(200))));
        let megabits = |from, to| {
            let at = Duration::from_millis;
            arrived.rate(at(from), at(to)).bits_per_second() / 1_000_000
        };
        assert_eq!((megabits(10, 90), megabits(110, 190)), (10, 20));
        assert_eq!(arrived.goodput().bits_per_second() / 1_000_000, 15);
    }

    #[test]
    fn of_an_upload_the_report_of_the_server_counts() {
        let whole = format!(r#"{{"intervals":[],"server_output_json":{REPORT}}}"#);
        assert_eq!(arrivals(&whole, Side::Server).unwrap().total().get(), 375_001);
        assert!(arrivals(REPORT, Side::Server).is_err());
    }

    #[test]
    fn an_error_of_iperf3_is_a_failure() {
        for (text, reason) in [
            (r#"{"intervals":[],"error":"unable to connect to server"}"#, "unable to connect"),
            ("iperf3: error", "no JSON"),
            (r#"{"start":{}}"#, "no intervals"),
            (r#"{"intervals":[{"sum":{"start":0}}]}"#, "has no start, end or bytes"),
        ] {
            let failure = arrivals(text, Side::Client).unwrap_err();
            assert!(failure.contains(reason), "{failure}");
        }
    }
}
