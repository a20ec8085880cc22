//! Containers that the parts of the machine share.

pub(crate) mod ring_map;
pub(crate) mod windowed_filter;
