//! What becomes of each pair of addresses.

use std::time::Duration;

use manyway_wire::PathId;

use super::{Engine, Side};
use crate::path::{PathState, Role};
use crate::{FourTuple, LocalAddress};

/// A pair of addresses of one family that a client could use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AddressPair {
    /// The addresses.
    pub tuple: FourTuple,
    /// What its interface is meant for.
    pub role: Role,
    /// What is done with it.
    pub usage: PairUse,
}

/// What is done with a pair of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PairUse {
    /// It is this path.
    Path(PathId),
    /// The path of its interface looks for a pair that works, and asks this one too.
    Asked {
        /// The path.
        path: PathId,
    },
    /// The path of its interface uses another pair, which answered first.
    Spare {
        /// The path.
        path: PathId,
    },
    /// No path uses it; it is asked now and then how far the peer is.
    Measured {
        /// The smallest round-trip time of the last questions, if there was an answer.
        rtt: Option<Duration>,
    },
    /// An application closed the path of its interface.
    SetAside,
    /// Both ends allow no more paths now.
    NoRoom,
}

impl Engine {
    /// Every pair of addresses of one family that a client could use. Costs O(pairs × paths).
    pub(crate) fn address_pairs(&self) -> Vec<AddressPair> {
        if self.side == Side::Server {
            return Vec::new();
        }
        let pairs = self.manager.pairs();
        pairs.map(|(tuple, role)| AddressPair { tuple, role, usage: self.usage(&tuple) }).collect()
    }

    fn usage(&self, tuple: &FourTuple) -> PairUse {
        if let Some(path) = self.paths.iter().find(|path| path.tuple() == *tuple) {
            return PairUse::Path(path.id);
        }
        if let Some(selection) = &self.manager.selection {
            let pair = selection.survey.pairs().find(|(surveyed, ..)| surveyed == tuple);
            return match pair {
                Some((_, rtt, _)) => PairUse::Measured { rtt },
                None if self.manager.is_set_aside(&tuple.local) => PairUse::SetAside,
                None => PairUse::NoRoom,
            };
        }
        let of_interface = |other: &LocalAddress| crate::path::manager::same_interface(other, &tuple.local);
        let Some(path) = self.paths.iter().find(|path| of_interface(&path.tuple().local)) else {
            let aside = self.manager.is_set_aside(&tuple.local);
            return if aside { PairUse::SetAside } else { PairUse::NoRoom };
        };
        let looks = matches!(path.state(), PathState::Validating | PathState::Dead);
        if looks && path.prober.is_target(tuple) {
            PairUse::Asked { path: path.id }
        } else {
            PairUse::Spare { path: path.id }
        }
    }
}
