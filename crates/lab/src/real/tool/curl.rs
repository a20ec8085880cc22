//! curl, with a web server of the lab.

use std::io;
use std::process::Command;
use std::time::Instant;

use manyway_sim::pair::Side;

use super::download::Ends;
use super::shared::{READ, Task};
use super::web::Web;
use crate::hosts::Hosts;
use crate::outcome::Arrivals;
use crate::real::process::Trouble;
use crate::real::through::{PROXY, Verbs};
use crate::stop::Stop;

/// A page for curl.
pub(super) struct Curl {
    _web: Web,
}

impl Ends for Curl {
    fn start(
        hosts: &Hosts,
        verbs: &Verbs,
        task: Task<'_>,
        receiver: Side,
        _: &Stop,
    ) -> Result<(Self, Command), Trouble> {
        task.downloads(receiver)?;
        let mut client = verbs.command(hosts, "curl");
        client.args(["-sS", "--noproxy", "", &format!("http://{}/", task.ends.connect)]);
        if task.ends.proxy.is_some() {
            client.args(["--proxy", &format!("socks5h://127.0.0.1:{PROXY}")]);
        }
        Ok((Self { _web: Web::start(hosts, task.ends.listen, task.scenario.duration)? }, client))
    }

    /// It prints the page itself.
    fn read(&mut self, mut output: impl io::Read, begin: Instant) -> Result<Arrivals, String> {
        let mut arrivals = Arrivals::default();
        let mut buffer = vec![0; READ];
        while let Ok(length @ 1..) = output.read(&mut buffer) {
            arrivals.record(begin.elapsed(), u64::try_from(length).unwrap_or(u64::MAX));
        }
        Ok(arrivals)
    }
}
