//! Network namespaces that are always removed.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use manyway_sim::pair::Side;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::system::ip;
use crate::LabError;

/// Prefix of the names of our namespaces; the owner, a number and the side follow.
pub(super) const PREFIX: &str = "mwlab";

/// The directory of names of `ip`.
const DIRECTORY: &str = "/var/run/netns";

/// How often processes of a namespace are killed, and the pause between.
const ROUNDS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(5);

/// A network namespace. Dropping it kills what runs inside and removes it.
#[derive(Debug)]
pub(super) struct Namespace {
    name: String,
}

impl Namespace {
    /// Creates the namespaces of a pair of hosts, client first, with only a loopback device, which is down.
    pub(super) fn pair() -> Result<[Self; 2], LabError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let owner = Owner::me()?;
        let make = |side| Self::add(format!("{PREFIX}{owner}-{number}{}", letter(side)));
        Ok([make(Side::Client)?, make(Side::Server)?])
    }

    fn add(name: String) -> Result<Self, LabError> {
        ip(&["netns", "add", &name])?;
        Ok(Self { name })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        end_processes(&self.name);
        drop(ip(&["netns", "delete", &self.name]));
    }
}

/// Runs `act` on a thread of its own inside a namespace.
pub(super) fn inside<T: Send>(name: &str, act: impl FnOnce() -> T + Send) -> Result<T, LabError> {
    let failed = |error| LabError::Io { doing: format!("entering the namespace {name}"), error };
    let namespace = File::open(Path::new(DIRECTORY).join(name)).map_err(failed)?;
    let enter_and_act = move || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        Ok(act())
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("lab-inside".into()).spawn_scoped(scope, enter_and_act);
        match thread.map_err(failed)?.join() {
            Ok(result) => result.map_err(|error: rustix::io::Errno| failed(error.into())),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Removes namespaces of programs that are gone, and kills what still runs in them. Names that are not exactly in our
/// form are left alone.
pub(super) fn remove_leftovers() -> Result<(), LabError> {
    let names: BTreeSet<String> = ip(&["netns", "list"])?
        .lines()
        .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
        .collect();
    for name in names {
        let is_leftover = Owner::of(&name).is_some_and(|owner| !owner.is_alive());
        if is_leftover {
            drop(Namespace { name });
        }
    }
    Ok(())
}

/// Kills the processes of a namespace repeatedly: one of them may just have started another.
fn end_processes(name: &str) {
    for _ in 0..ROUNDS {
        // A removed namespace has none.
        let list = ip(&["netns", "pids", name]).unwrap_or_default();
        let numbers = list.split_whitespace().filter_map(|word| word.parse::<i32>().ok());
        let others = numbers.filter(|number| u32::try_from(*number) != Ok(std::process::id()));
        let others: Vec<Pid> = others.filter_map(Pid::from_raw).collect();
        if others.is_empty() {
            return;
        }
        for process in others {
            // It may have ended in the meantime.
            let _ = kill_process(process, Signal::KILL);
        }
        thread::sleep(PAUSE);
    }
}

/// The process that created a namespace. The system reuses a process ID, but not with the same start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
    process: u32,
    /// Ticks from the start of the system to that of the process.
    start: u64,
}

impl Owner {
    fn me() -> Result<Self, LabError> {
        let process = std::process::id();
        let without = || LabError::System("/proc does not tell when this process started".to_owned());
        Ok(Self { process, start: start_of(process).ok_or_else(without)? })
    }

    /// The owner of a namespace of this name, if it is one of ours.
    fn of(name: &str) -> Option<Self> {
        let (owner, rest) = name.strip_prefix(PREFIX)?.split_once('-')?;
        number::<u32>(rest.strip_suffix(['c', 's'])?)?;
        let (process, start) = owner.split_once('.')?;
        Some(Self { process: number(process)?, start: number(start)? })
    }

    fn is_alive(self) -> bool {
        start_of(self.process) == Some(self.start)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.process, self.start)
    }
}

/// When a process started, in ticks of the system; `None` if there is none.
fn start_of(process: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the process is in brackets and may hold any characters; the third field follows, this is the 22nd.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// A number in our notation.
fn number<T: FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn letter(side: Side) -> char {
    match side {
        Side::Client => 'c',
        Side::Server => 's',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_in_our_form_have_an_owner() {
        let owner = Some(Owner { process: 123, start: 456 });
        assert_eq!((Owner::of("mwlab123.456-0c"), Owner::of("mwlab123.456-17s")), (owner, owner));
        for other in [
            "mwlab123-0c",
            "mwlab123-0",
            "mwlab123-c",
            "mwlab-0c",
            "mwlabx-0c",
            "mwlab1-2-3c",
            "lab1-0c",
            "mwlab+1-0c",
            "mwlab1.-0c",
            "mwlab.1-0c",
            "mwlab1.2.3-0c",
            "mwlab1.x-0c",
            "mwt1-0c",
        ] {
            assert_eq!(Owner::of(other), None, "{other}");
        }
    }

    #[test]
    fn a_process_that_has_the_id_of_an_earlier_one_is_another() {
        let me = Owner::me().unwrap();
        assert!(me.start > 0 && me.is_alive());
        assert_eq!(Owner::of(&format!("{PREFIX}{me}-0c")), Some(me));
        assert!(!Owner { start: me.start - 1, ..me }.is_alive());
        // More than the system ever assigns.
        assert!(!Owner { process: 1 << 30, start: 1 }.is_alive());
    }
}
