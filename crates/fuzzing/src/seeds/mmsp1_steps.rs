//! Scripts for the parts of MMSP/1 that take steps.

use super::mmsp1::inputs;
use super::seed::Seed;
use crate::script::Steps;

const HEADER: usize = 12;

pub(super) fn seeds() -> Vec<Seed> {
    let mut seeds = setup();
    seeds.extend(sack());
    seeds.extend(fragments());
    seeds
}

fn setup() -> Vec<Seed> {
    let seed = |name: &str, steps: Steps| Seed::new("mmsp1_setup", name, steps.into_bytes());
    let mut seeds = vec![
        seed("honest", Steps::new().u8(0).u8(4).u8(4).u8(4).u8(4)),
        seed("both", Steps::new().u8(1).u8(4).u8(4).u8(4).u8(4)),
        seed("both-turned", Steps::new().u8(1).u8(0).u8(0x10).u8(0x17).u8(0).u8(4).u8(0x10).u8(4)),
        seed("lost", Steps::new().u8(0).u8(5).u8(12).u16(3000).u8(4).u8(5).u8(12).u16(3000).u8(4)),
        seed("copied", Steps::new().u8(0).u8(6).u8(4).u8(6).u8(6).u8(4).u8(6).u8(4)),
        seed("stale", Steps::new().u8(0).u8(4).u8(4).u8(7).u8(12).u16(11_000).u8(4).u8(14).u8(2).u8(4)),
        seed("strangers", Steps::new().u8(0).u8(15).u8(3).u8(4).u8(15).u8(3).u8(4).u8(15).u8(3)),
    ];
    for stage in 0..4 {
        let mut steps = (0..stage).fold(Steps::new().u8(0), |steps, _| steps.u8(4));
        for place in [0, 4, 8, 12, 16, 24, 40] {
            steps = steps.u8(6).u8(9).u16(place).u8(1).u8(4);
        }
        seeds.push(seed(&format!("changed-{stage}"), steps));
        let mut steps = (0..stage).fold(Steps::new().u8(0), |steps, _| steps.u8(4));
        for (_, packet) in inputs() {
            for to in [13, 0x8d] {
                steps = steps.u8(to).u8(0).u8(stage).raw(&[0, 0, 0, 7]);
                steps = steps.bytes(packet.get(HEADER..).unwrap_or_default());
            }
        }
        seeds.push(seed(&format!("forged-{stage}"), steps));
    }
    seeds
}

fn sack() -> Vec<Seed> {
    let seed = |name: &str, steps: Steps| Seed::new("mmsp1_sack", name, steps.into_bytes());
    let start = || Steps::new().u8(2).u8(20);
    let mut gaps = start();
    for path in [0, 0x40, 0x80] {
        gaps = gaps.u8(path | 4).u8(9).u8(path | 16).u8(3).u8(path | 6).u8(24).u16(40_000);
    }
    vec![
        seed("in-order", start().u8(4).u8(20).u8(11).u8(0).u8(15).u8(17).u8(9).u8(21).u8(0)),
        seed("gaps", gaps.u8(11).u8(5).u8(11).u8(3).u8(17).u8(64).u8(20).u8(0).u8(7).u8(0).u8(0).u8(9)),
        seed("suspect", start().u8(0).u8(9).u8(8).u8(0).u8(0x40).u8(9).u8(15).u8(17).u8(9).u8(21).u8(0)),
        seed(
            "lies",
            start()
                .u8(4)
                .u8(9)
                .u8(26)
                .u8(5)
                .u8(0)
                .u8(2)
                .u16(3)
                .u8(1)
                .u16(1)
                .u8(7)
                .u8(1)
                .u8(2)
                .u8(0)
                .raw(&[0, 0, 1, 0]),
        ),
        seed("closed", start().u8(4).u8(9).u8(6).u8(10).u8(15).u8(18).u8(9).u8(20).u8(0).u8(29).u8(3).u8(0)),
        seed("persist", start().u8(5).u8(0).u8(9).u8(9).u16(2).u8(17).u8(9).u8(21).u8(0)),
    ]
}

fn fragments() -> Vec<Seed> {
    let seed = |name: &str, steps: Steps| Seed::new("mmsp1_fragments", name, steps.into_bytes());
    let start = || Steps::new().u8(2);
    let three = |steps: Steps, how: u8| steps.u8(how >> 1 << 5).u8(how & 1).u8(2).raw(&[10, 200, 3]);
    let all = |steps: Steps| (0..4).fold(steps, three);
    vec![
        seed("in-order", all(start()).u8(16).u8(22)),
        seed(
            "turned",
            all(start()).u8(8).u8(7).u8(8).u8(3).u8(25).u8(40).u8(8).u8(2).u8(17).u8(0).u8(16).u8(22),
        ),
        seed("bytes", start().u8(5).u8(2).raw(&[9, 8, 7]).u8(7).u8(8).u8(3).u8(8).u8(0).u8(16).u8(18).u8(22)),
        seed("ended", all(start()).u8(7).u8(0x27).u8(0x47).u8(8).u8(9).u8(16).u8(27).u8(22).u8(26).u8(0)),
        seed(
            "changed",
            (0..8).fold(all(start()), |steps, field| steps.u8(28).u8(3).u8(field).u16(2)).u8(16).u8(22),
        ),
        seed(
            "lies",
            (0..8).fold(start(), |steps, at| {
                steps.u8(30).u8(at).u8(at).u16(at.into()).u16(3).raw(b"abc").u8(at).raw(&[0; 4])
            }),
        ),
    ]
}
