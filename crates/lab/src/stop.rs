//! Ends a run from outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::LabError;

/// A request to end soon, such as after Ctrl-C; clones share it.
///
/// ```
/// let stop = manyway_lab::Stop::default();
/// let handler = stop.clone();
/// assert!(stop.check().is_ok());
/// handler.set();
/// assert!(stop.check().is_err());
/// ```
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Requests the end. May be called from any thread, any number of times.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the end was requested.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// For code that goes on unless the end was requested.
    ///
    /// # Errors
    /// [`LabError::Interrupted`] if it was.
    pub fn check(&self) -> Result<(), LabError> {
        if self.is_set() { Err(LabError::Interrupted) } else { Ok(()) }
    }
}
