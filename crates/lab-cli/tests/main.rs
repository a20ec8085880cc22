//! The real program: its output, its files and its exit status.

mod command_line;
mod common;
mod experiments;
mod lab;
mod lab_agents;
mod lab_cross;
mod lab_flows;
mod lab_links;
