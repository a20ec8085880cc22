//! Messages of DNS (RFC 1035), as far as they have to be understood.

use crate::codec::{CodecError, Fields};

/// The question of a message that has exactly one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Question {
    /// The type of records that is asked for.
    pub(crate) kind: u16,
    /// Where it ends.
    pub(crate) end: usize,
}

/// What a message says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) id: u16,
    pub(super) is_response: bool,
    /// It is not whole.
    pub(super) is_truncated: bool,
    /// 0 without an error, 3 if there is no such name.
    pub(super) code: u8,
    pub(super) answers: u16,
    /// Of all three sections.
    pub(super) records: usize,
}

/// A record: where its time to live is, in seconds, and how long that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Life {
    pub(super) at: usize,
    pub(super) seconds: u32,
}

/// The question of a message; `None` if it is no query or answer about exactly one.
pub(crate) fn question(message: &[u8]) -> Option<Question> {
    head(message)?;
    let mut fields = Fields::new(message.get(HEADER..)?);
    skip_name(&mut fields).ok()?;
    let kind = fields.u16("type").ok()?;
    fields.u16("class").ok()?;
    Some(Question { kind, end: message.len() - fields.left() })
}

/// The header of a standard query or its answer, with one question.
pub(super) fn head(message: &[u8]) -> Option<Head> {
    let (header, _) = message.split_first_chunk::<HEADER>()?;
    let [id @ .., a, b, c, d, e, f, g, h, i, j] = *header;
    let [answers, authorities, additional] = [[e, f], [g, h], [i, j]].map(u16::from_be_bytes);
    let is_one = a & OPCODE == 0 && u16::from_be_bytes([c, d]) == 1;
    is_one.then(|| Head {
        id: u16::from_be_bytes(id),
        is_response: a & RESPONSE != 0,
        is_truncated: a & TRUNCATED != 0,
        code: b & CODE,
        answers,
        records: [answers, authorities, additional].map(usize::from).iter().sum(),
    })
}

/// The times to live of the records behind the question. `None` if the message is no whole one.
pub(super) fn lives(message: &[u8], question: Question, records: usize) -> Option<Vec<Life>> {
    let mut fields = Fields::new(message.get(question.end..)?);
    let mut lives = Vec::new();
    for _ in 0..records {
        skip_name(&mut fields).ok()?;
        let kind = fields.u16("type").ok()?;
        fields.u16("class").ok()?;
        let at = message.len() - fields.left();
        let seconds = fields.u32("time to live").ok()?;
        let length = fields.u16("length").ok()?;
        fields.take("data", length.into()).ok()?;
        // What OPT has there are flags (RFC 6891, section 6.1.3).
        if kind != OPT {
            lives.push(Life { at, seconds });
        }
    }
    fields.finish().ok()?;
    Some(lives)
}

/// The answer that there is no record of the type that is asked for (RFC 2308, section 2.2).
pub(crate) fn empty_answer(query: &[u8], question: Question) -> Option<Vec<u8>> {
    let mut answer = query.get(..question.end)?.to_vec();
    let [_, _, a, b, _, _, counts @ ..] = answer.first_chunk_mut::<HEADER>()?;
    *a = *a & !TRUNCATED | RESPONSE;
    *b = RECURSION_AVAILABLE;
    *counts = [0; 6];
    Some(answer)
}

/// Labels up to the root, or up to a pointer to an earlier name.
fn skip_name(fields: &mut Fields<'_>) -> Result<(), CodecError> {
    loop {
        match fields.u8("label")? {
            0 => return Ok(()),
            length @ 1..=63 => {
                fields.take("label", length.into())?;
            }
            192..=255 => {
                fields.u8("pointer")?;
                return Ok(());
            }
            length => return Err(CodecError::Value { field: "label", value: length.into() }),
        }
    }
}

const HEADER: usize = 12;
// Bits of the third and the fourth byte.
const RESPONSE: u8 = 0x80;
const OPCODE: u8 = 0x78;
const TRUNCATED: u8 = 0x02;
const RECURSION_AVAILABLE: u8 = 0x80;
const CODE: u8 = 0x0f;
/// Types of records: an address of IPv6 (RFC 3596), and one that is none (RFC 6891).
pub(crate) const AAAA: u16 = 28;
const OPT: u16 = 41;
