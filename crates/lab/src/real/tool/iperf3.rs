//! iperf3, whose report at the client tells what arrived in each tenth of a second: bulk over TCP, messages with a lifetime over
//! UDP.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use manyway_sim::pair::Side;
use serde_json::Value;

use super::download::{Ends, is_endless_bulk};
use super::shared::{Ended, Task, spread, text};
use crate::agent::document::{Exchange, Load};
use crate::error::LabError;
use crate::hosts::Hosts;
use crate::measures::count;
use crate::outcome::Arrivals;
use crate::real::process::Trouble;
use crate::real::through::Verbs;
use crate::stop::Stop;

/// iperf3 at both ends.
pub(super) struct Iperf3 {
    _server: Ended,
    receiver: Side,
    told: BTreeMap<&'static str, f64>,
}

impl Ends for Iperf3 {
    fn start(
        hosts: &Hosts,
        verbs: &Verbs,
        task: Task<'_>,
        receiver: Side,
        _: &Stop,
    ) -> Result<(Self, Command), Trouble> {
        let Task { through, scenario, ends, .. } = task;
        let datagrams = task.exchanges.first().and_then(datagrams);
        if datagrams.is_some() && through.verb.is_proxy() {
            return Err(task.unable("its datagrams know no proxy"));
        }
        let (listen, port) = (ends.listen.ip().to_string(), ends.listen.port().to_string());
        let mut server = hosts.command(Side::Server, "iperf3".as_ref());
        server.args(["-s", "-1", "-B", &listen, "-p", &port, "--forceflush"]);
        let mut client = verbs.iperf3(hosts)?;
        // Only whole seconds.
        let time = scenario.duration.as_secs_f64().ceil().to_string();
        client.args(["-c", &ends.connect.ip().to_string(), "-p", &port, "-J", "-i", "0.1"]);
        client.args(["-t", &time, "-P", &through.flows.to_string()]);
        client.arg(if receiver == Side::Client { "-R" } else { "--get-server-output" });
        if let Some((size, rate)) = datagrams {
            let rate = rate / f64::from(through.flows);
            client.args(["-u", "-l", &size.to_string(), "-b", &rate.round().to_string()]);
        }
        Ok((Self { _server: listening(server)?, receiver, told: BTreeMap::new() }, client))
    }

    fn sends(load: &Load) -> bool {
        is_endless_bulk(load) || matches!(load, Load::Messages { lifetime: Some(_), .. })
    }

    fn read(&mut self, output: impl io::Read, _: Instant) -> Result<Arrivals, String> {
        let report = Report::parse(&text(Some(output)), self.receiver)?;
        self.told = report.told();
        report.arrivals()
    }

    fn told(&mut self, _: &Stop) -> Result<BTreeMap<&'static str, f64>, Trouble> {
        Ok(std::mem::take(&mut self.told))
    }
}

/// Bytes of each datagram, and the bits of all in a second.
fn datagrams(exchange: &Exchange) -> Option<(usize, f64)> {
    let Load::Messages { size, interval, .. } = exchange.load else { return None };
    Some((size, count(u64::try_from(size).ok()?) * 8.0 / interval.as_secs_f64()))
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

/// The report of the receiver.
struct Report(Value);

impl Report {
    /// Reads the report of iperf3 at the client.
    fn parse(text: &str, receiver: Side) -> Result<Self, String> {
        let mut report: Value =
            serde_json::from_str(text).map_err(|error| format!("iperf3 reports no JSON: {error}"))?;
        if let Some(error) = report.get("error").and_then(Value::as_str) {
            return Err(format!("iperf3: {error}"));
        }
        Ok(Self(match receiver {
            Side::Client => report,
            Side::Server => report.get_mut("server_output_json").map(Value::take).unwrap_or_default(),
        }))
    }

    fn arrivals(&self) -> Result<Arrivals, String> {
        let intervals = self.0.get("intervals").and_then(Value::as_array);
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

    /// Which shares of the datagrams did not arrive, and arrived after later ones; nothing for TCP.
    fn told(&self) -> BTreeMap<&'static str, f64> {
        let flows = self.0.pointer("/end/streams").and_then(Value::as_array);
        let sum = |name: &str| {
            let of_flow = |flow: &Value| flow.pointer(&format!("/udp/{name}")).and_then(Value::as_f64);
            flows.into_iter().flatten().filter_map(of_flow).sum::<f64>()
        };
        match sum("packets") {
            packets if packets > 0.0 => BTreeMap::from([
                ("lost", sum("lost_packets") / packets),
                ("overtaken", sum("out_of_order") / packets),
            ]),
            _ => BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"{"intervals":[
        {"streams":[],"sum":{"start":0,"end":0.1,"seconds":0.1,"bytes":125000}},
        {"streams":[],"sum":{"start":0.1,"end":0.2,"seconds":0.1,"bytes":250001}}]}"#;

    #[test]
    fn the_intervals_of_iperf3_are_arrivals() {
        let report = Report::parse(REPORT, Side::Client).unwrap();
        let arrived = report.arrivals().unwrap();
        assert!(report.told().is_empty());
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
        let arrivals = |text: &str| Report::parse(text, Side::Server).unwrap().arrivals();
        assert_eq!(arrivals(&whole).unwrap().total().get(), 375_001);
        assert!(arrivals(REPORT).is_err());
    }

    #[test]
    fn of_datagrams_it_tells_what_was_lost_and_overtaken() {
        let flow = |lost| format!(r#"{{"udp":{{"packets":1000,"lost_packets":{lost},"out_of_order":4}}}}"#);
        let whole = format!(r#"{{"intervals":[],"end":{{"streams":[{},{}]}}}}"#, flow(10), flow(30));
        let told = Report::parse(&whole, Side::Client).unwrap().told();
        assert_eq!(told, BTreeMap::from([("lost", 0.02), ("overtaken", 0.004)]));
    }

    #[test]
    fn messages_with_a_lifetime_are_datagrams_of_the_same_rate() {
        let messages =
            |lifetime| Load::Messages { size: 1200, interval: Duration::from_micros(240), lifetime };
        let load = messages(Some(Duration::from_millis(500)));
        assert!(Iperf3::sends(&load) && !Iperf3::sends(&messages(None)));
        assert_eq!(datagrams(&Exchange { up: false, down: true, load }), Some((1200, 40_000_000.0)));
    }

    #[test]
    fn an_error_of_iperf3_is_a_failure() {
        for (text, reason) in [
            (r#"{"intervals":[],"error":"unable to connect to server"}"#, "unable to connect"),
            ("iperf3: error", "no JSON"),
            (r#"{"start":{}}"#, "no intervals"),
            (r#"{"intervals":[{"sum":{"start":0}}]}"#, "has no start, end or bytes"),
        ] {
            let report = Report::parse(text, Side::Client);
            let failure = report.and_then(|report| report.arrivals()).unwrap_err();
            assert!(failure.contains(reason), "{failure}");
        }
    }
}
