//! Packets for people: a line for each, and below it a line for each block.

use std::fmt::Write as _;
use std::io::{self, Write};

use manyway_inspect::capture::Skip;
use manyway_inspect::{
    BlockAt, ClearBlockAt, ClearPacket, Inside, Opened, Packet, blocks, handshake_message,
};
use manyway_terminal::note;
use manyway_wire::Side;
use manyway_wire::mmsp1::HEADER_LEN;
use manyway_wire::mmsp2::{Block, HeaderForm};

use super::show::{Place, Show, Summary};
use crate::args::GlobalArgs;

/// Indentation of blocks below their packet.
const INDENT: &str = "        ";

/// Writes text.
pub(super) struct Text<W> {
    out: W,
    detail: Detail,
}

/// How much is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Detail {
    /// Packets and blocks.
    Quiet,
    /// Also a summary at the end.
    Summary,
    /// Also the bytes of each block.
    Bytes,
}

impl Detail {
    /// From `-q` and `-v`.
    pub(super) fn of(global: &GlobalArgs) -> Self {
        match (global.quiet, global.verbose) {
            (true, _) => Self::Quiet,
            (false, 0) => Self::Summary,
            (false, _) => Self::Bytes,
        }
    }
}

impl<W: Write> Text<W> {
    pub(super) fn new(out: W, detail: Detail) -> Self {
        Self { out, detail }
    }

    fn shows_bytes(&self) -> bool {
        self.detail == Detail::Bytes
    }

    fn payload(&mut self, payload: &[u8]) -> io::Result<()> {
        for at in blocks(payload) {
            writeln!(self.out, "{INDENT}{}", words(&at))?;
            if self.shows_bytes() {
                let bytes = payload.get(at.offset..at.offset + at.length).unwrap_or_default();
                self.dump(bytes, at.offset)?;
            }
        }
        Ok(())
    }

    fn dump(&mut self, bytes: &[u8], offset: usize) -> io::Result<()> {
        for (number, line) in bytes.chunks(16).enumerate() {
            let mut hex = String::new();
            for (at, byte) in line.iter().enumerate() {
                let space = if at % 2 == 0 && at > 0 { " " } else { "" };
                let _ = write!(hex, "{space}{byte:02x}");
            }
            let text: String = line
                .iter()
                .map(|byte| if byte.is_ascii_graphic() { char::from(*byte) } else { '.' })
                .collect();
            writeln!(self.out, "{INDENT}    {:04x}: {hex:<39}  {text}", offset + 16 * number)?;
        }
        Ok(())
    }
}

impl<W: Write> Show for Text<W> {
    fn packet(&mut self, place: &Place, packet: &Packet, bytes: &[u8]) -> io::Result<()> {
        writeln!(self.out, "{}  {}", head(place), headline(packet))?;
        if place.missing > 0 {
            writeln!(self.out, "{INDENT}the capture lacks the last {} bytes of the datagram", place.missing)?;
        }
        match &packet.inside {
            Inside::Opened(opened) => {
                if opened.reserved_bits_set {
                    writeln!(self.out, "{INDENT}malformed: reserved bits are set")?;
                }
                self.payload(&opened.payload)
            }
            Inside::Sealed(why) => {
                writeln!(self.out, "{INDENT}{why}")?;
                if self.shows_bytes() { self.dump(bytes, 0) } else { Ok(()) }
            }
            Inside::Nothing if self.shows_bytes() => self.dump(bytes, 0),
            Inside::Nothing => Ok(()),
        }
    }

    fn clear_packet(&mut self, place: &Place, packet: &ClearPacket<'_>) -> io::Result<()> {
        let ClearPacket { header, payload, fault } = packet;
        let (from, to) = (header.source_port, header.destination_port);
        let length = HEADER_LEN + payload.len();
        let tag = header.connection;
        writeln!(self.out, "{}  MMSP/1 {from} > {to}, {length} bytes, to {tag}", head(place))?;
        if let Some(fault) = fault {
            writeln!(self.out, "{INDENT}malformed: {fault}")?;
        }
        for at in packet.blocks() {
            writeln!(self.out, "{INDENT}{}", clear_words(&at))?;
            if self.shows_bytes() {
                let bytes = payload.get(at.offset..at.offset + at.length).unwrap_or_default();
                self.dump(bytes, at.offset)?;
            }
        }
        Ok(())
    }

