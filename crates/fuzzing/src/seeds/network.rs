//! Scripts for everything that takes steps.

use super::seed::Seed;
use super::wire;
use crate::lab::Lab;
use crate::script::Steps;

pub(super) fn seeds() -> Vec<Seed> {
    let mut seeds = sealed();
    seeds.extend(opened());
    seeds.extend(setup());
    seeds.extend(acks());
    seeds.extend(streams());
    seeds
}

fn sealed() -> Vec<Seed> {
    let seed = |name: &str, steps: Steps| Seed::new("datagram_sealed", name, steps.into_bytes());
    let first = Lab::connecting().flying.remove(0).data;
    let data = Lab::established().flying.remove(0).data;
    let noise = Steps::new().u8(0).u8(0x80).u8(200).bytes(&first).u8(0x80).u8(201).bytes(&first);
    let mut seeds = vec![
        seed("first-flight-from-strangers", noise),
        seed("data-without-receiver", Steps::new().u8(0).u8(0x80).u8(200).bytes(&data)),
        seed(
            "version",
            Steps::new().u8(0).u8(0x80).u8(3).bytes(&[&[0xc0, 1, 2, 3, 4], &first[5..]].concat()),
        ),
    ];
    for stage in 1..=3 {
        let mut steps = Steps::new().u8(stage);
        for how in 0..8 {
            // Deliver one, forge with the change, from here and from elsewhere.
            steps = steps.u8(9).u8(3).u8(how).u8(how).u8(how * 32).u16(20).u8(5).u8(13).u8(10);
        }
        seeds.push(seed(&format!("changes-{stage}"), steps));
        let steps = Steps::new().u8(stage).u8(14).u16(4000).u8(11).u8(12).u8(0).u8(13).u8(50).u8(11).u8(0x80);
        seeds.push(seed(&format!("losses-{stage}"), steps.u8(200).bytes(&data)));
    }
    seeds
}

fn opened() -> Vec<Seed> {
    let blocks = wire::blocks();
    let mut seeds = Vec::new();
    for (name, block) in &blocks {
        for from in [0, 0x80] {
            let steps = Steps::new().u8(4).u8(21).u16(3000).u8(13).u8(from).u8(0).u8(0).bytes(block).u8(13);
            let steps = steps.u8(22).u8(0x80 | 22).u8(19).u16(300).u8(13);
            let side = if from == 0 { "client" } else { "server" };
            seeds.push(Seed::new("datagram_opened", format!("{name}-of-{side}"), steps.into_bytes()));
        }
    }
    let mut all = Steps::new().u8(6);
    for (_, block) in &blocks {
        let (head, body) = block.split_at(4);
        all = all.u8(0x85).u8(1).u8(0).raw(&head[..2]).bytes(body);
    }
    seeds.push(Seed::new("datagram_opened", "framed", all.into_bytes()));
    let application =
        Steps::new().u8(6).u8(21).u16(9000).u8(13).u8(0x96).u8(0x80 | 21).u16(100).u8(13).u8(23).u8(0);
    let application = application.u8(24).u8(0).u8(0x99).u8(0).u8(26).u8(1).u8(18).u8(90).u8(13).u8(27).u8(0);
    let application = application.u8(28).u8(13).u8(20).u8(1).u8(26).u8(2).u8(13).u8(29).u8(3).u8(13);
    seeds.push(Seed::new("datagram_opened", "application", application.into_bytes()));
    seeds
}

fn setup() -> Vec<Seed> {
    let seed = |name: &str, steps: Steps| Seed::new("setup", name, steps.into_bytes());
    let mut injected = Steps::new();
    for (name, block) in wire::blocks() {
        if !name.starts_with("close") {
            injected = injected.u8(12).u8(0).u8(0).bytes(&block);
        }
    }
    vec![
        seed("honest", Steps::new().u8(4).u8(10).u8(20).u8(4).u8(4).u8(4)),
        seed("lost", Steps::new().u8(5).u8(11).u16(400).u8(4).u8(5).u8(4).u8(4)),
        seed("copied", Steps::new().u8(6).u8(6).u8(4).u8(6).u8(0x16).u8(4).u8(6).u8(4)),
        seed("turned", Steps::new().u8(4).u8(0x17).u8(0x10).u8(0x17).u8(0).u8(4)),
        seed(
            "damaged",
            Steps::new().u8(8).u16(200).u8(3).u8(4).u8(8).u16(3).u8(1).u8(4).u8(8).u16(90).u8(150),
        ),
        seed("injected", injected),
        seed("garbage-for-tls", Steps::new().u8(12).u8(0).u8(0).bytes(&[0x81, 0, 0, 8, 0, 1, 2, 3])),
        seed("aborted", Steps::new().u8(4).u8(0x8c).u8(0).u8(0).bytes(&[0x9b, 0, 0, 8, 3, 0, 0, 0]).u8(4)),
        seed("raced", Steps::new().u8(15).u8(1).u8(4).u8(15).u8(2).u8(4).u8(14).u8(1).bytes(&[0x40; 60])),
    ]
}

