//! The handshake of MMSP/1 over a network that drops, copies, delays and damages, with an attacker on the way who
//! changes packets and repairs their checksum, adds packets of their own and replays old ones. Over a fair network it
//! completes; otherwise it completes or ends in time. A server keeps nothing before a PING.

use std::time::Duration;

use manyway_wire::Writer;
use manyway_wire::mmsp1::{Block, HEADER_LEN, Header, Packet, Tag, seal};

use crate::lab::{CLIENT, Flying, Lab, SERVER};
use crate::material::stranger;
use crate::script::Script;

/// Most steps of one input; more find nothing new.
const MOST_STEPS: usize = 128;
/// A network that loses no more than this is good enough for every handshake.
const FEW_LOST: u32 = 3;
const SHORT: Duration = Duration::from_millis(500);
const MINUTE: Duration = Duration::from_secs(60);
/// Old packets that an attacker keeps.
const MOST_KEPT: usize = 16;

/// Plays the input on the datagrams of a handshake.
pub fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let both = script.u8() & 1 == 1;
    let lab = Lab::connecting_mmsp1(both);
    let mut scene =
        Scene { lab, both, lost: 0, waited: Duration::ZERO, meddled: false, kept: Vec::new(), pings: 0 };
    for _ in 0..MOST_STEPS {
        let Some(step) = script.step() else { break };
        scene.act(step, &mut script);
        scene.check();
    }
    scene.finish();
}

struct Scene {
    lab: Lab,
    /// Both ends connect.
    both: bool,
    /// Datagrams that did not arrive unchanged.
    lost: u32,
    waited: Duration,
    /// Packets were forged, changed so that their checksum is right, or replayed.
    meddled: bool,
    kept: Vec<Flying>,
    /// Packets with a PING that reached the server.
    pings: usize,
}

impl Scene {
    fn act(&mut self, step: u8, script: &mut Script<'_>) {
        let flying = self.lab.flying.len();
        let at = usize::from(step >> 4) % flying.max(1);
        match step & 0x0f {
            0..=2 => {
                if flying > 0 {
                    let datagram = self.lab.flying.remove(at);
                    self.deliver(datagram);
                }
            }
            3 | 4 => {
                for datagram in std::mem::take(&mut self.lab.flying) {
                    self.deliver(datagram);
                }
            }
            5 => {
                if flying > 0 {
                    self.lab.flying.remove(at);
                    self.lost += 1;
                }
            }
            6 => {
                if let Some(copy) = self.lab.flying.get(at).cloned() {
                    self.deliver(copy);
                }
            }
            7 => {
                if flying > 0 {
                    self.lab.flying.rotate_left(at);
                }
            }
            8 => self.damage(at, script, false),
            9 | 10 => self.damage(at, script, true),
            11 => self.wait(Duration::from_millis(u64::from(script.u8()) * 4)),
            12 => self.wait(Duration::from_millis(u64::from(script.u16()))),
            13 => self.forge(usize::from(step >> 7), script),
            14 => self.replay(script),
            _ => {
                // A copy from another address that races the sender.
                if let Some(mut copy) = self.lab.flying.get(at).cloned() {
                    self.meddled = true;
                    copy.tuple.remote = stranger(script.u8());
                    self.deliver(copy);
                }
            }
        }
    }

    fn deliver(&mut self, datagram: Flying) {
        if datagram.to == SERVER {
            self.pings += usize::from(has_ping(&datagram.data));
        }
        if self.kept.len() < MOST_KEPT {
            self.kept.push(datagram.clone());
        }
        self.lab.deliver(datagram);
    }

    fn wait(&mut self, time: Duration) {
        self.waited += time;
        self.lab.wait(time);
    }

    /// Changes a datagram on its way; with a right checksum, the receiver cannot tell.
    fn damage(&mut self, at: usize, script: &mut Script<'_>, repairs: bool) {
        let Some(datagram) = self.lab.flying.get_mut(at) else { return };
        self.lost += 1;
        let place = usize::from(script.u16()) % datagram.data.len().max(1);
        match script.u8() {
            how @ 0..=127 => {
                if let Some(byte) = datagram.data.get_mut(place) {
                    *byte ^= 1 << (how % 8);
                }
            }
            128..=159 => datagram.data.truncate(place),
            160..=191 => datagram.data.extend_from_slice(script.bytes()),
            _ => {
                let with = script.bytes();
                datagram.data.iter_mut().skip(place).zip(with).for_each(|(to, from)| *to = *from);
            }
        }
        if repairs {
            self.meddled = true;
            seal(&mut datagram.data);
        }
    }

