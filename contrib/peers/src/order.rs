//! In which order packets arrive: quinn tells it only in its log, qlog.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use quinn::{QlogConfig, QlogStream};
use serde::{Deserialize, Serialize};

/// Watches the packets of a connection. Clones watch the same.
#[derive(Debug, Clone, Default)]
pub struct Order(Arc<Mutex<Watch>>);

/// Packets that carry data (1-RTT) and have arrived, without copies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Packets {
    packets: u64,
    /// Those that arrived after one with a higher number.
    overtaken: u64,
}

#[derive(Debug, Default)]
struct Watch {
    /// What of a line was written so far.
    line: Vec<u8>,
    packets: Packets,
    /// The number after the highest.
    next: u64,
}

impl Order {
    /// The log to watch.
    pub fn log(&self) -> Option<QlogStream> {
        let mut config = QlogConfig::default();
        config.writer(Box::new(self.clone()));
        config.into_stream()
    }

    /// Those until now.
    pub fn packets(&self) -> Packets {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).packets
    }
}

impl Write for Order {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut watch = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match bytes.split_last() {
            // The end of a record is written by itself.
            Some((b'\n', rest)) => {
                watch.line.extend_from_slice(rest);
                watch.take();
            }
            _ => watch.line.extend_from_slice(bytes),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Watch {
    /// Takes a record, of a received packet or of something else.
    fn take(&mut self) {
        // Each begins with a record separator (RFC 7464).
        let line = self.line.strip_prefix(b"\x1e").unwrap_or(&self.line);
        if let Ok(Record { name, data: Data { header } }) = serde_json::from_slice(line)
            && name.ends_with(":packet_received")
            && header.packet_type == "1RTT"
        {
            self.packets.packets += 1;
            self.packets.overtaken += u64::from(header.packet_number < self.next);
            self.next = self.next.max(header.packet_number + 1);
        }
        self.line.clear();
    }
}

#[derive(Deserialize)]
struct Record<'a> {
    name: &'a str,
    #[serde(borrow)]
    data: Data<'a>,
}

#[derive(Deserialize)]
struct Data<'a> {
    #[serde(borrow)]
    header: Header<'a>,
}

#[derive(Deserialize)]
struct Header<'a> {
    packet_type: &'a str,
    packet_number: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_with_lower_numbers_than_earlier_ones_are_overtaken() {
        let mut order = Order::default();
        let received = |kind: &str, number: u64| {
            format!(
                r#"{{"time":1.5,"name":"quic:packet_received","data":{{"header":{{"packet_type":"{kind}","packet_number":{number}}}}}}}"#
            )
        };
        let sent = received("1RTT", 0).replace("received", "sent");
        let records = [(0, "initial"), (0, "1RTT"), (2, "1RTT"), (1, "1RTT"), (3, "1RTT")];
        let records = records.map(|(number, kind)| received(kind, number));
        for record in records.iter().chain([&sent, &"no JSON".to_owned()]) {
            write!(order, "\x1e{record}").unwrap();
            order.write_all(b"\n").unwrap();
        }
        assert_eq!(order.packets(), Packets { packets: 4, overtaken: 1 });
    }

    #[test]
    fn the_log_of_quinn_is_understood() {
        // Its first record, which tells the format, is no packet.
        let order = Order::default();
        assert!(order.log().is_some());
        assert_eq!(order.packets(), Packets::default());
    }
}
