//! Three small programs, each a server and a client; they stand in `examples/` of this crate.
//!
//! | program | shows |
//! |---|---|
//! | [`copy`] | one stream of bytes: standard input to the standard output of another host |
//! | [`echo`] | many streams, and what paths do meanwhile |
//! | [`messages`] | positions of which only the newest counts, beside text that must arrive |

/// `cargo run -p manyway --example copy -- take > FILE`
#[doc = concat!("```rust,ignore\n", include_str!("../examples/copy.rs"), "```")]
pub mod copy {}

/// `cargo run -p manyway --example echo -- serve`
#[doc = concat!("```rust,ignore\n", include_str!("../examples/echo.rs"), "```")]
pub mod echo {}

/// `cargo run -p manyway --example messages -- …`
#[doc = concat!("```rust,ignore\n", include_str!("../examples/messages.rs"), "```")]
pub mod messages {}
