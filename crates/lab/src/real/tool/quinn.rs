//! A download over QUIC by quinn, client and server, in the program `manyway-peers` (`contrib/peers`).
//!
//! | process | line |
//! |---|---|
//! | server | an announcement, which the client gets as an argument; `{"begun":true}` when its traffic begins; in the end `{"packets":NUMBER,"lost":NUMBER}` |
//! | client | in the end `{"received":BYTES,"seconds":TIME,"cpu":TIME,"packets":NUMBER,"overtaken":NUMBER}` |

use std::collections::BTreeMap;
use std::io;
use std::process::Command;
use std::time::{Duration, Instant};

use manyway_sim::pair::Side;
use serde::Deserialize;

use super::download::Ends;
use super::shared::{PATIENCE, Task, spread, text};
use crate::hosts::Hosts;
use crate::measures::count;
use crate::outcome::Arrivals;
use crate::real::helper::Helper;
use crate::real::process::Trouble;
use crate::real::through::Verbs;
use crate::stop::Stop;

/// quinn at both ends.
pub(super) struct Quinn {
    server: Helper,
    /// The share of packets that arrived after later ones, once the client has told it.
    overtaken: f64,
}

impl Ends for Quinn {
    fn start(
        hosts: &Hosts,
        verbs: &Verbs,
        task: Task<'_>,
        receiver: Side,
        stop: &Stop,
    ) -> Result<(Self, Command), Trouble> {
        task.downloads(receiver)?;
        let program = verbs.peers();
        let mut command = hosts.command(Side::Server, &program);
        let seconds = task.scenario.duration.as_secs_f64().to_string();
        command.args(["serve", &task.ends.listen.to_string(), "--seconds", &seconds]);
        let mut server = Helper::start("the server of quinn", command)?;
        let announcement = server.line(PATIENCE, stop)?;
        let mut client = verbs.command(hosts, program);
        client.args(["fetch", &announcement, "--at", &task.ends.connect.to_string()]);
        Ok((Self { server, overtaken: 0.0 }, client))
    }

    fn read(&mut self, output: impl io::Read, _: Instant) -> Result<Arrivals, String> {
        let fetched = Fetched::parse(&text(Some(output)))?;
        self.overtaken = count(fetched.overtaken) / count(fetched.packets.max(1));
        fetched.arrivals()
    }

    /// Lost is the share of its packets that the server declared so. What arrives much later than what was sent after it
    /// counts, too.
    fn told(&mut self, stop: &Stop) -> Result<BTreeMap<&'static str, f64>, Trouble> {
        let _begun = self.server.line(PATIENCE, stop)?;
        let line = self.server.line(PATIENCE, stop)?;
        match serde_json::from_str(&line) {
            Ok(Sent { packets: packets @ 1.., lost }) => {
                Ok(BTreeMap::from([("lost", count(lost) / count(packets)), ("overtaken", self.overtaken)]))
            }
            Ok(_) | Err(_) => {
                Err(Trouble::Failure(format!("the server of quinn is not understood: {line:.80}")))
            }
        }
    }
}

/// What the client reports.
#[derive(Debug, Deserialize)]
struct Fetched {
    received: u64,
    seconds: f64,
    packets: u64,
    overtaken: u64,
}

/// What the server reports.
#[derive(Debug, Deserialize)]
struct Sent {
    packets: u64,
    lost: u64,
}

impl Fetched {
    fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|_| format!("the client of quinn is not understood: {text:.80}"))
    }

    /// What arrived: how much, and in which time.
    fn arrivals(&self) -> Result<Arrivals, String> {
        let time = Duration::try_from_secs_f64(self.seconds);
        let time = time.map_err(|_| format!("the client of quinn reports {} s", self.seconds))?;
        let mut arrivals = Arrivals::default();
        spread(&mut arrivals, [Duration::ZERO, time], self.received);
        Ok(arrivals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_goodput_is_that_of_the_time_that_the_client_reports() {
        let report = |seconds: &str| {
            format!(r#"{{"received":5000000,"seconds":{seconds},"cpu":0.1,"packets":4000,"overtaken":2}}"#)
        };
        let fetched = Fetched::parse(&report("2.0")).unwrap();
        assert_eq!(fetched.arrivals().unwrap().goodput().bits_per_second(), 20_000_000);
        for text in ["", "{}"] {
            assert!(Fetched::parse(text).unwrap_err().contains("not understood"));
        }
        assert!(Fetched::parse(&report("-1")).unwrap().arrivals().is_err());
    }
}
