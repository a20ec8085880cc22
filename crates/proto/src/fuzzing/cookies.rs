//! The cookies of a server under load.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_wire::ConnectionId;

use crate::endpoint::cookie::{CookieError, CookieFacts, CookieKeys};
use crate::{Instant, Rng};

/// Creates and checks cookies.
#[derive(Debug)]
pub struct Cookies(CookieKeys);

impl Cookies {
    /// Starts with a key derived from the seed.
    pub fn new(now: Instant, seed: [u8; 32]) -> Self {
        Self(CookieKeys::new(now, &mut Rng::from_seed(seed)))
    }

    /// Creates a cookie for a client.
    pub fn seal(&mut self, now: Instant, client: SocketAddr, ids: [ConnectionId; 2]) -> Vec<u8> {
        self.0.seal(now, &facts(client, ids))
    }

    /// Its age if it is valid; `Err` with the time since it expired, or `None` if it was never valid here.
    ///
    /// # Errors
    /// If it is stale or forged.
    pub fn open(
        &self,
        now: Instant,
        cookie: &[u8],
        client: SocketAddr,
        ids: [ConnectionId; 2],
    ) -> Result<Duration, Option<Duration>> {
        self.0.open(now, cookie, &facts(client, ids)).map_err(|error| match error {
            CookieError::Stale(since) => Some(since),
            CookieError::Forged => None,
        })
    }
}

fn facts(client: SocketAddr, [original_destination, source]: [ConnectionId; 2]) -> CookieFacts {
    CookieFacts { client, original_destination, source }
}
