//! Figures of what was played.

use std::time::{Duration, Instant};

/// What one player has seen of one file or presentation so far.
///
/// Stalls are those of a model (MultiTCP, section 8.3, which calls them stops): playback begins with the first two seconds of media, each second
/// needs all its bytes, and where they are missing it stalls for 5 s. The mean rate of the media stands for that of each
/// second. Without the length of the media there are no stalls, and `startup` is the time until the first byte.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// The name of the media.
    pub name: String,
    /// When it was first asked for.
    pub began: Instant,
    /// Time since then.
    pub time: Duration,
    /// Bytes that the player took.
    pub bytes: u64,
    /// Mean bits a second of the media, where its length is known.
    pub bit_rate: Option<u64>,
    /// Time from the first request until playback began.
    pub startup: Option<Duration>,
    /// How often playback stalled.
    pub stalls: u32,
    /// For how long in all.
    pub stall_time: Duration,
    /// Time that was played.
    pub played: Duration,
    /// Media that the player took and has not played.
    pub buffered: Option<Duration>,
    /// How often the player went to another place of the media (a seek).
    pub seeks: u32,
    /// How often the player changed between the variants of an HLS or DASH presentation.
    pub variant_switches: u32,
}

impl Figures {
    /// Share of the time of playback in which it stood still, 0 to 1.
    #[must_use]
    pub fn stall_ratio(&self) -> f64 {
        let all = self.played + self.stall_time;
        if all.is_zero() { 0.0 } else { self.stall_time.as_secs_f64() / all.as_secs_f64() }
    }
}
