//! Tests that measure take turns.

use std::sync::{Condvar, Mutex, PoisonError};

/// How many runs over links of 20 Mbit/s leave each other time.
pub(crate) const AT_ONCE: u32 = 3;

static FREE: (Mutex<u32>, Condvar) = (Mutex::new(AT_ONCE), Condvar::new());

/// The permission to measure, and how many of [`AT_ONCE`] it takes.
pub(crate) struct Turn(u32);

impl Turn {
    pub(crate) fn wait(size: u32) -> Self {
        let (free, changed) = &FREE;
        let free = free.lock().unwrap_or_else(PoisonError::into_inner);
        let free = changed.wait_while(free, |free| *free < size);
        *free.unwrap_or_else(PoisonError::into_inner) -= size;
        Self(size)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *FREE.0.lock().unwrap_or_else(PoisonError::into_inner) += self.0;
        FREE.1.notify_all();
    }
}
