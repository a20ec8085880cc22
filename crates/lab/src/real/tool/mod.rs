//! Programs that bring their own sender and receiver, over a verb.

mod curl;
mod download;
mod iperf3;
mod quinn;
mod shared;
mod srt;
mod web;

use download::Download;

use super::process::Trouble;
use super::through::Verbs;
use crate::contender::Program;
use crate::hosts::Hosts;
use crate::stop::Stop;
pub(super) use shared::{Task, Tool};

/// Starts the programs that have to wait for the others, once the verb works; `None` if the agents of the lab are the programs.
pub(super) fn start(
    hosts: &Hosts,
    verbs: &Verbs,
    task: Task<'_>,
    stop: &Stop,
) -> Result<Option<Box<dyn Tool>>, Trouble> {
    Ok(Some(match task.through.program {
        Program::Own => return Ok(None),
        Program::Iperf3 => Box::new(Download::<iperf3::Iperf3>::start(hosts, verbs, task, stop)?),
        Program::Curl => Box::new(Download::<curl::Curl>::start(hosts, verbs, task, stop)?),
        Program::Quinn => Box::new(Download::<quinn::Quinn>::start(hosts, verbs, task, stop)?),
        Program::Srt => Box::new(srt::Film::start(hosts, verbs, task, stop)?),
    }))
}
