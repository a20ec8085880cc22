//! Adapts a connection to the transfer protocol.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use manyway::{Carries, Class, Connection, MessageOptions, Order, ReceiveStream, SendStream};
use manyway_transfer::{
    Delivery, Message, MessageHalves, MessageReceiver, MessageSender, Session, Transport, TransportFacts,
    Urgency,
};

/// A [`Connection`] that carries the verbs.
#[derive(Debug, Clone)]
pub struct NetSession(pub Connection);

impl Session for NetSession {
    type Send = SendStream;
    type Receive = ReceiveStream;

    async fn open(&self) -> io::Result<(SendStream, ReceiveStream)> {
        self.0.open().await.map_err(io::Error::other)
    }

    async fn accept(&self) -> Option<(SendStream, ReceiveStream)> {
        self.0.accept().await.ok()
    }

    async fn carries_messages(receive: &mut ReceiveStream) -> io::Result<bool> {
        Ok(receive.carries().await? == Carries::Messages)
    }

    fn messages(send: SendStream, receive: ReceiveStream) -> Option<MessageHalves> {
        Some(halves((send, receive)))
    }

    fn set_urgency(send: &mut SendStream, urgency: Urgency) {
        send.set_class(class_of(urgency));
    }

    fn transport(&self) -> Option<Arc<dyn Transport>> {
        Some(Arc::new(self.clone()))
    }
}

impl Transport for NetSession {
    fn facts(&self) -> Pin<Box<dyn Future<Output = Option<TransportFacts>> + Send + '_>> {
        Box::pin(async {
            let info = self.0.info().await.ok()?;
            let paths = || info.paths.iter().map(|path| path.statistics);
            Some(TransportFacts {
                packets_sent: paths().map(|path| path.packets_sent).sum(),
                packets_lost: paths().map(|path| path.packets_lost).sum(),
                congestion: info.statistics.congestion.to_owned(),
            })
        })
    }

    fn set_congestion<'a>(&'a self, name: &'a str) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        Box::pin(async { self.0.set_congestion(name).await.unwrap_or(false) })
    }

    fn open_messages(&self) -> Pin<Box<dyn Future<Output = Option<MessageHalves>> + Send + '_>> {
        Box::pin(async {
            self.0.max_message()?;
            self.0.open().await.ok().map(halves)
        })
    }

    fn accept_messages(&self) -> Pin<Box<dyn Future<Output = Option<MessageHalves>> + Send + '_>> {
        Box::pin(async {
            self.0.max_message()?;
            self.0.accept().await.ok().map(halves)
        })
    }
}

fn halves((send, receive): (SendStream, ReceiveStream)) -> MessageHalves {
    (Box::new(Messages(send)), Box::new(Messages(receive)))
}

/// One half of a stream of messages.
struct Messages<S>(S);

fn class_of(urgency: Urgency) -> Class {
    match urgency {
        Urgency::Interactive => Class::Interactive,
        Urgency::Deadline => Class::Deadline,
        Urgency::Bulk => Class::Bulk,
    }
}

fn options_of(delivery: Delivery) -> MessageOptions {
    let order = if delivery.is_ordered { Order::Ordered } else { Order::Unordered };
    let class = class_of(delivery.urgency);
    let options = MessageOptions::default().order(order).class(class).protocol(delivery.protocol);
    match delivery.lifetime {
        Some(lifetime) => options.lifetime(lifetime),
        None => options,
    }
}

impl MessageSender for Messages<SendStream> {
    fn send(
        &mut self,
        message: Bytes,
        delivery: Delivery,
    ) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send + '_>> {
        Box::pin(async move {
            self.0.send_message(message, options_of(delivery)).await?;
            Ok(())
        })
    }

    fn try_send(&mut self, message: Bytes, delivery: Delivery) -> io::Result<bool> {
        Ok(self.0.try_send_message(message, options_of(delivery))?.is_some())
    }

    fn finish(&mut self) {
        // If the stream has ended, the receiver notices.
        let _ = self.0.finish();
    }
}

impl MessageReceiver for Messages<ReceiveStream> {
    fn receive(&mut self) -> Pin<Box<dyn Future<Output = io::Result<Option<Message>>> + Send + '_>> {
        Box::pin(async {
            let message = self.0.receive_message().await?;
            Ok(message.map(|it| Message { data: it.data, protocol: it.protocol }))
        })
    }
}
