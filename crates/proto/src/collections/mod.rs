//! Containers whose cost and bounds the protocol machine relies on.

pub(crate) mod buckets;
pub(crate) mod id_table;
pub(crate) mod range_set;
pub(crate) mod ring_map;
pub(crate) mod timer_heap;
pub(crate) mod windowed_filter;
