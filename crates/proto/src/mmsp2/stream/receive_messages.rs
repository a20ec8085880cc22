//! The receiving half of a stream that carries messages.

use manyway_wire::mmsp2::{MessageData, MessageId};

use super::{Counted, ReceiveHalf};
use crate::message::{Carries, MessageOutcome};
use crate::mmsp2::message::inbox::{CreditCost, Inbox, Refusal};
use crate::mmsp2::stream::state::{ReceiveEvent, ReceiveState};
use crate::{Misuse, Violation};

impl ReceiveHalf {
    /// The kind of data that the peer sent so far.
    pub(crate) fn carries(&self) -> Carries {
        match &self.messages {
            Some(_) => Carries::Messages,
            None if self.bytes.arrived() > 0 || self.bytes.overhead() > 0 => Carries::Bytes,
            None => Carries::Nothing,
        }
    }

    /// Whether a block of bytes (`has_data`) matches the kind of data before it (spec 8.28).
    pub(crate) fn check_carries_bytes(&self, has_data: bool) -> Result<(), Violation> {
        if self.messages.is_some() && has_data {
            return Err(Violation::StreamState { stream: self.stream });
        }
        Ok(())
    }

    /// Checks a piece of a message against its earlier pieces, the stream's end and its credit, and returns its cost.
    /// Changes nothing. `None` if the application no longer wants the message.
    pub(crate) fn check_message(
        &mut self,
        block: &MessageData<'_>,
        most: u64,
    ) -> Result<Option<CreditCost>, Violation> {
        let number = block.message.number;
        let Some(inbox) = self.open_inbox()? else { return Ok(None) };
        let credit_cost = inbox.check(block, most);
        self.check_credit_cost(number, credit_cost).map(Some)
    }

    /// Checks a skip likewise.
    pub(crate) fn check_skip(&mut self, id: MessageId, reach: u32) -> Result<Option<CreditCost>, Violation> {
        let Some(inbox) = self.open_inbox()? else { return Ok(None) };
        let credit_cost = inbox.check_skip(id, reach);
        self.check_credit_cost(id.number, credit_cost).map(Some)
    }

    fn open_inbox(&mut self) -> Result<Option<&mut Inbox>, Violation> {
        match self.state {
            ReceiveState::Receiving | ReceiveState::Ending => {}
            // A complete stream cannot change; in the other states the final size counts the rest.
            ReceiveState::Complete
            | ReceiveState::Read
            | ReceiveState::Reset { .. }
            | ReceiveState::ResetTold
            | ReceiveState::Stopped { .. }
            | ReceiveState::Discarded => return Ok(None),
        }
        if self.carries() == Carries::Bytes {
            return Err(Violation::StreamState { stream: self.stream });
        }
        Ok(Some(&mut **self.messages.get_or_insert_default()))
    }

    fn check_credit_cost(
        &self,
        number: u64,
        credit_cost: Result<CreditCost, Refusal>,
    ) -> Result<CreditCost, Violation> {
        let stream = self.stream;
        let credit_cost = credit_cost.map_err(|reason| Violation::Message { stream, number, reason })?;
        let reached = self.messages.as_deref().map_or(0, Inbox::reached).saturating_add(credit_cost.new);
        let Some(known) = self.final_size else {
            if credit_cost.new > self.credit.left() {
                let credit = self.credit.limit();
                return Err(Violation::FlowControl { stream: Some(stream), credit, offset: reached });
            }
            return Ok(credit_cost);
        };
        // The end counted everything before it.
        if reached > known {
            Err(Violation::FinalSize { stream, known, claimed: reached })
        } else {
            Ok(credit_cost)
        }
    }

    /// The part of a cost that is new to the credit: the end of the stream counts everything before it.
    pub(crate) fn uncounted(&self, credit_cost: CreditCost) -> u64 {
        if self.final_size.is_some() { 0 } else { credit_cost.new }
    }

    /// Takes a piece that passed [`Self::check_message`]; true if it completes a message.
    pub(crate) fn on_message(&mut self, block: &MessageData<'_>, credit_cost: CreditCost) -> (Counted, bool) {
        let received = self.uncounted(credit_cost);
        self.credit.receive(received);
        let Some(inbox) = &mut self.messages else { return (Counted::default(), false) };
        let before = inbox.finished();
        inbox.on_piece(block, credit_cost);
        let is_whole = inbox.finished() > before;
        self.note_arrival();
        (Counted { received, ..Counted::default() }, is_whole)
    }

    /// Skips a message that passed [`Self::check_skip`].
    pub(crate) fn on_skip(&mut self, id: MessageId, credit_cost: CreditCost) -> Counted {
        let received = self.uncounted(credit_cost);
        self.credit.receive(received);
        let Some(inbox) = &mut self.messages else { return Counted::default() };
        inbox.on_skip(id, credit_cost);
        self.credit.discard(credit_cost.given_back);
        self.note_arrival();
        Counted { received, discarded: credit_cost.given_back, duplicate: 0 }
    }

    /// The size of the next message, if one waits.
    pub(crate) fn next_message(&self) -> Option<usize> {
        self.messages.as_deref().and_then(Inbox::next_size)
    }

    /// Takes the next message.
    pub(crate) fn receive_message(&mut self) -> Result<MessageOutcome, Misuse> {
        if let ReceiveState::Reset { code } = self.state {
            self.step(ReceiveEvent::Told);
            return Ok(MessageOutcome::Reset(code));
        }
        if !self.state.accepts_reads() {
            return Err(Misuse::ReceivingEnded { stream: self.stream });
        }
        if self.carries() == Carries::Bytes {
            return Err(Misuse::CarriesBytes { stream: self.stream });
        }
        if let Some(message) = self.messages.as_deref_mut().and_then(Inbox::pop) {
            return Ok(MessageOutcome::Message(message));
        }
        if self.state == ReceiveState::Complete {
            self.step(ReceiveEvent::ReadToEnd);
            self.clear();
            return Ok(MessageOutcome::End);
        }
        self.reader_waits = true;
        Ok(MessageOutcome::Blocked)
    }
}
