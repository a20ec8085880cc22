//! What a player sees of media that arrives.

use std::time::Duration;

/// Media that has to arrive before playback begins, and after a seek.
const START: Duration = Duration::from_secs(2);
/// Time for which playback stalls when too little has arrived.
const STALL: Duration = Duration::from_secs(5);
const SECOND: Duration = Duration::from_secs(1);

/// Plays media as it arrives, by the rule of MultiTCP, section 8.3: each second needs all its bytes; where they have not
/// arrived, playback stalls for 5 s and tries again. It begins with the first two seconds of media.
///
/// A player that leaves waiting bytes alone has all that it wants: it is paused, or plays what it has, and does not
/// stall. It has no clock: the caller tells the time since the beginning.
#[derive(Debug, Clone, Default)]
pub(crate) struct Playhead {
    /// Media that has arrived since the beginning or the last seek.
    arrived: Duration,
    /// Of it, seconds that were played.
    played: u32,
    /// When the next second begins to play; `None` before the beginning.
    next: Option<Duration>,
    has_ended: bool,
    startup: Option<Duration>,
    stalls: u32,
    playing: u32,
}

impl Playhead {
    /// Time has passed; during it the player waited for bytes, or left bytes waiting.
    pub(crate) fn advance(&mut self, now: Duration, is_waiting: bool) {
        while let Some(next) = self.next.filter(|next| *next <= now) {
            let wait = if self.has_ended && self.buffered().is_zero() {
                return;
            } else if self.buffered() >= SECOND || self.has_ended {
                self.played += 1;
                self.playing += 1;
                SECOND
            } else if is_waiting {
                self.stalls += 1;
                STALL
            } else {
                SECOND
            };
            self.next = Some(next + wait);
        }
    }

    /// Media arrived. What seemed to be the last of it was not, as in a live presentation that goes on.
    pub(crate) fn on_media(&mut self, now: Duration, media: Duration) {
        self.arrived += media;
        self.has_ended &= media.is_zero();
        if self.next.is_none() && self.arrived >= START {
            self.begin(now);
        }
    }

    /// The last of the media has arrived.
    pub(crate) fn on_end(&mut self, now: Duration) {
        self.has_ended = true;
        if self.next.is_none() && !self.arrived.is_zero() {
            self.begin(now);
        }
    }

    /// The player went to another place: what it has is of no use.
    pub(crate) fn on_seek(&mut self) {
        (self.arrived, self.played, self.next, self.has_ended) = (Duration::ZERO, 0, None, false);
    }

    fn begin(&mut self, now: Duration) {
        self.next = Some(now);
        self.startup.get_or_insert(now);
    }

    /// Whether playback has begun, after the last seek.
    pub(crate) fn is_playing(&self) -> bool {
        self.next.is_some()
    }

    /// Media that has arrived and was not played.
    pub(crate) fn buffered(&self) -> Duration {
        self.arrived.saturating_sub(SECOND * self.played)
    }

    /// When playback began for the first time.
    pub(crate) fn startup(&self) -> Option<Duration> {
        self.startup
    }

    /// How often it stalled, and for how long in all.
    pub(crate) fn stalls(&self) -> (u32, Duration) {
        (self.stalls, STALL * self.stalls)
    }

    /// Seconds that were played, over all seeks.
    pub(crate) fn playing(&self) -> Duration {
        SECOND * self.playing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    /// So many milliseconds of media arrive in each second.
    fn played(media: impl IntoIterator<Item = u64>) -> Playhead {
        let mut playhead = Playhead::default();
        for (second, media) in (1..).zip(media) {
            playhead.advance(seconds(second), true);
            playhead.on_media(seconds(second), Duration::from_millis(media));
        }
        playhead
    }

    #[test]
    fn media_at_its_rate_never_stalls_and_half_of_it_stalls_again_and_again() {
        let fast = played([1000; 100]);
        assert_eq!((fast.stalls().0, fast.startup()), (0, Some(seconds(2))));
        let slow = played([500; 100]);
        assert!((8..=20).contains(&slow.stalls().0), "{slow:?}");
        assert_eq!(slow.startup(), Some(seconds(4)));
        assert_eq!(slow.stalls().1, seconds(5) * slow.stalls().0);
    }

    #[test]
    fn a_gap_is_seen_only_if_it_is_longer_than_what_was_buffered() {
        let gap = |length| {
            let media = std::iter::repeat_n(2000, 10).chain(std::iter::repeat_n(0, length));
            played(media.chain(std::iter::repeat_n(1000, 20))).stalls().0
        };
        assert_eq!((gap(5), gap(9), gap(13)), (0, 0, 1));
    }

    #[test]
    fn media_after_the_end_goes_on_and_can_stall() {
        let mut playhead = played([1000; 5]);
        playhead.on_end(seconds(5));
        playhead.on_media(seconds(5), seconds(1));
        playhead.advance(seconds(30), true);
        assert!(playhead.stalls().0 > 0);
    }

    #[test]
    fn a_player_that_leaves_bytes_waiting_does_not_stall() {
        let mut playhead = played([1000; 4]);
        playhead.advance(seconds(100), false);
        assert_eq!(playhead.stalls().0, 0);
        playhead.advance(seconds(101), true);
        assert_eq!(playhead.stalls().0, 1, "and one that waits does");
    }

    #[test]
    fn after_a_seek_playback_begins_anew_and_at_the_end_it_does_not_stall() {
        let mut playhead = played([1000; 5]);
        playhead.on_seek();
        playhead.advance(seconds(50), true);
        assert_eq!((playhead.stalls().0, playhead.buffered()), (0, Duration::ZERO));
        playhead.on_media(seconds(50), seconds(1));
        playhead.on_end(seconds(50));
        playhead.advance(seconds(90), true);
        assert_eq!((playhead.stalls().0, playhead.startup()), (0, Some(seconds(2))));
    }
}
