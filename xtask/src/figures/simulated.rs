//! Measures the speed of virtual time.

use std::time::{Duration, Instant};

use manyway_proto::{ByteCount, ConnectionConfig, Rate};
use manyway_sim::traffic::Exchange;
use manyway_sim::{PairBuilder, Side, endpoint_pair};

/// Describes [`seconds`].
pub(super) const SCENARIO: &str = "manyway_sim: two paths of 50 Mbit/s with 10 ms one way, one stream that never runs dry, 10 virtual seconds after \
     the set-up, in one thread";

/// Simulates; returns the real time in seconds.
pub(super) fn seconds() -> Result<f64, String> {
    let rate = Rate::from_bits_per_second(50_000_000);
    let paths = PairBuilder::new().path(rate, DELAY).path(rate, DELAY);
    let mut pair = endpoint_pair(paths, &ConnectionConfig::default());
    pair.connect(Duration::from_secs(5)).map_err(|error| error.to_string())?;
    let client = pair.host(Side::Client);
    pair.start(Side::Client, Box::new(Exchange::new(client, ByteCount(1_000_000_000))));
    let start = Instant::now();
    pair.run_for(VIRTUAL).map_err(|error| error.to_string())?;
    let took = start.elapsed();
    let received = pair.received(Side::Server).total();
    if received < ByteCount(rate.bits_per_second() / 8 * VIRTUAL.as_secs()) {
        return Err(format!("only {received} arrived in {VIRTUAL:?}: this measures another thing"));
    }
    Ok(took.as_secs_f64())
}

const DELAY: Duration = Duration::from_millis(10);
const VIRTUAL: Duration = Duration::from_secs(10);
