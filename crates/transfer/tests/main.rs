//! Files and messages over sessions in memory.

mod common;
mod field;
mod messages;
mod observed;
mod parts;
mod resume;
mod verbs;
