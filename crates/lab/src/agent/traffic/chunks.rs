//! A file that is dealt out to lanes in chunks, as by the program of CMT.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::bulk::{Budget, filler};
use crate::agent::document::Received;
use crate::agent::lane::{Reading, Writing};
use crate::agent::shared::Shared;
use crate::dealing::{Dealing, NUMBER, Resequencer};

/// Sends the chunks of a lane, each after its number.
pub(super) async fn send(
    write: &mut Writing,
    (dealing, lane): (&Dealing, usize),
    budget: &Shared<Budget>,
) -> io::Result<()> {
    let filler = filler();
    for number in dealing.of(lane) {
        let length = dealing.length(number);
        let mut piece = number.to_be_bytes().to_vec();
        piece.extend(filler.iter().cycle().take(usize::try_from(length).unwrap_or(0)));
        write.put(&piece).await?;
        budget.lock().add(length);
    }
    Ok(())
}

/// The receiving program, which all lanes share.
#[derive(Debug, Clone)]
pub(super) struct Program {
    dealing: Arc<Dealing>,
    order: Shared<Resequencer>,
    received: Shared<Received>,
}

impl Program {
    pub(super) fn new(dealing: Arc<Dealing>, received: Shared<Received>) -> Self {
        Self { dealing, order: Shared::default(), received }
    }

    /// Takes the chunks of a lane until its end. Each costs the program its time, during which it does nothing else.
    pub(super) async fn receive(&self, read: &mut Reading, begin: Instant) -> Result<(), String> {
        let failed =
            |error: io::Error| format!("receiving after {:.2} s: {error}", begin.elapsed().as_secs_f64());
        let mut buffer = vec![0; READ];
        let mut chunks = Chunks::default();
        loop {
            let length = read.take(&mut buffer).await.map_err(failed)?;
            if length == 0 {
                return chunks.end();
            }
            let mut rest = buffer.get(..length).unwrap_or_default();
            while let Some(number) = chunks.take(&mut rest, &self.dealing) {
                self.work(number, begin);
                // Other lanes have their turn.
                tokio::task::yield_now().await;
            }
        }
    }

    fn work(&self, number: u64, begin: Instant) {
        if self.dealing.cost > Duration::ZERO {
            std::thread::sleep(self.dealing.cost);
        }
        let length = self.dealing.length(number);
        let mut order = self.order.lock();
        order.take(number, length);
        let mut received = self.received.lock();
        received.arrivals.record(begin.elapsed(), length);
        received.most_held = Some(order.most_held());
    }
}

/// The chunk of a lane that has begun to arrive.
#[derive(Debug, Default)]
struct Chunks {
    number: [u8; 8],
    /// Bytes of the chunk that have arrived, its number included.
    arrived: u64,
}

impl Chunks {
    /// The lane has ended.
    fn end(&self) -> Result<(), String> {
        match self.arrived {
            0 => Ok(()),
            arrived => Err(format!("a connection ended after {arrived} bytes of a chunk and its number")),
        }
    }

    /// Takes bytes up to the end of a chunk, and returns its number; `None` once there are no more.
    fn take(&mut self, bytes: &mut &[u8], dealing: &Dealing) -> Option<u64> {
        while self.arrived < NUMBER {
            let (first, rest) = bytes.split_first()?;
            let place = usize::try_from(self.arrived).ok().and_then(|place| self.number.get_mut(place));
            *place? = *first;
            (self.arrived, *bytes) = (self.arrived + 1, rest);
        }
        let number = u64::from_be_bytes(self.number);
        let whole = NUMBER + dealing.length(number);
        let missing = whole.saturating_sub(self.arrived);
        let new = usize::try_from(missing).unwrap_or(usize::MAX).min(bytes.len());
        *bytes = bytes.get(new..).unwrap_or_default();
        self.arrived += u64::try_from(new).unwrap_or(0);
        let is_whole = self.arrived >= whole;
        if is_whole {
            self.arrived = 0;
        }
        is_whole.then_some(number)
    }
}

/// Most bytes of one read.
const READ: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_that_ends_within_a_chunk_is_an_error() {
        let dealing = Dealing::new((25, 10), (&[1], 1), Duration::ZERO);
        let stream = [&0_u64.to_be_bytes()[..], &[7; 10], &1_u64.to_be_bytes(), &[7; 10]].concat();
        for (length, ends_well) in [(36, true), (18, true), (35, false), (19, false), (0, true)] {
            let bytes = io::Cursor::new(stream[..length].to_vec());
            let mut read = Reading::Bytes(Box::new(bytes));
            let program = Program::new(Arc::new(dealing.clone()), Shared::default());
            let received = program.receive(&mut read, Instant::now()).await;
            assert_eq!(received.is_ok(), ends_well, "{length}: {received:?}");
        }
    }

    #[test]
    fn chunks_are_found_however_their_bytes_arrive() {
        let dealing = Dealing::new((25, 10), (&[1], 1), Duration::ZERO);
        let stream: Vec<u8> = dealing
            .of(0)
            .flat_map(|number| {
                let data = vec![7; usize::try_from(dealing.length(number)).unwrap()];
                [number.to_be_bytes().to_vec(), data].concat()
            })
            .collect();
        for piece in [1, 7, 8, 19, 100] {
            let mut chunks = Chunks::default();
            let mut found = Vec::new();
            for mut bytes in stream.chunks(piece) {
                found.extend(std::iter::from_fn(|| chunks.take(&mut bytes, &dealing)));
            }
            assert_eq!(found, [0, 1, 2], "pieces of {piece}");
        }
    }
}
