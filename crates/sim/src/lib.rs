//! Manyway.
#![forbid(unsafe_code)]
