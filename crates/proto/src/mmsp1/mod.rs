//! MMSP/1 in the engine: the parts that know neither the engine nor the wire's connection.

mod closing;
mod cuts;
#[cfg(test)]
mod diagrams;
mod errors;
mod monitor;
mod ordering;
mod outbox;
mod reassembly;
mod received;
mod sack;
mod sack_policy;
mod set_up;
mod streams;
mod table;
#[cfg(test)]
mod testing;
mod tseq;
