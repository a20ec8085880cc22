//! Programs that bring their own sender and receiver, over a verb.

mod download;
mod iperf3;
mod peers;
mod shared;
mod srt;
mod web;

use super::process::Trouble;
use super::through::Verbs;
use crate::contender::Program;
use crate::hosts::Hosts;
use crate::stop::Stop;
pub(super) use shared::{Task, Tool};

/// Starts the programs that have to wait for the others, once the verb works.
pub(super) fn start(
    hosts: &Hosts,
    verbs: &Verbs,
    task: Task<'_>,
    stop: &Stop,
) -> Result<Box<dyn Tool>, Trouble> {
    match task.through.program {
        Program::Srt => Ok(Box::new(srt::Film::start(hosts, verbs, task, stop)?)),
        Program::Own | Program::Iperf3 | Program::Curl | Program::Quinn => {
            Ok(Box::new(download::Download::start(hosts, verbs, task, stop)?))
        }
    }
}
