//! Small containers that several parts share.

pub(crate) mod range_set;