    fn skipped(&mut self, place: &Place, why: Skip) -> io::Result<()> {
        writeln!(self.out, "{}  skipped: {why}", head(place))
    }

    fn blocks(&mut self, payload: &[u8]) -> io::Result<()> {
        self.payload(payload)?;
        self.out.flush()
    }

    fn end(&mut self, summary: &Summary) -> io::Result<()> {
        self.out.flush()?;
        if self.detail == Detail::Quiet {
            return Ok(());
        }
        let Summary { packets, malformed, without_secret, skipped, has_keys } = *summary;
        note(&format!("{packets} packets, {malformed} malformed, {skipped} frames skipped"));
        if without_secret > 0 {
            let how =
                if has_keys { "the key log lacks their connections" } else { "--keylog FILE opens them" };
            note(&format!("{without_secret} packets are sealed: {how}; SSLKEYLOGFILE=FILE writes one"));
        }
        Ok(())
    }
}

/// Number, time and addresses.
fn head(place: &Place) -> String {
    let time = place.elapsed.map_or_else(|| "-".to_owned(), |time| format!("{:.6}", time.as_secs_f64()));
    let mut head = format!("{:>6} {time:>11}", place.number);
    if let Some((from, to)) = place.addresses {
        let _ = write!(head, "  {from} > {to}");
    }
    head
}

/// The header: `1 client data path 0 #17 phase 1, 1200 bytes, to 0102030405060708`.
fn headline(packet: &Packet) -> String {
    let mut line = String::new();
    if let Some(connection) = packet.connection {
        let _ = write!(line, "{connection} ");
    }
    if let Some(sender) = packet.sender {
        line.push_str(match sender {
            Side::Client => "client ",
            Side::Server => "server ",
        });
    }
    let form = match &packet.header {
        Ok(form) => form,
        Err(error) => {
            let _ = write!(line, "malformed: {error}; {} bytes", packet.length);
            return line;
        }
    };
    if let Some(level) = packet.level() {
        let _ = write!(line, "{level}");
    }
    if let Some(path) = packet.path {
        let _ = write!(line, " path {path}");
    }
    if let Inside::Opened(Opened { packet_number, key_phase, .. }) = &packet.inside {
        let _ = write!(line, " #{packet_number}");
        if let Some(phase) = key_phase {
            let _ = write!(line, " phase {phase}");
        }
    }
    let bytes = packet.length;
    let _ = match form {
        HeaderForm::Long { destination, source, .. } => {
            write!(line, ", {bytes} bytes, to {} from {}", id(destination.as_slice()), id(source.as_slice()))
        }
        HeaderForm::Short { destination } => {
            write!(line, ", {bytes} bytes, to {}", id(destination.as_slice()))
        }
        HeaderForm::OtherVersion { version, destination, source } => {
            write!(line, "version {version:#010x}, {bytes} bytes, to {} from {}", id(destination), id(source))
        }
        HeaderForm::VersionList { destination, source, versions } => {
            let (to, from) = (id(destination.as_slice()), id(source.as_slice()));
            let listed: Vec<_> = versions.iter().map(|version| format!("{version:#010x}")).collect();
            write!(line, "version list: {}; {bytes} bytes, to {to} from {from}", listed.join(", "))
        }
    };
    line
}

fn id(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "(empty)".to_owned();
    }
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A block on one line.
fn words(at: &BlockAt<'_>) -> String {
    match &at.block {
        Ok(Block::Padding) => format!("PADDING {} bytes", at.length),
        Ok(block @ Block::Crypto(piece)) => {
            let message =
                piece.data.first().filter(|_| piece.offset == 0).and_then(|first| handshake_message(*first));
            message.map_or_else(|| block.to_string(), |message| format!("{block}: {message}"))
        }
        Ok(block) => block.to_string(),
        Err(error) => format!("malformed: {error}"),
    }
}

