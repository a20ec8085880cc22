//! The handshake over a network that drops, copies, delays, truncates and damages, with an attacker who reads the open
//! packets and adds packets of their own. When the network is honest again, the handshake completes or ends in time.

use std::time::Duration;

use manyway_proto::{EncryptionLevel, PathId};

use crate::lab::{CLIENT, Flying, Lab, SERVER};
use crate::material::stranger;
use crate::script::Script;

const MOST_STEPS: usize = 128;
/// A network that loses no more than this is good enough for every handshake.
const FEW_LOST: u32 = 3;
const SHORT: Duration = Duration::from_millis(500);
const MINUTE: Duration = Duration::from_secs(60);

/// Plays the input on the datagrams of a handshake.
pub fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let mut scene = Scene { lab: Lab::connecting(), lost: 0, waited: Duration::ZERO, meddled: false };
    for _ in 0..MOST_STEPS {
        let Some(step) = script.step() else { break };
        scene.act(step, &mut script);
    }
    scene.finish();
}

struct Scene {
    lab: Lab,
    /// Datagrams that did not arrive unchanged.
    lost: u32,
    waited: Duration,
    /// Packets were forged.
    meddled: bool,
}

impl Scene {
    fn act(&mut self, step: u8, script: &mut Script<'_>) {
        let flying = self.lab.flying.len();
        let at = usize::from(step >> 4) % flying.max(1);
        match step & 0x0f {
            0..=3 => {
                if flying > 0 {
                    let datagram = self.lab.flying.remove(at);
                    self.lab.deliver(datagram);
                }
            }
            4 => self.lab.deliver_all(),
            5 => {
                if flying > 0 {
                    self.lab.flying.remove(at);
                    self.lost += 1;
                }
            }
            6 => {
                if let Some(copy) = self.lab.flying.get(at).cloned() {
                    self.lab.deliver(copy);
                }
            }
            7 => {
                if flying > 0 {
                    self.lab.flying.rotate_left(at);
                }
            }
            8 | 9 => self.damage(at, script),
            10 => self.wait(Duration::from_millis(u64::from(script.u8()))),
            11 => self.wait(Duration::from_millis(u64::from(script.u16()))),
            12 | 13 => self.inject(usize::from(step >> 7), script),
            14 => {
                self.meddled = true;
                let to = usize::from(step >> 7);
                let from = script.u8();
                let remote =
                    if from < 128 { self.lab.address_of(1 - to, from).address } else { stranger(from) };
                let (tuple, data) = (self.lab.tuple(to, remote), script.bytes().to_vec());
                self.lab.deliver(Flying { to, tuple, data });
            }
            _ => {
                // A copy from another address that races the client.
                if let Some(mut copy) = self.lab.flying.get(at).cloned() {
                    self.meddled = true;
                    copy.tuple.remote = stranger(script.u8());
                    self.lab.deliver(copy);
                }
            }
        }
    }

    fn wait(&mut self, time: Duration) {
        self.waited += time;
        self.lab.wait(time);
    }

    fn damage(&mut self, at: usize, script: &mut Script<'_>) {
        let Some(datagram) = self.lab.flying.get_mut(at) else { return };
        self.lost += 1;
        // A version list is not protected: its forger acts as the server.
        self.meddled |= datagram.data.get(1..5) == Some(&[0; 4]);
        let place = usize::from(script.u16()) % datagram.data.len().max(1);
        match script.u8() {
            how @ 0..=127 => {
                if let Some(byte) = datagram.data.get_mut(place) {
                    *byte ^= 1 << (how % 8);
                }
            }
            128..=191 => datagram.data.truncate(place),
            _ => {
                let with = script.bytes();
                datagram.data.iter_mut().skip(place).zip(with).for_each(|(to, from)| *to = *from);
            }
        }
    }

    /// Sends what an end never would: on the Initial level anyone can.
    fn inject(&mut self, from: usize, script: &mut Script<'_>) {
        let level = if script.u8() < 192 { EncryptionLevel::Initial } else { EncryptionLevel::Handshake };
        let (skipped, mut payload) = (script.u8(), script.bytes().to_vec());
        payload.truncate(1100);
        // spec 4.14: only full datagrams are accepted
        payload.resize(1150, 0);
        let Some(connection) = self.lab.connection(from) else { return };
        let Some(data) = connection.forge(level, PathId::FIRST, skipped, &payload) else { return };
        self.meddled = true;
        let to = 1 - from;
        let tuple = self.lab.tuple(to, self.lab.address_of(from, 0).address);
        self.lab.deliver(Flying { to, tuple, data });
    }

    fn finish(mut self) {
        let must = !self.meddled && self.lost <= FEW_LOST && self.waited <= SHORT;
        let lab = &mut self.lab;
        let over = |lab: &Lab, end: usize| lab.standing[end].connected || lab.standing[end].closed.is_some();
        let settled = lab.run(MINUTE, |lab| {
            over(lab, CLIENT) && (over(lab, SERVER) || lab.ends[SERVER].connections() == 0)
        });
        assert!(settled, "the handshake neither completed nor ended: {:?}", lab.standing);
        let alive = |lab: &Lab, end: usize| lab.standing[end].connected && lab.standing[end].closed.is_none();
        let both = alive(lab, CLIENT) && alive(lab, SERVER);
        assert!(both || !must, "a handshake over a fair network failed: {:?}", lab.standing);
        if both {
            let stream = lab.write_new(CLIENT, 5_000);
            lab.collect();
            let ended = |lab: &Lab| lab.standing.iter().any(|standing| standing.closed.is_some());
            let used = lab.run(MINUTE, |lab| {
                ended(lab) || stream.is_some_and(|s| lab.standing[SERVER].read.get(&s) == Some(&5_000))
            });
            assert!(used && (!must || !ended(lab)), "{:?}", lab.standing);
        }
        let now = lab.now;
        if let Some(connection) = lab.connection(CLIENT) {
            connection.close(now, 0, "");
        }
        lab.collect();
        let gone = lab.run(3 * MINUTE, |lab| lab.ends.iter().all(|end| end.connections() == 0));
        assert!(gone, "something is kept for ever");
    }
}
