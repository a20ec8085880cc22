//! Frames of pcap and pcapng files.

use std::io::Read;
use std::ops::ControlFlow;
use std::time::Duration;

use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{
    Block, InterfaceDescriptionBlock, LegacyPcapReader, PcapBlockOwned, PcapError, PcapHeader, PcapNGReader,
    SecretsType,
};

use super::error::CaptureError;
use super::framing::{Framing, PCAPNG};
use super::item::Item;
use super::link;

/// Bytes that identify the format: the header of a pcap file.
pub(super) const LEAST: usize = 24;
/// The initial size of the buffer, and the maximum: a larger block is damaged.
const BUFFER: usize = 256 * 1024;
const LARGEST_BUFFER: usize = 16 * 1024 * 1024;
/// Interfaces that a pcapng file may name in one section.
const MOST_INTERFACES: usize = 4096;

/// Whether a file with this beginning has one of the two formats.
pub(super) fn is_capture(head: &[u8]) -> bool {
    let Some(magic) = head.first_chunk::<4>() else { return false };
    let pcap = [0xa1b2_c3d4, 0xa1b2_3c4d, 0xa1b2_cd34];
    *magic == PCAPNG
        || pcap.contains(&u32::from_le_bytes(*magic))
        || pcap.contains(&u32::from_be_bytes(*magic))
}

/// The claimed length of the first block, if it is plausible.
pub(super) fn first_block(head: &[u8]) -> usize {
    let word = |at: usize| head.get(at..at + 4).and_then(|bytes| bytes.first_chunk::<4>().copied());
    match (word(0), word(4), word(8)) {
        (Some(PCAPNG), Some(length), Some([0x4d, 0x3c, 0x2b, 0x1a])) => u32::from_le_bytes(length),
        (Some(PCAPNG), Some(length), Some(_)) => u32::from_be_bytes(length),
        _ => 0,
    }
    .try_into()
    .map_or(BUFFER / 2, |length: usize| length.min(BUFFER / 2))
}

/// An interface of the capture.
#[derive(Debug, Clone, Copy)]
struct Interface {
    link: i32,
    /// Ticks a second.
    resolution: u64,
    /// Seconds to add.
    offset: i64,
    snap_length: u32,
}

impl Interface {
    fn of_header(header: &PcapHeader) -> Self {
        let resolution = if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
        // The upper bits describe checksums at the end of frames.
        Self { link: header.network.0 & 0x03ff_ffff, resolution, offset: 0, snap_length: u32::MAX }
    }

    fn of_block(block: &InterfaceDescriptionBlock<'_>) -> Self {
        let snap_length = if block.snaplen == 0 { u32::MAX } else { block.snaplen };
        let resolution = block.ts_resolution().filter(|resolution| *resolution > 0);
        let resolution = resolution.unwrap_or(1_000_000);
        Self { link: block.linktype.0, resolution, offset: block.if_tsoffset, snap_length }
    }

    fn time(&self, ticks: u64) -> Option<Duration> {
        let seconds = (ticks / self.resolution).checked_add_signed(self.offset)?;
        let rest = u128::from(ticks % self.resolution) * 1_000_000_000 / u128::from(self.resolution);
        Some(Duration::new(seconds, u32::try_from(rest).ok()?))
    }
}

/// Reads all frames.
pub(super) fn read(
    is_pcapng: bool,
    input: impl Read + Send,
    each: &mut dyn FnMut(Item<'_>) -> ControlFlow<()>,
) -> Result<(), CaptureError> {
    let damaged = |_| CaptureError::Damaged { after: 0 };
    let mut reader: Box<dyn PcapReaderIterator> = if is_pcapng {
        Box::new(PcapNGReader::new(BUFFER, Framing::new(input)).map_err(damaged)?)
    } else {
        Box::new(LegacyPcapReader::new(BUFFER, input).map_err(damaged)?)
    };
    let mut frames = Frames::default();
    let mut size = BUFFER;
    loop {
        let wanted = match reader.next() {
            Ok((length, block)) => {
                let flow = frames.take(&block, each);
                reader.consume(length);
                if flow.is_break() {
                    return Ok(());
                }
                continue;
            }
            Err(PcapError::Eof) => return Ok(()),
            Err(PcapError::Incomplete(_)) => Wanted::Bytes,
            Err(PcapError::BufferTooSmall) if size < LARGEST_BUFFER => Wanted::Room,
            Err(_) => return Err(CaptureError::Damaged { after: frames.number }),
        };
        if wanted == Wanted::Room {
            size *= 2;
            reader.grow(size);
        }
        reader.refill().map_err(|_| CaptureError::Damaged { after: frames.number })?;
    }
}

/// What a reader needs to continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Bytes,
    Room,
}

