//! Messages of a client, within its rate limits.

use std::io;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use manyway_transfer::{Delivery, Message, MessageReceiver, MessageSender};
use tokio::time::Instant;

use super::carried::Carried;
use super::limit::Limits;

/// One half of a stream of messages.
pub(super) struct LimitedMessages<H> {
    half: H,
    limits: Option<Arc<Limits>>,
    carried: Carried,
}

impl<H> LimitedMessages<H> {
    pub(super) fn new(half: H, limits: Option<Arc<Limits>>, carried: Carried) -> Self {
        Self { half, limits, carried }
    }
}

impl MessageSender for LimitedMessages<Box<dyn MessageSender>> {
    fn send(
        &mut self,
        message: Bytes,
        delivery: Delivery,
    ) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send + '_>> {
        Box::pin(async move {
            if let Some(limits) = &self.limits {
                while let Some(wait) = limits.outwards.wait(Instant::now()) {
                    tokio::time::sleep(wait).await;
                }
                limits.outwards.spend(message.len());
            }
            self.carried.on_sent(message.len());
            self.half.send(message, delivery).await
        })
    }

    /// Above the limit there is no room.
    fn try_send(&mut self, message: Bytes, delivery: Delivery) -> io::Result<bool> {
        let is_above = |limits: &Arc<Limits>| limits.outwards.wait(Instant::now()).is_some();
        if self.limits.as_ref().is_some_and(is_above) {
            return Ok(false);
        }
        let length = message.len();
        let is_sent = self.half.try_send(message, delivery)?;
        if is_sent {
            if let Some(limits) = &self.limits {
                limits.outwards.spend(length);
            }
            self.carried.on_sent(length);
        }
        Ok(is_sent)
    }

    fn finish(&mut self) {
        self.half.finish();
    }
}

impl MessageReceiver for LimitedMessages<Box<dyn MessageReceiver>> {
    fn receive(&mut self) -> Pin<Box<dyn Future<Output = io::Result<Option<Message>>> + Send + '_>> {
        Box::pin(async {
            while let Some(wait) = self.limits.as_ref().and_then(|it| it.inwards.wait(Instant::now())) {
                tokio::time::sleep(wait).await;
            }
            let message = self.half.receive().await?;
            let length = message.as_ref().map_or(0, |message| message.data.len());
            if let Some(limits) = &self.limits {
                limits.inwards.spend(length);
            }
            self.carried.on_received(length);
            Ok(message)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::time::Duration;

    use manyway::Rate;

    use super::*;

    type Later<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

    /// What was sent, or will be received.
    #[derive(Default)]
    struct Memory(VecDeque<Bytes>);

    impl MessageSender for Memory {
        fn send(&mut self, message: Bytes, delivery: Delivery) -> Later<'_, ()> {
            Box::pin(async move { self.try_send(message, delivery).map(drop) })
        }

        fn try_send(&mut self, message: Bytes, _: Delivery) -> io::Result<bool> {
            self.0.push_back(message);
            Ok(true)
        }

        fn finish(&mut self) {}
    }

    impl MessageReceiver for Memory {
        fn receive(&mut self) -> Later<'_, Option<Message>> {
            Box::pin(async { Ok(self.0.pop_front().map(|data| Message { data, protocol: 0 })) })
        }
    }

    fn limited<H>(half: H, carried: &Carried) -> LimitedMessages<H> {
        let limits = Limits::new(Rate::from_bytes_per_second(100_000));
        LimitedMessages::new(half, Some(Arc::new(limits)), carried.clone())
    }

    const MESSAGE: Bytes = Bytes::from_static(&[7; 1000]);
    /// Of 500 messages, but for the burst.
    const TIME: std::ops::Range<u128> = 4_500..5_100;

    #[tokio::test(start_paused = true)]
    async fn messages_keep_the_limit_in_both_directions_and_none_is_lost() {
        let carried = Carried::default();
        let half: Box<dyn MessageSender> = Box::new(Memory::default());
        let mut sender = limited(half, &carried);
        let start = Instant::now();
        for _ in 0..500 {
            sender.send(MESSAGE, Delivery::default()).await.unwrap();
        }
        assert!(TIME.contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());

        let half: Box<dyn MessageReceiver> = Box::new(Memory(vec![MESSAGE; 500].into()));
        let mut receiver = limited(half, &carried);
        let start = Instant::now();
        while let Some(message) = receiver.receive().await.unwrap() {
            assert_eq!(message.data, MESSAGE);
        }
        assert!(TIME.contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
        assert_eq!(carried.bytes(), (500_000, 500_000));
    }

    #[tokio::test(start_paused = true)]
    async fn datagrams_above_the_limit_find_no_room() {
        let carried = Carried::default();
        let half: Box<dyn MessageSender> = Box::new(Memory::default());
        let mut sender = limited(half, &carried);
        let mut sent = 0;
        // A megabyte a second.
        for _ in 0..5000 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            sent += u64::from(sender.try_send(MESSAGE, Delivery::default()).unwrap());
        }
        assert!((500..520).contains(&sent), "{sent}");
        assert_eq!(carried.bytes(), (0, 1000 * sent));
    }
}
