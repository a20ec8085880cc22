//! Typical links, each with the source of its numbers.

use std::time::Duration;

use manyway_proto::Rate;

use super::{DelayModel, Jitter, LinkConfig, LossModel, Order, Probability};

/// Named links. Both directions have the same delay and loss; the rates differ where they do in reality.
///
/// The figures of Wi-Fi, LTE, Starlink and the geostationary satellite are those of the published environments that the
/// project measures itself in (`docs/results`); the others are rounded from vendors' data sheets and national broadband
/// measurements. Delays are one way: half of a typical round trip to a server in the same country.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Preset {
    /// Switched Ethernet in one building: 1 Gbit/s both ways, 0.2 ms.
    Ethernet,
    /// Fibre to the home: 300 Mbit/s both ways, 4 ms.
    Fibre,
    /// VDSL: 50 Mbit/s down, 10 up, 10 ms.
    Dsl,
    /// Wi-Fi in the next room: 30 Mbit/s both ways, 8 ms, 0.1 % lost.
    Wifi,
    /// Wi-Fi through two walls: 30 Mbit/s both ways, 15 ms, 1 % lost in bursts of 4.
    LossyWifi,
    /// LTE: 40 Mbit/s down, 20 up, 20 ms with a deviation of 4 ms, 0.5 % lost.
    Lte,
    /// 5G below 6 GHz: 200 Mbit/s down, 40 up, 12 ms with a deviation of 3 ms, 0.1 % lost.
    FiveG,
    /// Low orbit satellite: 100 Mbit/s down, 15 up, 25 ms with a deviation of 8 ms, 1 % lost in bursts of 3.
    Starlink,
    /// Geostationary satellite: 20 Mbit/s down, 5 up, 300 ms with a deviation of 10 ms, 0.5 % lost.
    Geostationary,
}

impl Preset {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Ethernet,
        Self::Fibre,
        Self::Dsl,
        Self::Wifi,
        Self::LossyWifi,
        Self::Lte,
        Self::FiveG,
        Self::Starlink,
        Self::Geostationary,
    ];

    /// The name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ethernet => "ethernet",
            Self::Fibre => "fibre",
            Self::Dsl => "dsl",
            Self::Wifi => "wifi",
            Self::LossyWifi => "lossy-wifi",
            Self::Lte => "lte",
            Self::FiveG => "5g",
            Self::Starlink => "starlink",
            Self::Geostationary => "geo",
        }
    }

    /// The link of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name() == name)
    }

    /// The direction from the network to the user.
    pub fn down(self) -> LinkConfig {
        let numbers = self.numbers();
        numbers.config(numbers.down)
    }

    /// The direction from the user to the network.
    pub fn up(self) -> LinkConfig {
        let numbers = self.numbers();
        numbers.config(numbers.up)
    }

    const fn numbers(self) -> Numbers {
        match self {
            Self::Ethernet => Numbers::new(1_000_000, 1_000_000, 200),
            Self::Fibre => Numbers::new(300_000, 300_000, 4_000),
            Self::Dsl => Numbers::new(50_000, 10_000, 10_000),
            Self::Wifi => Numbers::new(30_000, 30_000, 8_000).loss(1_000, 1),
            Self::LossyWifi => Numbers::new(30_000, 30_000, 15_000).loss(10_000, 4),
            Self::Lte => Numbers::new(40_000, 20_000, 20_000).deviation(4_000).loss(5_000, 1),
            Self::FiveG => Numbers::new(200_000, 40_000, 12_000).deviation(3_000).loss(1_000, 1),
            Self::Starlink => Numbers::new(100_000, 15_000, 25_000).deviation(8_000).loss(10_000, 3),
            Self::Geostationary => Numbers::new(20_000, 5_000, 300_000).deviation(10_000).loss(5_000, 1),
        }
    }
}

struct Numbers {
    /// kbit/s
    down: u64,
    /// kbit/s
    up: u64,
    delay: Duration,
    deviation: Duration,
    loss: Probability,
    burst: u32,
}

impl Numbers {
    const fn new(down: u64, up: u64, delay_micros: u64) -> Self {
        Self {
            down,
            up,
            delay: Duration::from_micros(delay_micros),
            deviation: Duration::ZERO,
            loss: Probability::NEVER,
            burst: 1,
        }
    }

    const fn deviation(mut self, micros: u64) -> Self {
        self.deviation = Duration::from_micros(micros);
        self
    }

    const fn loss(mut self, ppm: u32, burst: u32) -> Self {
        self.loss = Probability::from_ppm(ppm);
        self.burst = burst;
        self
    }

    fn config(&self, kilobits: u64) -> LinkConfig {
        let mut config = LinkConfig::new(Rate::from_bits_per_second(kilobits * 1_000), self.delay);
        if !self.deviation.is_zero() {
            // Radio links vary from one scheduling period to the next and keep the order of packets.
            let delay = DelayModel::constant(self.delay)
                .with_jitter(Jitter::Normal(self.deviation), Order::Kept)
                .with_hold(Duration::from_millis(10));
            config = config.with_delay(delay);
        }
        let loss = match self.burst {
            _ if self.loss == Probability::NEVER => LossModel::None,
            1 => LossModel::Random(self.loss),
            burst => LossModel::bursts(self.loss, burst),
        };
        config.with_loss(loss)
    }
}
