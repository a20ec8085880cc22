//! How many files and sockets this process may have.

/// Raises the limit as far as the system allows, and tells it; sockets count.
#[cfg(unix)]
pub fn raise_limit() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // A system may refuse what it names as its limit.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let now = getrlimit(Resource::Nofile).current;
    now.map_or(usize::MAX, |now| usize::try_from(now).unwrap_or(usize::MAX))
}

/// Nothing is known.
#[cfg(not(unix))]
pub fn raise_limit() -> usize {
    usize::MAX
}