/// The state of reading a file.
#[derive(Debug, Default)]
struct Frames {
    number: u64,
    interfaces: Vec<Interface>,
}

impl Frames {
    fn take(
        &mut self,
        block: &PcapBlockOwned<'_>,
        each: &mut dyn FnMut(Item<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => self.interfaces.push(Interface::of_header(header)),
            PcapBlockOwned::Legacy(frame) => {
                let Some(interface) = self.interfaces.first().copied() else {
                    return ControlFlow::Continue(());
                };
                let ticks = u64::from(frame.ts_usec);
                let part = interface.time(ticks).unwrap_or_default();
                let time = Duration::from_secs(u64::from(frame.ts_sec)) + part;
                return self.frame(interface.link, Some(time), frame.data, each);
            }
            PcapBlockOwned::NG(block) => return self.take_block(block, each),
        }
        ControlFlow::Continue(())
    }

    fn take_block(
        &mut self,
        block: &Block<'_>,
        each: &mut dyn FnMut(Item<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match block {
            // Interfaces are numbered anew in each section.
            Block::SectionHeader(_) => self.interfaces.clear(),
            Block::InterfaceDescription(interface) if self.interfaces.len() < MOST_INTERFACES => {
                self.interfaces.push(Interface::of_block(interface));
            }
            Block::EnhancedPacket(frame) => {
                let at = usize::try_from(frame.if_id).unwrap_or(usize::MAX);
                let interface = self.interfaces.get(at).copied();
                let ticks = u64::from(frame.ts_high) << 32 | u64::from(frame.ts_low);
                let time = interface.and_then(|interface| interface.time(ticks));
                let data = captured(frame.data, frame.caplen);
                return self.frame(interface.map_or(UNKNOWN_LINK, |i| i.link), time, data, each);
            }
            Block::SimplePacket(frame) => {
                let interface = self.interfaces.first().copied();
                let length = interface.map_or(u32::MAX, |i| i.snap_length).min(frame.origlen);
                let data = captured(frame.data, length);
                return self.frame(interface.map_or(UNKNOWN_LINK, |i| i.link), None, data, each);
            }
            Block::DecryptionSecrets(secrets) if secrets.secrets_type == SecretsType::TlsKeyLog => {
                return each(Item::KeyLog(captured(secrets.data, secrets.secrets_len)));
            }
            Block::InterfaceDescription(_)
            | Block::DecryptionSecrets(_)
            | Block::NameResolution(_)
            | Block::InterfaceStatistics(_)
            | Block::SystemdJournalExport(_)
            | Block::ProcessInformation(_)
            | Block::Custom(_)
            | Block::Unknown(_) => {}
        }
        ControlFlow::Continue(())
    }

    fn frame(
        &mut self,
        link: i32,
        time: Option<Duration>,
        data: &[u8],
        each: &mut dyn FnMut(Item<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.number += 1;
        each(link::item(link, self.number, time, data))
    }
}

/// The link type of a frame whose interface the file does not describe.
const UNKNOWN_LINK: i32 = -1;

/// The captured bytes without the padding after them.
fn captured(data: &[u8], length: u32) -> &[u8] {
    usize::try_from(length).ok().and_then(|length| data.get(..length)).unwrap_or(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_of_every_resolution_are_read() {
        let interface = |resolution, offset| Interface { link: 1, resolution, offset, snap_length: 0 };
        let at = Duration::new(1_700_000_000, 123_456_000);
        assert_eq!(interface(1_000_000, 0).time(1_700_000_000_123_456), Some(at));
        assert_eq!(interface(1_000_000_000, -5).time(1_700_000_005_123_456_000), Some(at));
        assert_eq!(interface(1, i64::MIN).time(5), None);
        assert_eq!(interface(1 << 63, 0).time(u64::MAX).map(|time| time.as_secs()), Some(1));
    }
}
