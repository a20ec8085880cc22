//! Cookies: valid for ten seconds for the client they were made for, and for no other.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_proto::fuzzing::Cookies;
use manyway_proto::{ConnectionId, Instant};

use crate::script::Script;

const START: Instant = Instant::from_nanos(1 << 40);
const SEED: [u8; 32] = [7; 32];
const LIFETIME: Duration = Duration::from_secs(10);
/// A key makes cookies for an hour and checks them for another.
const KEY_LIFE: Duration = Duration::from_secs(3600);

/// Makes, changes and checks cookies as the input says.
pub fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let mut now = START;
    let mut cookies = Cookies::new(now, SEED);
    let client: SocketAddr = ([192, 0, 2, script.u8()], 1 + script.u16() % 60_000).into();
    let ids = [id(&mut script), id(&mut script)];
    let mut made: Vec<(Instant, Vec<u8>)> = Vec::new();
    while let Some(step) = script.step() {
        match step % 6 {
            0 => made.push((now, cookies.seal(now, client, ids))),
            1 => now += Duration::from_millis(u64::from(script.u16())),
            2 => now += Duration::from_secs(u64::from(script.u16() % 8_000)),
            3 => {
                let foreign = script.bytes();
                let opened = cookies.open(now, foreign, client, ids);
                assert!(opened == Err(None) || is_own(foreign, client, ids), "no other endpoint has the key");
            }
            4 => {
                let Some((at, cookie)) = made.get(usize::from(script.u8()) % made.len().max(1)) else {
                    continue;
                };
                check_age(now - *at, cookies.open(now, cookie, client, ids));
                let stranger = ([198, 51, 100, 7], client.port()).into();
                assert_eq!(cookies.open(now, cookie, stranger, ids), Err(None));
            }
            _ => {
                let Some((_, cookie)) = made.last() else { continue };
                let mut changed = cookie.clone();
                let at = usize::from(script.u8()) % changed.len().max(1);
                let Some(byte) = changed.get_mut(at) else { continue };
                *byte ^= script.u8().max(1);
                assert_eq!(cookies.open(now, &changed, client, ids), Err(None));
            }
        }
    }
}

/// Whether these keys make this cookie at some time: a fuzzer may reproduce one. Later keys than the first are unknown
/// here.
fn is_own(cookie: &[u8], client: SocketAddr, ids: [ConnectionId; 2]) -> bool {
    let mut script = Script::new(cookie);
    if script.u8() != 0 {
        return true;
    }
    let made = START + Duration::from_millis(u64::from(script.u32()));
    Cookies::new(START, SEED).seal(made, client, ids) == cookie
}

fn check_age(age: Duration, opened: Result<Duration, Option<Duration>>) {
    const SLACK: Duration = Duration::from_millis(1);
    match opened {
        Ok(told) => {
            assert!(age <= LIFETIME + SLACK && told >= age && told <= age + SLACK, "{age:?} {told:?}");
        }
        Err(Some(since)) => assert!(age + SLACK >= LIFETIME + since, "{age:?} {since:?}"),
        Err(None) => assert!(age >= KEY_LIFE.saturating_sub(SLACK), "{age:?}: its key is forgotten"),
    }
}

fn id(script: &mut Script<'_>) -> ConnectionId {
    let bytes = script.bytes();
    ConnectionId::from_slice(bytes.get(..bytes.len().min(20)).unwrap_or_default())
        .unwrap_or_else(|| ConnectionId::from_u64(1))
}
