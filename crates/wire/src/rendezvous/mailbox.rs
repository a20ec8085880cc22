//! Datagrams between an end of a mailbox and its rendezvous server (spec 10.17).
//!
//! ```text
//! ask (6 the fetching end's, 7 the offering end's), after the token:
//!           | nonce 64 | cookie 128 | number 32 | posted 8 | taken 8 | padding to 64 bytes
//!           | nonce 64 | cookie 128 | number 32 | posted 8 | taken 8 | letter 3200 | padding to 464 bytes
//! state (8): | nonce 64 | number 32 | status 8 | held 8 | posted 8 | letter 3200, or nothing
//! leave (9): | nonce 64 | cookie 128 | padding to 64 bytes
//! observe (10): | nonce 64 | padding to 64 bytes
//! bind (11): | nonce 64 | cookie 128 | number 32 | padding to 64 bytes
//! bound (12): | nonce 64 | 1 if bound, else 0
//! ```

use crate::decode_error::DecodeError;
use crate::ids::Side;
use crate::reader::Reader;
use crate::writer::Writer;

/// Bytes of a letter.
pub const LETTER_LEN: usize = 400;
/// Bytes of an `ask` without a letter, of `leave`, `observe` and `bind`. No answer without a letter is longer.
pub const SHORT_LEN: usize = 64;
/// Bytes of an `ask` with a letter. No answer is longer.
pub const LONG_LEN: usize = SHORT_LEN + LETTER_LEN;

/// What one end leaves for the other: opaque to the rendezvous server.
pub type Letter = [u8; LETTER_LEN];

/// The request of an end of a mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask<'a> {
    /// [`Side::Server`] offers and opened the mailbox, [`Side::Client`] fetches.
    pub side: Side,
    /// Returned in the answer.
    pub nonce: u64,
    /// As the rendezvous server gave it; zeros in the first request.
    pub cookie: [u8; 16],
    /// The mailbox; 0 for a new one.
    pub number: u32,
    /// Which of its letters the end leaves, counted from 1; 0 if none.
    pub posted: u8,
    /// The newest letter of the other end that this one has; 0 if none.
    pub taken: u8,
    /// The letter that is left. Only a request with one is answered by one.
    pub letter: Option<&'a Letter>,
}

/// The answer to [`Ask`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State<'a> {
    /// That of the request.
    pub nonce: u64,
    /// The mailbox.
    pub number: u32,
    /// Whether the end has it.
    pub status: Status,
    /// The newest letter of the asking end that is there; 0 if none.
    pub held: u8,
    /// The newest letter of the other end that is there; 0 if none.
    pub posted: u8,
    /// The newest letter of the other end, if the asking one has not taken it yet and asked at full length.
    pub letter: Option<&'a Letter>,
}

/// What a mailbox is to the end that asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The end has it.
    Open,
    /// There is none of that number: it was never opened, was closed, or is forgotten.
    Gone,
    /// Another end has it.
    Taken,
    /// There is no room for another one.
    Full,
}

impl Status {
    const ALL: [Self; 4] = [Self::Open, Self::Gone, Self::Taken, Self::Full];

    fn code(self) -> u8 {
        match self {
            Self::Open => 0,
            Self::Gone => 1,
            Self::Taken => 2,
            Self::Full => 3,
        }
    }
}

impl<'a> Ask<'a> {
    pub(super) fn decode(side: Side, reader: &mut Reader<'a>, is_long: bool) -> Result<Self, DecodeError> {
        Ok(Self {
            side,
            nonce: reader.u64()?,
            cookie: reader.array()?,
            number: reader.u32()?,
            posted: reader.u8()?,
            taken: reader.u8()?,
            letter: if is_long { Some(letter(reader)?) } else { None },
        })
    }

    pub(super) fn encode(&self, w: &mut Writer<'_>) {
        w.u64(self.nonce);
        w.bytes(&self.cookie);
        w.u32(self.number);
        w.u8(self.posted);
        w.u8(self.taken);
        w.bytes(self.letter.map_or(&[], |letter| &letter[..]));
    }

    pub(super) fn length(&self) -> usize {
        if self.letter.is_some() { LONG_LEN } else { SHORT_LEN }
    }
}

impl<'a> State<'a> {
    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            nonce: reader.u64()?,
            number: reader.u32()?,
            status: status(reader)?,
            held: reader.u8()?,
            posted: reader.u8()?,
            letter: if reader.is_empty() { None } else { Some(letter(reader)?) },
        })
    }

    pub(super) fn encode(&self, w: &mut Writer<'_>) {
        w.u64(self.nonce);
        w.u32(self.number);
        w.u8(self.status.code());
        w.u8(self.held);
        w.u8(self.posted);
        w.bytes(self.letter.map_or(&[], |letter| &letter[..]));
    }
}

fn status(reader: &mut Reader<'_>) -> Result<Status, DecodeError> {
    let offset = reader.offset();
    let code = reader.u8()?;
    let status = Status::ALL.into_iter().find(|status| status.code() == code);
    status.ok_or_else(|| reader.out_of_range(offset, "status", code.into()))
}

fn letter<'a>(reader: &mut Reader<'a>) -> Result<&'a Letter, DecodeError> {
    let offset = reader.offset();
    let bytes = reader.bytes(LETTER_LEN)?;
    bytes.try_into().map_err(|_| reader.out_of_range(offset, "letter length", bytes.len() as u64))
}
