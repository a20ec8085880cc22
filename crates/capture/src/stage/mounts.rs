//! The files by which programs look up names: `resolv.conf` is ours, and sockets of resolvers outside are hidden.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount,
};

use super::refusal::{Step, StepError};
use crate::plan::RESOLVER;

const RESOLV_CONF: &str = "/etc/resolv.conf";
/// Directories with sockets at which the C library asks a daemon outside for names: nscd, systemd-resolved
/// (nss-resolve) and Avahi (nss-mdns).
const DAEMONS: [&str; 5] =
    ["/run/nscd", "/var/run/nscd", "/run/systemd/resolve", "/run/avahi-daemon", "/var/run/avahi-daemon"];
/// Where a file system is mounted for a moment.
const SCRATCH: [&str; 3] = ["/tmp", "/run", "/var"];

/// Replaces `resolv.conf` and hides the daemons, in this mount namespace.
pub(super) fn replace_resolvers() -> Result<(), StepError> {
    // Mounts made here stay here; those that are made outside, such as that of a USB stick, appear here, too.
    let flags = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", flags).map_err(io::Error::from).map_err(Step::Mounts.failed())?;
    // It may be a link into a directory that is hidden now.
    let file = fs::canonicalize(RESOLV_CONF).map_err(Step::ResolvConf.failed())?;
    let hidden = hide_daemons().map_err(Step::Mounts.failed())?;
    let made = if hidden.iter().any(|directory| file.starts_with(directory)) {
        write_in_hidden(&file)
    } else {
        bind_over(&file)
    };
    made.map_err(Step::ResolvConf.failed())
}

/// Mounts an empty file system over each directory of a daemon, and returns those that exist.
fn hide_daemons() -> io::Result<Vec<PathBuf>> {
    let mut hidden: Vec<PathBuf> = Vec::new();
    // `/var/run` mostly is a link to `/run`.
    for directory in DAEMONS.iter().filter_map(|name| fs::canonicalize(name).ok()) {
        if directory.is_dir() && !hidden.contains(&directory) {
            mount_empty(&directory)?;
            hidden.push(directory);
        }
    }
    Ok(hidden)
}

fn mount_empty(at: &Path) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount("manyway", at, "tmpfs", flags, c"size=64k,mode=0755")?)
}

/// The text of our `resolv.conf`.
fn text() -> String {
    format!("# By `manyway run`: the server resolves names.\nnameserver {RESOLVER}\n")
}

fn write_in_hidden(file: &Path) -> io::Result<()> {
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(file, text())
}

/// Mounts a file over this one.
fn bind_over(file: &Path) -> io::Result<()> {
    // A mount at a directory hides what is below it.
    let is_fit = |directory: &&Path| directory.is_dir() && !file.starts_with(directory);
    let scratch = SCRATCH.iter().map(Path::new).find(is_fit).ok_or(io::ErrorKind::NotADirectory)?;
    mount_empty(scratch)?;
    let ours = scratch.join("resolv.conf");
    let made = fs::write(&ours, text()).and_then(|()| Ok(mount_bind(&ours, file)?));
    // The file stays, as long as it is mounted elsewhere.
    unmount(scratch, UnmountFlags::DETACH)?;
    made
}
