//! Input of a target as a list of steps, each an operation byte and its arguments.
//!
//! A format of its own, so that seeds can be written as easily as they are read: [`Script`] reads what [`Steps`]
//! writes. Missing bytes are zeros, so that every input is a script.

/// Reads steps from the front of an input.
#[derive(Debug, Clone)]
pub struct Script<'a> {
    rest: &'a [u8],
}

impl<'a> Script<'a> {
    /// Reads `data`.
    pub fn new(data: &'a [u8]) -> Self {
        Self { rest: data }
    }

    /// The next operation; `None` at the end.
    pub fn step(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    /// A byte.
    pub fn u8(&mut self) -> u8 {
        self.step().unwrap_or_default()
    }

    /// Two bytes.
    pub fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.u8(), self.u8()])
    }

    /// Four bytes.
    pub fn u32(&mut self) -> u32 {
        u32::from(self.u16()) << 16 | u32::from(self.u16())
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> u64 {
        u64::from(self.u32()) << 32 | u64::from(self.u32())
    }

    /// Two bytes of length and this many bytes, or as many as are left.
    pub fn bytes(&mut self) -> &'a [u8] {
        let length = usize::from(self.u16()).min(self.rest.len());
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    /// Everything that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }
}

/// Writes a script, for seeds.
#[derive(Debug, Clone, Default)]
pub struct Steps(Vec<u8>);

impl Steps {
    /// Starts with an empty script.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a byte: an operation or an argument.
    #[must_use]
    pub fn u8(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    /// Appends two bytes.
    #[must_use]
    pub fn u16(mut self, value: u16) -> Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// Appends bytes with their length, at most 65 535.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
        self = self.u16(length);
        self.0.extend(bytes.iter().take(usize::from(length)));
        self
    }

    /// Appends bytes as they are.
    #[must_use]
    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// The input.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_written_step_is_read() {
        let bytes = Steps::new().u8(7).u16(300).bytes(b"abc").raw(&[1, 2, 3, 4]).into_bytes();
        let mut script = Script::new(&bytes);
        assert_eq!((script.step(), script.u16(), script.bytes()), (Some(7), 300, &b"abc"[..]));
        assert_eq!((script.u32(), script.step(), script.u64()), (0x0102_0304, None, 0));
    }

    #[test]
    fn a_length_beyond_the_end_takes_what_is_there() {
        let mut script = Script::new(&[0xff, 0xff, 1, 2]);
        assert_eq!(script.bytes(), &[1, 2]);
        assert_eq!(script.bytes(), &[] as &[u8]);
    }
}
