//! The limit on open files and sockets of this process.

/// Raises the limit as far as the system allows, and returns it; sockets count.
#[cfg(unix)]
pub fn raise_limit() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // A system may refuse the limit that it reports.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let now = getrlimit(Resource::Nofile).current;
    now.map_or(usize::MAX, |now| usize::try_from(now).unwrap_or(usize::MAX))
}

/// Unknown here.
#[cfg(not(unix))]
pub fn raise_limit() -> usize {
    usize::MAX
}
