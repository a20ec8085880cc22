//! A peer that has the keys and violates the protocol: packets of arbitrary blocks on every path, between honest ones,
//! while the application acts arbitrarily. The end under attack keeps its bounds, and goes on or ends in time.

use std::time::Duration;

use manyway_proto::{ByteCount, Connection, EncryptionLevel, PathId, SendRefusal, StreamId};

use crate::lab::{CLIENT, Flying, Lab, SERVER};
use crate::material::{SETTINGS, client_addresses, stranger};
use crate::script::Script;

const MOST_STEPS: usize = 256;
/// Datagrams beyond the window: probes, and control blocks about paths.
const PROBES: u64 = 40;
const MINUTE: Duration = Duration::from_secs(60);

/// Plays the input; the first byte is the stage of the connection.
pub fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let mut lab = Lab::established();
    lab.reading = false;
    for _ in 0..script.u8() % 8 {
        lab.wait(Duration::from_millis(10));
        lab.deliver_all();
    }
    for _ in 0..MOST_STEPS {
        let Some(step) = script.step() else { break };
        act(&mut lab, step, &mut script);
        check(&mut lab);
    }
    finish(&mut lab);
}

fn act(lab: &mut Lab, step: u8, script: &mut Script<'_>) {
    let end = usize::from(step >> 7);
    match step & 0x1f {
        0..=4 => {
            let path = PathId(u32::from(script.u8() % 4));
            let skipped = script.u8();
            let payload = script.bytes();
            say(lab, end, path, skipped, payload);
        }
        5..=12 => {
            let path = PathId(u32::from(script.u8() % 4));
            let payload = framed(script);
            say(lab, end, path, 0, &payload);
        }
        13 | 14 => lab.deliver_all(),
        15 => {
            if !lab.flying.is_empty() {
                let datagram = lab.flying.remove(0);
                lab.deliver(datagram);
            }
        }
        16 => {
            if !lab.flying.is_empty() {
                let at = usize::from(script.u8()) % lab.flying.len();
                lab.flying.remove(at);
            }
        }
        17 | 18 => lab.wait(Duration::from_millis(u64::from(script.u8()))),
        19 => lab.wait(Duration::from_millis(u64::from(script.u16()))),
        20 => {
            // The newest datagram comes from another address.
            let from = script.u8();
            if let Some(mut datagram) = lab.flying.pop() {
                datagram.tuple.remote = stranger(from);
                lab.deliver(datagram);
            }
        }
        _ => application(lab, step, script),
    }
    lab.collect();
}

/// Operations of the application and its system.
fn application(lab: &mut Lab, step: u8, script: &mut Script<'_>) {
    let end = usize::from(step >> 7);
    match step & 0x1f {
        21 => {
            lab.write_new(end, usize::from(script.u16() % 20_000));
        }
        22 => read_all(lab, end),
        23 => on_stream(lab, end, script.u8(), |connection, stream| {
            let _ = connection.finish(stream);
        }),
        24 => on_stream(lab, end, script.u8(), |connection, stream| {
            let _ = connection.reset(stream, 3);
        }),
        25 => on_stream(lab, end, script.u8(), |connection, stream| {
            let _ = connection.stop(stream, 4);
        }),
        26 => {
            let now = lab.now;
            let count = script.u8() % 3;
            if let Some(connection) = lab.connection(CLIENT) {
                connection.set_local_addresses(now, &client_addresses(count));
            }
        }
        27 => {
            let (now, path) = (lab.now, PathId(u32::from(script.u8() % 4)));
            if let Some(connection) = lab.connection(end) {
                let _ = connection.close_path(now, path);
            }
        }
        28 => {
            let now = lab.now;
            if let Some(connection) = lab.connection(CLIENT) {
                connection.on_wake(now);
            }
        }
        29 => {
            let (now, code) = (lab.now, u64::from(script.u8()));
            if let Some(connection) = lab.connection(end) {
                connection.close(now, code, "closed");
            }
        }
        30 => {
            let now = lab.now;
            lab.accept(end);
            if let Some(connection) = lab.connection(end) {
                let paths = connection.statistics().paths;
                if let Some(path) = paths.get(usize::from(script.u8()) % paths.len().max(1)) {
                    connection.on_send_refused(now, path.tuple, SendRefusal::Unreachable);
                }
            }
        }
        _ => {}
    }
}

