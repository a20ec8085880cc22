//! Reusable buffers, so that packets cost no allocation once as many have been in use at a time.

use std::cell::RefCell;
use std::rc::Rc;

/// Free buffers by size.
#[derive(Debug, Default)]
pub(super) struct Pool {
    free: RefCell<[Vec<Vec<u8>>; SIZES.len()]>,
}

/// Capacities of buffers: acknowledgements, ordinary packets, large frames, anything.
const SIZES: [usize; 4] = [256, 2_048, 16_384, 65_536];

/// The bytes of one packet, which return to their pool when dropped.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    pool: Rc<Pool>,
}

impl Pool {
    /// Copies `content` into a buffer.
    pub(super) fn fill(self: &Rc<Self>, content: &[u8]) -> Buffer {
        let class = SIZES.iter().position(|size| content.len() <= *size);
        let free = class.and_then(|class| self.free.borrow_mut().get_mut(class).and_then(Vec::pop));
        let mut bytes = free.unwrap_or_else(|| {
            let size = class.and_then(|class| SIZES.get(class)).copied();
            Vec::with_capacity(size.unwrap_or(content.len()))
        });
        bytes.extend_from_slice(content);
        Buffer { bytes, pool: Rc::clone(self) }
    }
}

impl Buffer {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Self {
        self.pool.fill(&self.bytes)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        // The allocator may have returned more than requested.
        let class = SIZES.iter().rposition(|size| bytes.capacity() >= *size);
        let mut free = self.pool.free.borrow_mut();
        if let Some(list) = class.and_then(|class| free.get_mut(class)) {
            list.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_reused_by_the_next_packet_of_its_size() {
        let pool = Rc::new(Pool::default());
        let first = pool.fill(&[1; 1_500]);
        let place = first.bytes().as_ptr();
        let small = pool.fill(&[2; 40]);
        drop(first);
        let second = pool.fill(&[3; 700]);
        assert_eq!(second.bytes(), [3; 700]);
        assert_eq!(second.bytes().as_ptr(), place);
        assert_ne!(small.clone().bytes().as_ptr(), small.bytes().as_ptr());
        assert_eq!(pool.fill(&[4; 65_535]).bytes().len(), 65_535);
    }
}
