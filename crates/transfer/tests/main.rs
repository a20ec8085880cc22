//! Files and messages over sessions in memory.

mod common;
mod messages;
mod resume;
mod verbs;
