//! What is known about a film that is being played.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::figures::Figures;
use crate::playhead::Playhead;
use crate::presentation::Segment;
use crate::target::{Target, TargetChoice};

/// A film that one player plays, by one request after another. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Viewing(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    name: String,
    began: Instant,
    size: u64,
    /// How long the media lasts, where that is known.
    media: Option<Duration>,
    choice: TargetChoice,
    target: Target,
    playhead: Playhead,
    /// Number of the newest request: earlier ones are of the time before a seek.
    request: u64,
    /// Where the last bytes ended that the player took.
    position: u64,
    /// Bytes since the last seek.
    run: u64,
    bytes: u64,
    first_byte: Option<Duration>,
    seeks: u32,
    /// Of a presentation: the variant of the last segment, and the index of the next one.
    variant: Option<usize>,
    next: usize,
    switches: u32,
    /// Whether the film ends with the file.
    is_last: bool,
    /// Whether the player waits for bytes.
    is_waiting: bool,
    last: Instant,
}

impl Viewing {
    pub(crate) fn new(name: String, size: u64, choice: TargetChoice) -> Self {
        let now = Instant::now();
        Self(Arc::new(Mutex::new(State {
            name,
            began: now,
            size,
            media: None,
            choice,
            target: Target::default(),
            playhead: Playhead::default(),
            request: 0,
            position: 0,
            run: 0,
            bytes: 0,
            first_byte: None,
            seeks: 0,
            variant: None,
            next: 0,
            switches: 0,
            is_last: true,
            is_waiting: false,
            last: now,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The length of the media is known now.
    pub(crate) fn set_media(&self, media: Duration) {
        let mut state = self.state();
        if state.media.is_none() && !media.is_zero() && state.size > 0 {
            let now = state.pass();
            state.media = Some(media);
            let run = state.media_of(state.run);
            state.playhead.on_media(now, run);
            state.end_at_the_last_byte(now);
        }
    }

    /// A request for the bytes from `position` on; returns its number.
    pub(crate) fn on_request(&self, position: u64) -> u64 {
        let mut state = self.state();
        state.pass();
        state.last = Instant::now();
        state.request += 1;
        state.is_waiting = true;
        if position != state.position {
            state.seek();
            (state.position, state.run) = (position, 0);
        }
        state.request
    }

    /// A request for a segment of this size; returns its number. A player that changes the variant may ask once more
    /// for a segment that it has.
    pub(crate) fn on_segment(&self, segment: &Segment, size: u64) -> u64 {
        let mut state = self.state();
        state.pass();
        state.last = Instant::now();
        state.request += 1;
        state.is_waiting = true;
        let is_switch = state.variant.is_some_and(|variant| variant != segment.variant);
        state.switches += u32::from(is_switch);
        let is_next = segment.index == state.next || segment.index.saturating_add(1) == state.next;
        if state.variant.is_some() && !is_next {
            state.seek();
        }
        (state.variant, state.next, state.is_last) =
            (Some(segment.variant), segment.index.saturating_add(1), segment.is_last);
        (state.position, state.size, state.media) = (0, size, Some(segment.media));
        state.request
    }

    /// The player took bytes.
    pub(crate) fn on_taken(&self, request: u64, bytes: u64) {
        let mut state = self.state();
        state.bytes += bytes;
        state.last = Instant::now();
        let now = state.pass();
        state.first_byte.get_or_insert(now);
        if request != state.request {
            return;
        }
        state.is_waiting = false;
        state.position += bytes;
        state.run += bytes;
        let media = state.media_of(bytes);
        state.playhead.on_media(now, media);
        state.end_at_the_last_byte(now);
    }

    /// The player waits for bytes of this request, or has closed it.
    pub(crate) fn set_waiting(&self, request: u64, is_waiting: bool) {
        let mut state = self.state();
        if request == state.request {
            state.pass();
            state.is_waiting = is_waiting;
        }
    }

    /// The target in bits a second while so many bytes wait for the player; `None`: as fast as possible.
    pub(crate) fn target(&self, waiting: u64) -> Option<u64> {
        let mut state = self.state();
        state.pass();
        match state.choice {
            TargetChoice::Fixed(rate) => Some(rate),
            TargetChoice::Unlimited => None,
            // Players of HLS and DASH choose the variant by the rate that they see.
            TargetChoice::OfMedia if state.variant.is_some() => None,
            // Nothing delays the beginning.
            TargetChoice::OfMedia if !state.playhead.is_playing() => None,
            TargetChoice::OfMedia => {
                let (rate, buffered) =
                    (state.bit_rate()?, state.playhead.buffered() + state.media_of(waiting));
                Some(state.target.decide(rate, buffered))
            }
        }
    }

    /// Mean bits a second of the media, where its length is known.
    pub(crate) fn bit_rate(&self) -> Option<u64> {
        self.state().bit_rate()
    }

    /// When a player last took or asked for something.
    pub(crate) fn last(&self) -> Instant {
        self.state().last
    }

    pub(crate) fn figures(&self) -> Figures {
        let mut state = self.state();
        let now = state.pass();
        let (stalls, stall_time) = state.playhead.stalls();
        let startup = if state.media.is_some() { state.playhead.startup() } else { state.first_byte };
        Figures {
            name: state.name.clone(),
            began: state.began.into_std(),
            time: now,
            bytes: state.bytes,
            bit_rate: state.bit_rate().filter(|_| state.variant.is_none()),
            startup,
            stalls,
            stall_time,
            played: state.playhead.playing(),
            buffered: state.media.map(|_| state.playhead.buffered()),
            seeks: state.seeks,
            variant_switches: state.switches,
        }
    }
}

impl State {
    /// The player went to another place of the film.
    fn seek(&mut self) {
        self.seeks += u32::from(self.playhead.startup().is_some());
        self.playhead.on_seek();
    }

    fn end_at_the_last_byte(&mut self, now: Duration) {
        if self.position >= self.size && self.is_last {
            self.playhead.on_end(now);
        }
    }

    /// Plays until now, and returns the time since the beginning.
    fn pass(&mut self) -> Duration {
        let now = self.began.elapsed();
        self.playhead.advance(now, self.is_waiting);
        now
    }

    /// The media in so many bytes; nothing where its length is unknown.
    fn media_of(&self, bytes: u64) -> Duration {
        let Some(media) = self.media else { return Duration::ZERO };
        let nanos = media.as_nanos().saturating_mul(bytes.into()) / u128::from(self.size.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn bit_rate(&self) -> Option<u64> {
        let millis = self.media?.as_millis().max(1);
        u64::try_from(u128::from(self.size) * 8000 / millis).ok()
    }
}