    /// A packet of anything, under a tag and ports that the attacker has seen, or others.
    fn forge(&mut self, to: usize, script: &mut Script<'_>) {
        self.meddled = true;
        let (from, which) = (script.u8(), script.u8());
        let seen = usize::from(which & 0x1f).checked_rem(self.kept.len()).and_then(|at| self.kept.get(at));
        let seen = seen.and_then(|seen| Header::decode(&seen.data).ok()).map(|(header, _)| header);
        let other = Header { source_port: 5000, destination_port: 5001, connection: Tag(script.u32()) };
        let header = seen.filter(|_| which < 224).unwrap_or(other);
        let header = if which & 0x20 == 0 { header } else { header.answer(header.connection) };
        let mut data = Vec::new();
        header.encode(&mut Writer::new(&mut data, HEADER_LEN));
        data.extend_from_slice(script.bytes());
        data.truncate(1500);
        seal(&mut data);
        let remote = if from < 192 { self.lab.address_of(1 - to, from).address } else { stranger(from) };
        let tuple = self.lab.tuple(to, remote);
        self.deliver(Flying { to, tuple, data });
    }

    /// An old packet comes again, from where it came or from elsewhere.
    fn replay(&mut self, script: &mut Script<'_>) {
        let how = script.u8();
        let Some(at) = usize::from(how & 0x1f).checked_rem(self.kept.len()) else { return };
        self.meddled = true;
        let mut datagram = self.kept[at].clone();
        if how >= 192 {
            datagram.tuple.remote = stranger(how);
        }
        self.deliver(datagram);
    }

    /// Only a PING makes a connection at the server.
    fn check(&self) {
        let connections = self.lab.ends[SERVER].connections();
        assert!(connections <= usize::from(self.both) + self.pings, "state without PING: {connections}");
    }

    fn finish(mut self) {
        let is_fair = !self.meddled && self.lost <= FEW_LOST && self.waited <= SHORT;
        // Two attempts over different addresses of one end are not known to be of the same peer (spec 3.5a): after a loss,
        // one of them may end without an answer.
        let must = is_fair && !(self.both && self.lost > 0);
        let lab = &mut self.lab;
        let over = |lab: &Lab, end: usize| lab.standing[end].connected || lab.standing[end].closed.is_some();
        let settled = lab.run(2 * MINUTE, |lab| {
            over(lab, CLIENT) && (over(lab, SERVER) || lab.ends[SERVER].connections() == 0)
        });
        assert!(settled, "the handshake neither completed nor ended: {:?}", lab.standing);
        let alive = |lab: &Lab, end: usize| lab.standing[end].connected && lab.standing[end].closed.is_none();
        let living = [CLIENT, SERVER].into_iter().filter(|end| alive(lab, *end)).count();
        assert!(!is_fair || living > 0, "a fair network, no connection: {:?}", lab.standing);
        assert!(!must || living == 2, "a fair network: {:?}", lab.standing);
        if alive(lab, CLIENT) {
            let stream = lab.write_new(CLIENT, 5_000);
            lab.collect();
            let ended = |lab: &Lab| lab.standing.iter().any(|standing| standing.closed.is_some());
            let used = lab.run(2 * MINUTE, |lab| {
                ended(lab) || stream.is_some_and(|s| lab.standing[SERVER].read.get(&s) == Some(&5_000))
            });
            assert!(!must || used && !ended(lab), "a fair network: {:?}", lab.standing);
        }
        let now = lab.now;
        for end in [CLIENT, SERVER] {
            if let Some(connection) = lab.connection(end) {
                connection.close(now, 0, "");
            }
        }
        lab.collect();
        let gone = lab.run(5 * MINUTE, |lab| lab.ends.iter().all(|end| end.connections() == 0));
        assert!(gone, "something is kept for ever");
    }
}

fn has_ping(datagram: &[u8]) -> bool {
    let Ok(packet) = Packet::decode(datagram) else { return false };
    packet.blocks().any(|block| matches!(block, Ok(Block::Ping(_))))
}
