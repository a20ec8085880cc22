//! What the simulator costs: a stream over two paths of 50 Mbit/s for ten seconds of virtual time, or as many as the
//! argument says. Count its instructions, which do not vary:
//!
//! ```console
//! $ cargo build --release -p manyway-sim --example two_paths
//! $ valgrind --tool=callgrind target/release/examples/two_paths
//! ```
#![expect(clippy::print_stdout, reason = "a measurement prints")]

use std::time::Duration;

use manyway_proto::{ByteCount, ConnectionConfig, Rate};
use manyway_sim::traffic::Exchange;
use manyway_sim::{PairBuilder, PairError, Side, endpoint_pair};

fn main() -> Result<(), PairError> {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(10);
    let rate = Rate::from_bits_per_second(50_000_000);
    let paths = PairBuilder::new()
        .seed(7)
        .path(rate, Duration::from_millis(20))
        .path(rate, Duration::from_millis(20));
    let mut pair = endpoint_pair(paths, &ConnectionConfig::default());
    pair.connect(Duration::from_secs(1))?;
    let client = pair.host(Side::Client);
    pair.start(Side::Client, Box::new(Exchange::new(client, ByteCount(1 << 40))));
    pair.run_for(Duration::from_secs(seconds))?;
    println!("{} bytes arrived in {seconds} s", pair.received(Side::Server).total().0);
    Ok(())
}
