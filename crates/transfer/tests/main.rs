//! Files and messages over sessions in memory.

mod common;
mod field;
mod messages;
mod observed;
mod resume;
mod verbs;
