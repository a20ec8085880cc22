//! Files and messages over sessions in memory.

mod common;
mod field;
mod messages;
mod resume;
mod verbs;
