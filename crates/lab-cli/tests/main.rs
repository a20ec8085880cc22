//! The real program: what it prints, what it writes, and how it ends.

mod command_line;
mod common;
mod experiments;
mod lab;
mod lab_agents;
mod lab_links;
