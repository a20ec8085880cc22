//! MMSP/1 in the engine: the parts that know neither the engine nor the wire's connection.
//!
//! Sending: [`outbox`] has what an application wrote to a stream, [`cuts`] what was given a TSEQ, and [`sack`]
//! translates acknowledgements of TSEQs to the packets of the engine. Receiving: [`received`] knows which TSEQs have
//! arrived, [`reassembly`] joins fragments, [`ordering`] puts the messages of a stream in order, and [`sack_policy`]
//! decides when a SACK is due. [`streams`] holds all streams of a connection. [`handshake`] and [`closing`] are the
//! machines of the connection, run by a [`table`].

mod closing;
mod cuts;
#[cfg(test)]
mod diagrams;
mod errors;
mod handshake;
mod hits;
mod monitor;
mod ordering;
mod outbox;
mod reassembly;
mod received;
mod sack;
mod sack_policy;
mod streams;
mod table;
#[cfg(test)]
mod testing;
mod tseq;