/// Blocks in correct framing, with any content.
fn framed(script: &mut Script<'_>) -> Vec<u8> {
    let mut payload = Vec::new();
    for _ in 0..=script.u8() % 4 {
        let (kind, flags, body) = (script.u8(), script.u8(), script.bytes());
        // The known ones begin at 0x80, but for those of the handshake.
        let kind = if kind < 0x20 { kind } else { 0x80 | kind & 0x1f };
        payload.extend([kind, flags % 4]);
        payload.extend_from_slice(&u16::try_from(4 + body.len()).unwrap_or(u16::MAX).to_be_bytes());
        payload.extend_from_slice(body);
        payload.resize(payload.len().next_multiple_of(4), 0);
    }
    payload
}

/// Sends blocks from one end to the other, which receives them at once.
fn say(lab: &mut Lab, from: usize, path: PathId, skipped: u8, payload: &[u8]) {
    let payload = payload.get(..payload.len().min(4096)).unwrap_or_default();
    let Some(connection) = lab.connection(from) else { return };
    let tuple = connection.statistics().paths.iter().find(|p| p.id == path).map(|p| p.tuple);
    let Some(data) = connection.forge(EncryptionLevel::OneRtt, path, skipped, payload) else { return };
    let to = 1 - from;
    let mut heard = lab.tuple(to, lab.address_of(from, u8::try_from(path.0).unwrap_or(0)).address);
    if let Some(tuple) = tuple {
        let here = client_addresses(2).into_iter().map(|local| local.address);
        let there = here.into_iter().find(|local| from == SERVER && local.address == tuple.remote);
        heard.remote = tuple.local.address;
        heard.local = there.unwrap_or(heard.local);
    }
    lab.deliver(Flying { to, tuple: heard, data });
}

fn on_stream(lab: &mut Lab, end: usize, pick: u8, act: impl FnOnce(&mut Connection, StreamId)) {
    let standing = &lab.standing[end];
    let all: Vec<_> = standing.opened.iter().chain(&standing.accepted).copied().collect();
    let stream = all.get(usize::from(pick) % all.len().max(1)).copied();
    if let (Some(stream), Some(connection)) = (stream, lab.connection(end)) {
        act(connection, stream);
    }
}

/// Reads queued data, which credit must have allowed.
fn read_all(lab: &mut Lab, end: usize) {
    lab.accept(end);
    let standing = &lab.standing[end];
    let mut all = standing.opened.clone();
    all.extend(&standing.accepted);
    let total: u64 = all.into_iter().map(|stream| lab.read(end, stream)).sum();
    let most = SETTINGS.streams.max_window;
    assert!(total <= most, "{total} bytes were kept, {most} are the most");
}

fn check(lab: &mut Lab) {
    for end in [CLIENT, SERVER] {
        let Some(connection) = lab.connection(end) else { continue };
        let statistics = connection.statistics();
        assert!(statistics.paths.len() <= 32, "paths without end");
        for path in statistics.paths {
            let probes = ByteCount(u64::from(path.datagram)) * PROBES;
            // The initial window is the largest from which a window may have shrunk here.
            let most = path.window.max(ByteCount(256 << 10)) + probes;
            assert!(path.in_flight <= most, "{path:?}");
        }
        assert!(lab.ends[end].connections() <= 1);
    }
    lab.collect();
}

/// Both ends continue or end; when they are closed, they end.
fn finish(lab: &mut Lab) {
    lab.run(MINUTE, |lab| lab.standing.iter().all(|standing| standing.closed.is_some()));
    for end in [CLIENT, SERVER] {
        read_all(lab, end);
        let now = lab.now;
        if let Some(connection) = lab.connection(end) {
            connection.close(now, 0, "");
        }
    }
    lab.collect();
    let gone = lab.run(5 * MINUTE, |lab| lab.ends.iter().all(|end| end.connections() == 0));
    assert!(gone, "a connection lives for ever: {:?}", lab.standing);
    assert!(lab.standing.iter().all(|standing| standing.closed.is_some()));
}