fn acks() -> Vec<Seed> {
    let mut seeds = Vec::new();
    for controller in 0..3 {
        let mut steps = Steps::new().u8(controller);
        for round in 0..20 {
            // Sixteen packets, some time, two ranges of the newest; sometimes a timeout.
            steps = steps.u8(0xf0).u16(1100).u8(8).u16(20);
            steps = steps.u8(9).u16(300).u8(0).u8(round % 8).u8(1).u8(10).u8(2).u8(10).u8(2);
            if round % 5 == 4 {
                steps = steps.u8(12).u8(0xf0).u16(500).u8(14 | (round << 4));
            }
        }
        seeds.push(Seed::new("acks", format!("rounds-{controller}"), steps.into_bytes()));
        let raw =
            Steps::new().u8(controller).u8(0xf0).u16(500).u8(11).bytes(&[0, 15, 0, 0, 0, 0, 0, 15]).u8(0);
        let raw =
            raw.u8(5).u8(6).u8(13).u8(0x3d).u8(12).u8(12).u8(11).bytes(&[0, 16, 0, 0, 0, 0, 0, 1]).u8(0);
        seeds.push(Seed::new("acks", format!("raw-{controller}"), raw.into_bytes()));
    }
    seeds
}

fn streams() -> Vec<Seed> {
    let seed = |name: &str, steps: Steps| Seed::new("streams", name, steps.into_bytes());
    let open = |limit: u8| Steps::new().u8(2).u8(limit).u8(0).u8(0).u8(0x80).u8(16).u8(0).u16(9000);
    let exchange = |mut steps: Steps| {
        for _ in 0..8 {
            steps = steps.u8(72).u16(1100).u8(96).u8(0).u8(0x88).u8(0x80 | 56).u16(5000).u8(0);
            steps = steps.u8(0x80 | 72).u16(1100).u8(0x80 | 96).u8(0).u8(125).u8(0x80 | 125);
        }
        steps
    };
    let say = |how: u8| {
        let steps = Steps::new().u8(2).u8(3).u8(0).u8(0).u8(0x80);
        steps.u8(40).u8(0).u16(3000).u8(how).u8(41).u8(0).u16(0).u8(how ^ 1).u8(40).u8(0).u16(40).u8(0)
    };
    let hear = |mut steps: Steps| {
        for pick in 0..8 {
            steps = steps.u8(72).u16(900).u8(96).u8(pick).u8(0x88).u8(0x80 | 56).u8(0);
            steps = steps.u8(0x80 | 72).u16(1100).u8(0x80 | 96).u8(0).u8(125);
        }
        steps
    };
    vec![
        seed("messages", hear(say(0)).u8(48).u8(0)),
        seed("messages-lost", hear(say(5).u8(72).u16(700).u8(112).u8(0)).u8(48).u8(0)),
        seed("messages-late", hear(say(3).u8(72).u16(700).u8(116).u8(0).u8(122).u8(90)).u8(52).u8(0)),
        seed("exchange", exchange(open(3)).u8(48).u8(0)),
        seed("reset", exchange(exchange(open(1)).u8(52).u8(0))),
        seed("stop", exchange(exchange(open(7)).u8(0x80 | 54).u8(0).u8(16).u8(1).u16(50))),
        seed(
            "fates",
            exchange(open(2)).u8(72).u16(300).u8(108).u8(0).u8(72).u16(300).u8(112).u8(0).u8(116).u8(0),
        ),
        seed(
            "spurious",
            open(2).u8(72).u16(900).u8(118).u8(0).u8(72).u16(900).u8(120).u8(5).u8(0).u8(122).u8(50),
        ),
    ]
}
