//! Values that several tasks of an agent share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Shared by several tasks.
#[derive(Debug, Default)]
pub(super) struct Shared<T>(Arc<Mutex<T>>);

impl<T> Shared<T> {
    pub(super) fn new(value: T) -> Self {
        Self(Arc::new(Mutex::new(value)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}
