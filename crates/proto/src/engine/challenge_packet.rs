//! The next PROBE or PROBE-ACK of a path, and its addresses.

use super::BASE_DATAGRAM;
use crate::path::manager::PathManager;
use crate::path::{Path, PathState};
use crate::{FourTuple, Instant, Rng};

/// A packet with a path challenge, a response, or both, for one address pair.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChallengePacket {
    pub(crate) tuple: FourTuple,
    /// The nonce of a PROBE-ACK.
    pub(crate) response: Option<u64>,
    /// The nonce of a PROBE.
    pub(crate) challenge: Option<u64>,
    /// Whether the packet fills the datagram that every path must carry.
    pub(crate) is_full: bool,
}

/// The next PROBE or PROBE-ACK of a path; `None` if none is due, or the due one has to wait.
pub(crate) fn next_challenge_packet(
    now: Instant,
    path: &mut Path,
    manager: &mut PathManager,
    rng: &mut Rng,
    (is_client, may_fill): (bool, bool),
) -> Option<ChallengePacket> {
    if let Some((tuple, nonce)) = path.pop_response(now) {
        // A PROBE on a path that is not validated yet causes a challenge in return to the same address.
        let is_challenge_back_due =
            path.state() == PathState::Validating && path.challenger.is_challenge_back_due(now, &tuple);
        let challenge = is_challenge_back_due.then(|| path.challenger.challenge(now, tuple, rng));
        return Some(ChallengePacket { tuple, response: Some(nonce), challenge, is_full: false });
    }
    // spec 6.77: a pair that answered a small challenge gets a full one before the path counts as working.
    if let Some(tuple) = path.challenger.take_full_due() {
        let fits = path.tuple() != tuple || path.room() >= usize::from(BASE_DATAGRAM);
        let challenge = fits.then(|| path.challenger.challenge(now, tuple, rng))?;
        path.challenger.on_filled();
        return Some(ChallengePacket { tuple, response: None, challenge: Some(challenge), is_full: true });
    }
    if !path.may_challenge() {
        return None;
    }
    while let Some((tuple, nonce)) =
        path.challenger.next_challenge(now, rng, |address| manager.may_challenge(now, address))
    {
        if path.tuple() == tuple && !path.has_room_for_challenge() {
            path.challenger.on_held_back();
            continue;
        }
        let is_validated = is_client || (path.tuple() == tuple && path.addresses.is_validated());
        let is_full = may_fill
            && tuple.is_datagram()
            && path.state() == PathState::Dead
            && is_validated
            && path.challenger.fills_datagrams()
            && !manager.is_unverified(tuple.remote);
        if is_full {
            path.challenger.on_filled();
        }
        return Some(ChallengePacket { tuple, response: None, challenge: Some(nonce), is_full });
    }
    let tuple = path.tuple();
    let has_room = path.has_room_for_challenge();
    let pings = path.pings_mut().filter(|pings| pings.is_due())?;
    if !has_room || manager.is_unverified(tuple.remote) {
        return None;
    }
    let challenge = pings.next_challenge(now, tuple, rng);
    Some(ChallengePacket { tuple, response: None, challenge, is_full: false })
}
