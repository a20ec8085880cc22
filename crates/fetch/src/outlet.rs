//! An output that takes bytes in their order only, such as a pipe.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use ring::digest::{Context, SHA256};
use tokio::sync::mpsc;

use crate::error::FetchError;
use crate::part::{Block, WAITING, Writer};
use crate::sum::Sha256;

/// How far ahead of the first missing byte pieces are fetched: so many bytes wait in memory at most.
pub(crate) const WINDOW: u64 = 64 << 20;

/// An output for the content of one file. Clones share it.
#[derive(Clone)]
pub struct Outlet(Arc<Mutex<Box<dyn Write + Send>>>);

impl Outlet {
    /// Writes to `writer`, which is flushed at the end.
    pub fn new(writer: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Box::new(writer))))
    }

    fn lock(&self) -> MutexGuard<'_, Box<dyn Write + Send>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Outlet")
    }
}

/// What went to an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) length: u64,
    pub(crate) sum: Sha256,
}

/// Starts a thread that puts blocks in order and writes them.
pub(crate) fn start(outlet: &Outlet) -> (mpsc::Sender<Block>, Writer<Written>) {
    let (sender, blocks) = mpsc::channel(WAITING);
    let outlet = outlet.clone();
    let writer = Writer::spawn(move || {
        write_in_order(&outlet, blocks)
            .map_err(|source| FetchError::Local { path: PathBuf::from("-"), source })
    });
    (sender, writer)
}

fn write_in_order(outlet: &Outlet, mut blocks: mpsc::Receiver<Block>) -> io::Result<Written> {
    let mut early: BTreeMap<u64, Bytes> = BTreeMap::new();
    let (mut length, mut context) = (0_u64, Context::new(&SHA256));
    let mut output = outlet.lock();
    while let Some(Block { offset, data }) = blocks.blocking_recv() {
        early.insert(offset, data);
        while let Some(data) = early.remove(&length) {
            output.write_all(&data)?;
            context.update(&data);
            length = length.saturating_add(u64::try_from(data.len()).unwrap_or(u64::MAX));
        }
    }
    output.flush()?;
    Ok(Written { length, sum: Sha256::try_from(context)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Memory {
        fn add(&self, bytes: &[u8]) -> usize {
            self.0.lock().unwrap().extend_from_slice(bytes);
            bytes.len()
        }
    }

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(self.add(bytes))
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn blocks_are_written_in_order_whatever_comes_first() {
        let memory = Memory::default();
        let (blocks, writer) = start(&Outlet::new(memory.clone()));
        for (offset, text) in [(2, "c"), (1, "b"), (3, "never, if a gap remains"), (0, "a")] {
            let data = Bytes::copy_from_slice(text.as_bytes());
            blocks.send(Block { offset: if text.len() > 1 { 9 } else { offset }, data }).await.unwrap();
        }
        drop(blocks);
        let written = writer.end().await.unwrap();
        assert_eq!(*memory.0.lock().unwrap(), b"abc");
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!((written.length, written.sum), (3, Sha256::parse(known).unwrap()));
    }
}
