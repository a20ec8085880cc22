//! The parts that fuzzing drives without a connection.

pub(crate) use super::cuts::{BlockQueue, BlockState, DataBlock, DataBlocks, Flight, InFlight};
pub(crate) use super::received::Taken;
pub(crate) use super::sack::{CheckedSack, check, check_fin, translate};
pub(crate) use super::streams::Streams;
pub(crate) use super::tseq::{expand_tseq, tseq_of};
pub(crate) use super::window::Edge;
