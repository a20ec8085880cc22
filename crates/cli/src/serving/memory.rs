//! Returns memory to the system after connections have ended.
//!
//! Allocators keep freed memory for later. That of glibc keeps nearly all of it, in the arena of every thread, until it
//! is asked. Those of other systems return it by themselves.

use std::time::{Duration, Instant};

/// Decides when to ask the allocator for free memory.
#[derive(Debug, Default)]
pub struct IdleHeap {
    /// When the last connection ended, and how often the allocator was asked since.
    ended: Option<(Instant, usize)>,
    was_busy: bool,
}

impl IdleHeap {
    /// Checks whether memory is to be returned, several times a second; `connections` are open now. Returns true if so.
    pub fn look(&mut self, now: Instant, connections: usize) -> bool {
        if connections > 0 {
            self.was_busy = true;
            self.ended = None;
            return false;
        }
        if std::mem::take(&mut self.was_busy) {
            self.ended = Some((now, 0));
        }
        let Some((since, asked)) = self.ended else { return false };
        let is_due = ASKED_AFTER.get(asked).is_some_and(|wait| now.duration_since(since) >= *wait);
        if is_due {
            self.ended = Some((since, asked + 1));
        }
        is_due
    }
}

/// After the end of the last connection: soon, and when the protocol has dropped the connections too.
const ASKED_AFTER: [Duration; 3] =
    [Duration::from_millis(500), Duration::from_secs(3), Duration::from_secs(8)];

/// Returns the allocator's free memory to the system. May take some milliseconds.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: malloc_trim(3) may be called at any time from any thread, and touches free memory alone.
        let given = unsafe { libc::malloc_trim(0) };
        tracing::debug!(given = given == 1, "memory given back");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_returned_several_times_after_the_last_connection_and_not_before() {
        let (mut memory, start) = (IdleHeap::default(), Instant::now());
        let mut given = Vec::new();
        for tenth in 0..200_u64 {
            let now = start + Duration::from_millis(100 * tenth);
            let connections = usize::from((10..50).contains(&tenth) || tenth == 60);
            if memory.look(now, connections) {
                given.push(tenth);
            }
        }
        assert_eq!(given, [55, 66, 91, 141]);
    }
}
