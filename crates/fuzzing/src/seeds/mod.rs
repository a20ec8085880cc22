//! The seeds of the fuzz targets: blocks of every kind, datagrams of real connections, frames of real transfers and
//! connections, small media, packets of commands.

mod egress;
mod mmsp1;
mod mmsp1_steps;
mod network;
mod packets;
mod play;
mod seed;
mod transfer;
mod wire;

pub use seed::Seed;

/// Makes all seeds.
pub fn all() -> Vec<Seed> {
    let mut seeds = wire::seeds();
    for (name, bytes) in mmsp1::inputs() {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        seeds.push(Seed::new("decode", format!("mmsp1-{name}"), hex.into_bytes()));
        seeds.push(Seed::new("mmsp1", name, bytes));
    }
    seeds.extend(mmsp1_steps::seeds());
    seeds.extend(network::seeds());
    seeds.extend(transfer::seeds());
    seeds.extend(egress::seeds());
    seeds.extend(packets::seeds());
    seeds.extend(play::seeds());
    seeds
}

#[cfg(test)]
mod tests {
    use super::all;
    use crate::TARGETS;

    #[test]
    fn every_target_has_seeds_and_passes_them() {
        let seeds = all();
        for (name, run) in TARGETS {
            let own: Vec<_> = seeds.iter().filter(|seed| seed.target == name).collect();
            assert!(!own.is_empty(), "{name} has none");
            for seed in own {
                let began = std::time::Instant::now();
                run(&seed.bytes);
                println!("{name} {} {:?}", seed.name, began.elapsed());
            }
        }
    }
}
