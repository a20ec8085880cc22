//! Arbitrary datagrams for endpoints that have no connection, one that lives, or one that ends: copies, changed copies,
//! truncated ones and noise, from the peer's address and from others. No address is flooded, no state is kept, and the
//! connection behaves as on a bad network.

use std::time::Duration;

use crate::lab::{CLIENT, Flying, Lab, SERVER};
use crate::material::stranger;
use crate::script::Script;

const MOST_STEPS: usize = 256;
/// Honest datagrams that the network loses, and its delay: little enough for every connection.
const MOST_LOST: usize = 32;
const MOST_WAIT: Duration = Duration::from_secs(5);
const MINUTE: Duration = Duration::from_secs(60);

/// Plays the input; the first byte is the stage of the connection.
pub fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let stage = script.u8() % 4;
    let mut lab = match stage {
        0 => Lab::strangers(),
        _ => Lab::established(),
    };
    if stage >= 2 {
        lab.write_new(CLIENT, 5_000);
        lab.write_new(SERVER, 5_000);
        lab.collect();
        for _ in 0..4 {
            lab.wait(Duration::from_millis(10));
            lab.deliver_all();
        }
    }
    if stage == 3 {
        let now = lab.now;
        if let Some(connection) = lab.connection(CLIENT) {
            connection.close(now, 5, "done");
        }
        lab.collect();
    }
    let mut attack = Attack { lab, seen: Vec::new(), lost: 0, waited: Duration::ZERO };
    for _ in 0..MOST_STEPS {
        let Some(step) = script.step() else { break };
        attack.act(step, &mut script);
    }
    attack.finish(stage);
}

struct Attack {
    lab: Lab,
    /// Copies of datagrams in flight, for the attacker.
    seen: Vec<Flying>,
    lost: usize,
    waited: Duration,
}

impl Attack {
    fn act(&mut self, step: u8, script: &mut Script<'_>) {
        let to = usize::from(step >> 7);
        match step & 0x0f {
            0..=2 => {
                let remote = self.source(to, script.u8());
                let data = script.bytes().to_vec();
                let tuple = self.lab.tuple(to, remote);
                self.lab.deliver(Flying { to, tuple, data });
            }
            3..=8 => self.forge(script),
            9 | 10 if !self.lab.flying.is_empty() => {
                let datagram = self.lab.flying.remove(0);
                self.keep(&datagram);
                self.lab.deliver(datagram);
            }
            11 => {
                for datagram in self.lab.flying.clone() {
                    self.keep(&datagram);
                }
                self.lab.deliver_all();
            }
            12 if self.lost < MOST_LOST && !self.lab.flying.is_empty() => {
                self.lost += 1;
                let datagram = self.lab.flying.remove(usize::from(script.u8()) % self.lab.flying.len());
                self.keep(&datagram);
            }
            13 => {
                let time = Duration::from_millis(u64::from(script.u8()) * 4).min(MOST_WAIT - self.waited);
                self.waited += time;
                self.lab.wait(time);
            }
            14 => {
                self.lab.write_new(to, usize::from(script.u16() % 8_000));
                self.lab.collect();
            }
            _ => {}
        }
    }

    fn keep(&mut self, datagram: &Flying) {
        if self.seen.len() < 64 {
            self.seen.push(datagram.clone());
        }
    }

    /// The peer's address, or another one.
    fn source(&self, to: usize, pick: u8) -> std::net::SocketAddr {
        match pick {
            0..=127 => self.lab.address_of(1 - to, pick).address,
            _ => stranger(pick),
        }
    }

    /// Changes a datagram that was seen or is in flight, and delivers it.
    fn forge(&mut self, script: &mut Script<'_>) {
        let (pick, how, from) = (usize::from(script.u8()), script.u8(), script.u8());
        let all = self.seen.len() + self.lab.flying.len();
        if all == 0 {
            return;
        }
        let at = pick % all;
        let mut datagram = match self.seen.get(at) {
            Some(datagram) => datagram.clone(),
            None => self.lab.flying[at - self.seen.len()].clone(),
        };
        let data = &mut datagram.data;
        let place = usize::from(script.u16()) % data.len().max(1);
        match how % 8 {
            // A plain copy, perhaps from elsewhere.
            0 => {}
            1 => data.iter_mut().skip(place).take(1).for_each(|byte| *byte ^= 1 << (script.u8() % 8)),
            2 => data.truncate(place),
            3 => data.extend_from_slice(script.bytes()),
            4 => {
                let with = script.bytes();
                data.splice(place.., with.iter().copied());
            }
            5 => {
                let with = script.bytes();
                data.iter_mut().skip(place).zip(with).for_each(|(to, from)| *to = *from);
            }
            6 => drop(data.drain(..place)),
            _ => {
                let copy = data.clone();
                data.extend(copy);
            }
        }
        if from >= 64 {
            datagram.tuple.remote = self.source(datagram.to, from);
        }
        if how & 0x80 != 0 {
            datagram.to = 1 - datagram.to;
            datagram.tuple = self.lab.tuple(datagram.to, datagram.tuple.local.address);
        }
        self.lab.deliver(datagram);
    }

    /// The network is honest again: living connections continue, other state is dropped.
    fn finish(mut self, stage: u8) {
        let lab = &mut self.lab;
        if stage == 1 || stage == 2 {
            for end in [CLIENT, SERVER] {
                assert_eq!(lab.standing[end].closed, None, "a stranger ended the connection");
            }
            let far = |end: usize| 1 - end;
            let written = [CLIENT, SERVER].map(|end| {
                let stream = lab.write_new(end, 10_000);
                stream.map(|stream| (far(end), stream))
            });
            lab.collect();
            let arrived = lab.run(MINUTE, |lab| {
                written.iter().flatten().all(|(end, stream)| {
                    lab.standing[*end].read.get(stream).is_some_and(|read| *read == 10_000)
                })
            });
            assert!(arrived, "the connection was harmed: {:?}", lab.standing);
            let now = lab.now;
            if let Some(connection) = lab.connection(CLIENT) {
                connection.close(now, 0, "");
            }
            lab.collect();
        }
        let gone = lab.run(3 * MINUTE, |lab| lab.ends.iter().all(|end| end.connections() == 0));
        assert!(gone, "something is kept for ever");
    }
}
