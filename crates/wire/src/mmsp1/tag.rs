//! The identifier of a connection (spec 3.5).

use std::fmt;

/// Connection id and verification tag: chosen by the endpoint that receives packets under it. 0 is no tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u32);

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}
