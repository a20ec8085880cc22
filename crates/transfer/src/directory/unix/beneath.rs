//! Opens a directory below another one in one system call, where the system has it.

use std::os::fd::OwnedFd;

use crate::name::RelativePath;

/// Opens `path` below `root` without following a link. `None` if that fails, or if the system has no
/// such call (Linux before 5.6, or a filter of system calls): opening each component tells why, or succeeds.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn open(root: &OwnedFd, path: &RelativePath) -> Option<OwnedFd> {
    use rustix::fs::{Mode, OFlags, ResolveFlags};
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(root, path.as_str(), flags, Mode::empty(), resolve).ok()
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn open(_root: &OwnedFd, _path: &RelativePath) -> Option<OwnedFd> {
    None
}
