//! An input that fuzzing begins with.

/// An input to start from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seed {
    /// The target it is for.
    pub target: &'static str,
    /// The name of its file.
    pub name: String,
    /// The input.
    pub bytes: Vec<u8>,
}

impl Seed {
    pub(super) fn new(target: &'static str, name: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self { target, name: name.into(), bytes }
    }
}
