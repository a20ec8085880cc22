//! State of each candidate pair.

use std::time::Duration;

use manyway_wire::PathId;

use super::{Engine, Side};
use crate::path::{PathState, Role};
use crate::{FourTuple, LocalAddress};

/// A candidate pair of one family that a client could use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AddressPair {
    /// The addresses.
    pub tuple: FourTuple,
    /// The role of its interface.
    pub role: Role,
    /// Its state.
    pub usage: PairUse,
}

/// The state of a candidate pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PairUse {
    /// This path uses it.
    Path(PathId),
    /// The path of its interface looks for a working pair, and challenges this one too.
    Asked {
        /// The path.
        path: PathId,
    },
    /// The path of its interface uses another pair, which answered first.
    Spare {
        /// The path.
        path: PathId,
    },
    /// No path uses it; connectivity checks measure it now and then.
    Measured {
        /// The smallest RTT of the last checks, if any was answered.
        rtt: Option<Duration>,
    },
    /// The application closed the path of its interface.
    SetAside,
    /// The limits of both ends allow no further path now.
    NoRoom,
}

impl Engine {
    /// Every candidate pair of one family that a client could use. Costs O(pairs × paths).
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
