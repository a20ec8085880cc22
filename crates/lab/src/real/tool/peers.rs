//! A download over QUIC by quinn, client and server, in the program `manyway-peers` (`contrib/peers`).
//!
//! | process | line |
//! |---|---|
//! | server | an announcement, which the client gets as an argument; `{"begun":true}` when its traffic begins; in the end `{"packets":NUMBER,"lost":NUMBER}` |
//! | client | in the end `{"received":BYTES,"seconds":TIME,"cpu":TIME}` |

use std::process::Command;
use std::time::Duration;

use manyway_sim::pair::Side;
use serde::Deserialize;

use super::shared::{PATIENCE, Task, spread};
use crate::hosts::Hosts;
use crate::measures::count;
use crate::outcome::Arrivals;
use crate::real::helper::Helper;
use crate::real::process::Trouble;
use crate::real::through::Verbs;
use crate::stop::Stop;

/// Starts the server; the command is that of the client.
pub(super) fn start(
    hosts: &Hosts,
    verbs: &Verbs,
    Task { ends, scenario, .. }: Task<'_>,
    stop: &Stop,
) -> Result<(Helper, Command), Trouble> {
    let program = verbs.peers();
    let mut command = hosts.command(Side::Server, &program);
    let seconds = scenario.duration.as_secs_f64().to_string();
    command.args(["serve", &ends.listen.to_string(), "--seconds", &seconds]);
    let mut server = Helper::start("the server of quinn", command)?;
    let announcement = server.line(PATIENCE, stop)?;
    let mut client = verbs.command(hosts, program);
    client.args(["fetch", &announcement, "--at", &ends.connect.to_string()]);
    Ok((server, client))
}

/// What the client reports.
#[derive(Debug, Deserialize)]
struct Received {
    received: u64,
    seconds: f64,
}

/// What the server reports.
#[derive(Debug, Deserialize)]
struct Sent {
    packets: u64,
    lost: u64,
}

/// What arrived at the client: how much, and in which time.
pub(super) fn arrivals(text: &str) -> Result<Arrivals, String> {
    let strange = || format!("the client of quinn is not understood: {text:.80}");
    let Received { received, seconds } = serde_json::from_str(text).map_err(|_| strange())?;
    let time = Duration::try_from_secs_f64(seconds).map_err(|_| strange())?;
    let mut arrivals = Arrivals::default();
    spread(&mut arrivals, [Duration::ZERO, time], received);
    Ok(arrivals)
}

/// The share of its packets that the server declared lost. What arrives much later than what was sent after it counts, too.
pub(super) fn lost(server: &mut Helper, stop: &Stop) -> Result<f64, Trouble> {
    let _begun = server.line(PATIENCE, stop)?;
    let line = server.line(PATIENCE, stop)?;
    match serde_json::from_str(&line) {
        Ok(Sent { packets: packets @ 1.., lost }) => Ok(count(lost) / count(packets)),
        Ok(_) | Err(_) => Err(Trouble::Failure(format!("the server of quinn is not understood: {line:.80}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_goodput_is_that_of_the_time_that_the_client_reports() {
        let arrived = arrivals("{\"received\":5000000,\"seconds\":2.0,\"cpu\":0.1}\n").unwrap();
        assert_eq!(arrived.goodput().bits_per_second(), 20_000_000);
        for text in ["", "{}", r#"{"received":1,"seconds":-1}"#] {
            assert!(arrivals(text).unwrap_err().contains("not understood"));
        }
    }
}
