//! Measures how many packets the link emulator moves on one core. Needs root.
//!
//! `cargo run --release -p manyway-lab --example emulator_rate -- [SECONDS]`

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use manyway_lab::emulator::bench::{Load, speed};
    use std::io::Write;

    let seconds = std::env::args().nth(1).map_or(Ok(3.0), |text| text.parse())?;
    let speed = speed(std::time::Duration::try_from_secs_f64(seconds)?)?;
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{:34} {:>10} {:>8} {:>11} {:>14}",
        "", "packets/s", "Gbit/s", "of a core", "packets/core·s"
    )?;
    let mut line = |name: &str, load: &Load| {
        writeln!(
            out,
            "{name:34} {:>10.0} {:>8.3} {:>9.1} % {:>14.0}",
            load.packets_per_second(),
            load.rate.bits_per_second() as f64 / 1e9,
            load.core_share() * 100.0,
            load.packets_per_core_second()
        )
    };
    line("bare copy, device to device", &speed.copy)?;
    line("emulator, link without limit", &speed.links)?;
    line("emulator, link of 1 Gbit/s", &speed.gigabit)?;
    let ratio = speed.links.packets_per_core_second() / speed.copy.packets_per_core_second();
    writeln!(out, "the emulator moves {:.2} of what the bare copy moves", ratio)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() {}
