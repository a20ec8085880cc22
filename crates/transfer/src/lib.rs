//! Manyway.
