//! The next PROBE or PROBE-ACK of a path, and its addresses.

use super::BASE_DATAGRAM;
use crate::path::manager::PathManager;
use crate::path::{Path, PathState};
use crate::{FourTuple, Instant, Rng};

/// What a probing packet for an address pair carries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probing {
    pub(crate) tuple: FourTuple,
    /// The nonce of a PROBE-ACK.
    pub(crate) answer: Option<u64>,
    /// The nonce of a PROBE.
    pub(crate) challenge: Option<u64>,
    /// Whether the packet fills the datagram that every path must carry.
    pub(crate) is_full: bool,
}

/// The next PROBE or PROBE-ACK of a path; `None` if none is due, or the due one has to wait.
pub(crate) fn next_probing(
    now: Instant,
    path: &mut Path,
    manager: &mut PathManager,
    rng: &mut Rng,
    (is_client, may_fill): (bool, bool),
) -> Option<Probing> {
    if let Some((tuple, nonce)) = path.pop_response(now) {
        // A PROBE on a path that is not validated yet causes a challenge in return to the same address.
        let is_challenge_back_due =
            path.state() == PathState::Validating && path.prober.is_challenge_back_due(now, &tuple);
        let challenge = is_challenge_back_due.then(|| path.prober.challenge(now, tuple, rng));
        return Some(Probing { tuple, answer: Some(nonce), challenge, is_full: false });
    }
    // spec 6.77: a pair that answered a small challenge gets a full one before the path counts as working.
    if let Some(tuple) = path.prober.take_full_due() {
        let fits = path.tuple() != tuple || path.room() >= usize::from(BASE_DATAGRAM);
        let challenge = fits.then(|| path.prober.challenge(now, tuple, rng))?;
        path.prober.on_filled();
        return Some(Probing { tuple, answer: None, challenge: Some(challenge), is_full: true });
    }
    if !path.may_challenge() {
        return None;
    }
    while let Some((tuple, nonce)) =
        path.prober.next_challenge(now, rng, |address| manager.may_challenge(now, address))
    {
        if path.tuple() == tuple && !path.has_room_for_probe() {
            path.prober.on_held_back();
            continue;
        }
        let is_validated = is_client || (path.tuple() == tuple && path.addresses.is_validated());
        let is_full = may_fill
            && tuple.is_datagram()
            && path.state() == PathState::Dead
            && is_validated
            && path.prober.fills_datagrams()
            && !manager.is_unverified(tuple.remote);
        if is_full {
            path.prober.on_filled();
        }
        return Some(Probing { tuple, answer: None, challenge: Some(nonce), is_full });
    }
    let tuple = path.tuple();
    let has_room = path.has_room_for_probe();
    let pings = path.pings_mut().filter(|pings| pings.is_due())?;
    if !has_room || manager.is_unverified(tuple.remote) {
        return None;
    }
    let challenge = pings.next_challenge(now, tuple, rng);
    Some(Probing { tuple, answer: None, challenge, is_full: false })
}
