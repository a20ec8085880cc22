//! The process that makes the namespaces and becomes the command.

mod mounts;
mod network;
mod refusal;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use rustix::thread::{CapabilitySet, CapabilitySets};

use self::refusal::{Facts, Step, StepError};
use crate::channel;
use crate::error::CaptureError;
use crate::kernel;

/// The first argument of a stage.
pub(crate) const STAGE: &str = "__capture-stage";

/// Makes this process the stage, if it was started as one: then it becomes the command and this function does not
/// return, or it returns the exit status of a failure. `None`: this process is no stage.
///
/// A program whose [`Launcher`](crate::Launcher) is itself calls this before anything else in `main`, while it has one
/// thread and no open files.
pub fn enter_stage() -> Option<u8> {
    let mut words = std::env::args_os().skip(1);
    if words.next()? != STAGE {
        return None;
    }
    Some(run(words).unwrap_or(FAILED))
}

/// Returns the exit status, or `None` if this process was started by hand.
fn run(mut words: impl Iterator<Item = OsString>) -> Option<u8> {
    let channel = UnixStream::from(kernel::take_inherited(&words.next()?)?);
    let mtu = words.next()?.to_str()?.parse().ok()?;
    let (program, arguments) = (words.next()?, words.collect::<Vec<_>>());
    if let Err(error) = prepare(&channel, mtu) {
        let text = error.explain(&Facts::of_this_system());
        channel::send_failure(&channel, &CaptureError::Refused(text));
        return Some(FAILED);
    }
    // If the process that started this one has ended, the error cannot be reported.
    channel::await_go(&channel).ok()?;
    let (status, text) = become_command(&program, &arguments);
    channel::send_failure(&channel, &CaptureError::Command { status, text });
    Some(status)
}

/// Makes the namespaces, and hands over what this process sees of them.
fn prepare(channel: &UnixStream, mtu: u16) -> Result<(), StepError> {
    let user = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    kernel::enter_namespaces().map_err(Step::Namespaces.failed())?;
    map_user(user).map_err(Step::UserMap.failed())?;
    mounts::replace_resolvers()?;
    let device = network::make_device(mtu)?;
    network::allow_ping(user.1);
    let (v4, v6) = network::listen()?;
    let mut descriptors = vec![device.as_fd(), v4.as_fd()];
    descriptors.extend(v6.as_ref().map(|listener| listener.as_fd()));
    crate::network::await_v6();
    give_up_privileges().map_err(Step::Privileges.failed())?;
    // Afterwards the other side has the only copies, and the device is gone when it dies.
    channel::send_ready(channel, &descriptors).map_err(Step::HandOver.failed())
}

/// Gives this process the user and group in the namespace that it has outside. No other exists there.
fn map_user((user, group): (u32, u32)) -> io::Result<()> {
    // The kernel demands it before an ordinary user may map a group.
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// Gives up all capabilities over the namespaces, for good.
///
/// `no_new_privs` makes this final: no program that the command executes gains any, for any user and whatever the
/// bits and capabilities of its file say. Nothing is lost by that, since programs with set-user-ID cannot work here:
/// their owner does not exist in the namespace. The bounding set stays as it is: with `no_new_privs` it has no effect on
/// what can be gained, and if it were empty, the kernel would refuse to execute programs whose file has capabilities,
/// such as `ping`, which work without them.
fn give_up_privileges() -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    // Kernels without ambient capabilities have none to give up.
    let _ = rustix::thread::clear_ambient_capability_set();
    let none = CapabilitySet::empty();
    Ok(rustix::thread::set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )?)
}

/// Executes the command; returns only if that fails, with the exit status that shells use.
fn become_command(program: &OsStr, arguments: &[OsString]) -> (u8, String) {
    let error = Command::new(program).args(arguments).exec();
    // The search ends with "permission denied", too, if a directory on the way may not be searched.
    if error.kind() == io::ErrorKind::NotFound || !exists(program) {
        return (127, format!("{}: command not found", program.display()));
    }
    (126, format!("{}: {error}", program.display()))
}

/// Whether there is such a file, in one of the directories where commands are searched for.
fn exists(program: &OsStr) -> bool {
    if program.as_encoded_bytes().contains(&b'/') {
        return Path::new(program).exists();
    }
    let directories = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&directories).any(|directory| directory.join(program).exists())
}

/// Exit status of a stage that has failed; the process that started it learns the reason by the channel.
const FAILED: u8 = 1;