/// A block of MMSP/1 as one line.
fn clear_words(at: &ClearBlockAt<'_>) -> String {
    match (&at.block, at.kind) {
        (Ok(Some(block)), _) => block.to_string(),
        (Ok(None), kind) => format!("skipped: unknown block {:#04x}", kind.unwrap_or_default()),
        (Err(error), _) => format!("malformed: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    /// The bytes that the specification shows, in words.
    #[test]
    fn the_examples_of_the_specification_read_as_words() {
        let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/specification/golden");
        let mut files: Vec<_> = fs::read_dir(golden).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let mut all = String::new();
        for file in files {
            let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
            let mut bytes = manyway_inspect::capture::parse_bytes(&fs::read(&file).unwrap()).unwrap();
            let mut out = Vec::new();
            let mut text = Text::new(&mut out, Detail::Quiet);
            if name == "parameters" {
                let parameters = manyway_wire::mmsp2::Parameters::decode(&bytes).unwrap();
                parameters.fields(&mut |name, field| {
                    let _ = writeln!(all, "parameters: {name} {field}");
                });
                continue;
            } else if name.starts_with("rendezvous_") || name.starts_with("mmsp1_") {
                // No packets of MMSP/2.
                continue;
            } else if name.starts_with("header_") {
                // They are bare headers; the sealed rest does not matter.
                bytes.resize(bytes.len() + 40, 0);
                let place = Place { number: 1, time: None, elapsed: None, addresses: None, missing: 0 };
                let datagram =
                    if name == "header_version_list" { &bytes[..bytes.len() - 40] } else { &bytes };
                for packet in manyway_inspect::Inspector::default().datagram(datagram).iter().take(1) {
                    text.packet(&place, packet, datagram).unwrap();
                }
            } else {
                text.blocks(&bytes).unwrap();
            }
            for line in String::from_utf8(out).unwrap().lines() {
                let _ = writeln!(all, "{name}: {}", line.trim());
            }
        }
        assert!(!all.contains("malformed"), "{all}");
        insta::assert_snapshot!(all);
    }

    /// The same of MMSP/1, each block in a packet of its own.
    #[test]
    fn the_examples_of_mmsp1_read_as_words() {
        use manyway_wire::mmsp1::{Header, Tag, seal};

        let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/specification/golden");
        let mut files: Vec<_> = fs::read_dir(golden).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let mut all = String::new();
        for file in files {
            let name = file.file_stem().unwrap().to_str().unwrap();
            let Some(name) = name.strip_prefix("mmsp1_").filter(|name| *name != "info") else { continue };
            let bytes = manyway_inspect::capture::parse_bytes(&fs::read(&file).unwrap()).unwrap();
            let mut packet = Vec::new();
            if name != "packet" {
                let header = Header { source_port: 5001, destination_port: 4000, connection: Tag(7) };
                header.encode(&mut manyway_wire::Writer::new(&mut packet, HEADER_LEN));
            }
            packet.extend(bytes);
            seal(&mut packet);
            let place = Place { number: 1, time: None, elapsed: None, addresses: None, missing: 0 };
            let mut out = Vec::new();
            let packet = manyway_inspect::clear_packet(&packet).unwrap();
            Text::new(&mut out, Detail::Quiet).clear_packet(&place, &packet).unwrap();
            let from = usize::from(name != "packet");
            for line in String::from_utf8(out).unwrap().lines().skip(from) {
                let _ = writeln!(all, "{name}: {}", line.trim());
            }
        }
        assert!(!all.contains("malformed"), "{all}");
        insta::assert_snapshot!(all);
    }

    #[test]
    fn bytes_are_shown_below_their_block_with_their_place() {
        let mut out = Vec::new();
        Text::new(&mut out, Detail::Bytes)
            .blocks(&[0x98, 0, 0, 4, 0x85, 0, 0, 5, 7, 0, 0, 0, 0xee, 0, 0, 4])
            .unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<_> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines,
            [
                "ACK-NOW",
                "0000: 9800 0004 ....",
                "MAX-DATA credit 7",
                "0004: 8500 0005 0700 0000 ........",
                "malformed: unknown block 0xee at byte 12",
                "000c: ee00 0004 ....",
            ]
        );
    }
}
