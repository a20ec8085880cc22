//! The class of a TCP connection on its stream.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use manyway_session::{Session, Urgency};
use tokio::io::AsyncWrite;
use tokio::time::Instant;

use crate::allowance::Allowance;

/// The sending half of a stream, in a given class, or in the class of its behaviour: interactive as long as it sends
/// little, otherwise bulk.
pub struct ClassedSend<S: Session> {
    send: S::Send,
    behaviour: Option<Behaviour>,
}

impl<S: Session> fmt::Debug for ClassedSend<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClassedSend").field("behaviour", &self.behaviour).finish_non_exhaustive()
    }
}

impl<S: Session> ClassedSend<S> {
    /// With this class for all that is sent; `None` leaves it to the behaviour.
    pub fn new(mut send: S::Send, class: Option<Urgency>) -> Self {
        S::set_urgency(&mut send, class.unwrap_or(Urgency::Interactive));
        let behaviour = class.is_none().then(|| Behaviour::new(Instant::now()));
        Self { send, behaviour }
    }
}

impl<S: Session> AsyncWrite for ClassedSend<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.send).poll_write(context, data);
        let this = &mut *self;
        if let Some(behaviour) = &mut this.behaviour {
            let written = match &polled {
                Poll::Ready(result) => Some(*result.as_ref().unwrap_or(&0)),
                Poll::Pending => None,
            };
            if let Some(class) = behaviour.on_write(Instant::now(), written) {
                S::set_urgency(&mut this.send, class);
            }
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.send).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.send).poll_shutdown(context)
    }
}

/// What a connection has sent lately.
// egress 4.6
#[derive(Debug)]
struct Behaviour {
    allowance: Allowance,
    class: Urgency,
    /// The last write found no room.
    waits: bool,
}

impl Behaviour {
    fn new(now: Instant) -> Self {
        Self { allowance: Allowance::new(now), class: Urgency::Interactive, waits: false }
    }

    /// After a write of so many bytes, or one without room: the class, if it is another one now.
    fn on_write(&mut self, now: Instant, written: Option<usize>) -> Option<Urgency> {
        let class = match written {
            None => {
                // It sends as much as there is room for, however little that is.
                self.allowance.exhaust(now);
                Urgency::Bulk
            }
            Some(bytes) => {
                if self.waits {
                    self.allowance.hold(now);
                }
                self.allowance.urgency(now, bytes)
            }
        };
        self.waits = written.is_none();
        (std::mem::replace(&mut self.class, class) != class).then_some(class)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The class after writes of these bytes at these times, in milliseconds; `None` finds no room.
    fn class_after(writes: impl IntoIterator<Item = (u64, Option<usize>)>) -> Urgency {
        let begin = Instant::now();
        let mut behaviour = Behaviour::new(begin);
        for (at, written) in writes {
            behaviour.on_write(begin + Duration::from_millis(at), written);
        }
        behaviour.class
    }

    // egress 4.6
    #[test]
    fn a_connection_is_interactive_while_it_sends_little_and_bulk_while_it_sends_all_it_can() {
        let keys = (0..1000).map(|number| (number * 50, Some(80)));
        assert_eq!(class_after(keys), Urgency::Interactive);
        let answers = (0..1000).map(|number| (number * 100, Some(30_000)));
        assert_eq!(class_after(answers), Urgency::Interactive, "request and response");
        let video = (0..1000).map(|number| (number * 40, Some(12_500)));
        assert_eq!(class_after(video), Urgency::Interactive, "2.5 Mbit/s, paced");
        let download = (0..1000).map(|number| (number, Some(16_384)));
        assert_eq!(class_after(download), Urgency::Bulk);
        // A link of 0.8 Mbit/s: less than a call with video may send, but something always waits.
        let slow = (0..1000).flat_map(|number| [(number * 160, Some(16_384)), (number * 160, None)]);
        assert_eq!(class_after(slow), Urgency::Bulk);
    }

    // egress 4.6
    #[test]
    fn a_session_is_interactive_again_after_it_has_shown_much() {
        let shown = (0..100).map(|number| (number, Some(16_384)));
        let with = |pause: u64| shown.clone().chain([(99 + pause, Some(80))]);
        assert_eq!(class_after(with(70)), Urgency::Bulk);
        assert_eq!(class_after(with(90)), Urgency::Interactive);
        // Time without room is no pause.
        let blocked = shown.clone().chain([(100, None), (5000, Some(80))]);
        assert_eq!(class_after(blocked), Urgency::Bulk);
    }
}
