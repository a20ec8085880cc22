//! Control blocks that are repeated until the peer has them; the newest value wins.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use manyway_wire::mmsp2::{
    AddAddress, Liveness, PathClose, PathLimit, PathStatus, Pong, ReceiveLimit, RemoveAddress, TcpConnections,
};
use manyway_wire::{PathId, Writer, mmsp2};

use super::rates::RateReports;
use crate::packet::content::{Contents, SentContent};
use crate::path::{PathAvailability, PathReport};
use crate::{ByteCount, Instant, Rate};

/// Most waiting liveness queries and replies.
const MAX_LIVENESS: usize = 16;

/// Delivery state of one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Delivery {
    Wanted,
    Sent,
}

#[derive(Debug, Clone, Copy)]
struct Status {
    sequence: u64,
    report: PathReport,
    delivery: Delivery,
}

/// A request that the peer has to learn, and its sequence number.
#[derive(Debug, Clone, Copy)]
struct Request<T> {
    sequence: u64,
    value: T,
    delivery: Delivery,
}

/// How much this end wants in flight on a path, and how fast; `None` does not limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Wanted {
    pub(super) window: Option<ByteCount>,
    pub(super) rate: Option<Rate>,
}

#[derive(Debug, Clone, Copy)]
struct OwnAddress {
    id: u64,
    sequence: u64,
    /// `None` withdraws the address.
    address: Option<SocketAddr>,
    delivery: Delivery,
}

/// Values that the peer has to learn.
#[derive(Debug, Default)]
pub(crate) struct Control {
    pong: Option<Delivery>,
    path_limit: Option<(u32, Delivery)>,
    statuses: BTreeMap<PathId, Status>,
    closes: BTreeMap<PathId, (u64, Delivery)>,
    addresses: Vec<OwnAddress>,
    /// Not repeated: a late liveness reply is worthless.
    liveness: VecDeque<Liveness>,
    /// Wanted bytes in flight on paths; few ends want any.
    receive_limits: BTreeMap<PathId, Request<Wanted>>,
    /// Wanted TCP connections.
    connections: Option<Request<u8>>,
    /// Rate reports to the peer, if it requests them; few peers do.
    rates: Option<Box<RateReports>>,
    /// Of the newest statement about a path or an address. All share one counter: the id of a withdrawn address is
    /// used again, and statements about the new address have to be newer.
    sequence: u64,
}

impl Control {
    pub(crate) fn send_pong(&mut self) {
        self.pong = Some(Delivery::Wanted);
    }

    pub(crate) fn send_path_limit(&mut self, limit: u32) {
        self.path_limit = Some((limit, Delivery::Wanted));
    }

    /// Sends a report, unless the last one said the same.
    pub(crate) fn send_status(&mut self, path: PathId, report: PathReport) {
        if self.statuses.get(&path).is_none_or(|status| status.report != report) {
            self.state(path, report);
        }
    }

    /// Sends a report if the peer knows another cost.
    pub(crate) fn send_cost(&mut self, path: PathId, report: PathReport) {
        let known = self.statuses.get(&path).map_or(PathReport::NONE, |status| status.report);
        if known.cost != report.cost {
            self.state(path, report);
        }
    }

    fn state(&mut self, path: PathId, report: PathReport) {
        self.sequence += 1;
        let status = Status { sequence: self.sequence, report, delivery: Delivery::Wanted };
        self.statuses.insert(path, status);
    }

    /// The peer requests rate reports.
    pub(crate) fn enable_rate_reports(&mut self) {
        self.rates.get_or_insert_default();
    }

    /// Whether a rate report for a path is due.
    pub(crate) fn wants_rate(&self, now: Instant, path: PathId, is_full: impl FnOnce() -> bool) -> bool {
        self.rates.as_ref().is_some_and(|rates| rates.is_due(now, path, is_full))
    }

    /// Sends the rate of a path with a report.
    pub(crate) fn send_rate(&mut self, now: Instant, path: PathId, report: PathReport, rate: Rate) {
        self.state(path, report);
        if let Some(rates) = &mut self.rates {
            rates.on_reported(now, path, self.sequence, rate);
        }
    }

    /// Sends how much this end wants in flight on a path, and how fast.
    pub(super) fn send_receive_limit(&mut self, path: PathId, wanted: Wanted) {
        if self.receive_limits.get(&path).map_or_else(Wanted::default, |request| request.value) != wanted {
            let request = self.request(wanted);
            self.receive_limits.insert(path, request);
        }
    }

    /// Sends how many TCP connections this end wants; 0 leaves that to the peer.
    pub(crate) fn send_connections(&mut self, count: u8) {
        if self.connections.map_or(0, |request| request.value) != count {
            self.connections = Some(self.request(count));
        }
    }

    fn request<T>(&mut self, value: T) -> Request<T> {
        self.sequence += 1;
        Request { sequence: self.sequence, value, delivery: Delivery::Wanted }
    }

    pub(crate) fn send_close(&mut self, path: PathId, code: u64) {
        self.forget_status(path);
        self.closes.insert(path, (code, Delivery::Wanted));
    }

    /// The path is closed: its availability is of no interest any more.
    pub(crate) fn forget_status(&mut self, path: PathId) {
        self.statuses.remove(&path);
        self.receive_limits.remove(&path);
        if let Some(rates) = &mut self.rates {
            rates.forget(path);
        }
    }

    pub(crate) fn send_liveness(&mut self, liveness: Liveness) {
        if self.liveness.len() < MAX_LIVENESS {
            self.liveness.push_back(liveness);
        }
    }

    /// Advertises all local addresses to the peer; withdraws advertised ones that are missing now.
    pub(crate) fn announce(&mut self, addresses: &[SocketAddr]) {
        for known in &mut self.addresses {
            if known.address.is_some_and(|address| !addresses.contains(&address)) {
                self.sequence += 1;
                *known = OwnAddress {
                    address: None,
                    sequence: self.sequence,
                    delivery: Delivery::Wanted,
                    id: known.id,
                };
            }
        }
        for address in addresses {
            if !self.addresses.iter().any(|known| known.address == Some(*address)) {
                let id = self.addresses.iter().map(|known| known.id + 1).max().unwrap_or(0);
                self.sequence += 1;
                let (sequence, address) = (self.sequence, Some(*address));
                self.addresses.push(OwnAddress { id, sequence, address, delivery: Delivery::Wanted });
            }
        }
    }

    /// The addresses advertised to the peer.
    pub(crate) fn announced(&self) -> impl Iterator<Item = SocketAddr> {
        self.addresses.iter().filter_map(|own| own.address)
    }

    /// Frees unused memory.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.liveness.shrink_to_fit();
        self.addresses.shrink_to_fit();
    }

    pub(crate) fn wants(&self) -> bool {
        let wanted = |delivery: Delivery| delivery == Delivery::Wanted;
        self.pong.is_some_and(wanted)
            || self.path_limit.is_some_and(|(_, delivery)| wanted(delivery))
            || self.statuses.values().any(|status| wanted(status.delivery))
            || self.closes.values().any(|(_, delivery)| wanted(*delivery))
            || self.addresses.iter().any(|address| wanted(address.delivery))
            || self.receive_limits.values().any(|request| wanted(request.delivery))
            || self.connections.is_some_and(|request| wanted(request.delivery))
            || !self.liveness.is_empty()
    }

    /// Writes the pending blocks as far as they fit; true if any was written.
    pub(crate) fn write_into(&mut self, writer: &mut Writer<'_>, contents: &mut Contents) -> bool {
        let before = writer.position();
        if let Some(delivery) = self.pong.as_mut().filter(|delivery| **delivery == Delivery::Wanted)
            && Pong.encoded_len() <= writer.remaining()
        {
            Pong.encode(writer);
            contents.push(SentContent::Pong);
            *delivery = Delivery::Sent;
        }
        if let Some((limit, delivery)) = self.path_limit.as_mut().filter(|(_, d)| *d == Delivery::Wanted) {
            let block = PathLimit { limit: *limit };
            if block.encoded_len() <= writer.remaining() {
                block.encode(writer);
                contents.push(SentContent::PathLimit);
                *delivery = Delivery::Sent;
            }
        }
        self.write_paths(writer, contents);
        self.write_addresses(writer, contents);
        self.write_wishes(writer, contents);
        while let Some(block) =
            self.liveness.front().copied().filter(|b| b.encoded_len() <= writer.remaining())
        {
            block.encode(writer);
            self.liveness.pop_front();
        }
        writer.position() > before
    }

    fn write_paths(&mut self, writer: &mut Writer<'_>, contents: &mut Contents) {
        for (path, status) in
            self.statuses.iter_mut().filter(|(_, status)| status.delivery == Delivery::Wanted)
        {
            let Status { sequence, report: PathReport { availability, cost }, .. } = *status;
            let state = to_wire(availability);
            let rate = self.rates.as_ref().and_then(|rates| rates.reported_with(*path, sequence));
            let rate = rate.map(Rate::bytes_per_second);
            let block = PathStatus { path: *path, sequence, state, cost, rate };
            if block.encoded_len() <= writer.remaining() {
                block.encode(writer);
                contents.push(SentContent::PathStatus { path: *path, sequence: status.sequence });
                status.delivery = Delivery::Sent;
            }
        }
        for (path, (code, delivery)) in self.closes.iter_mut().filter(|(_, (_, d))| *d == Delivery::Wanted) {
            let block = PathClose { path: *path, code: *code };
            if block.encoded_len() <= writer.remaining() {
                block.encode(writer);
                contents.push(SentContent::PathClose { path: *path });
                *delivery = Delivery::Sent;
            }
        }
    }

    fn write_wishes(&mut self, writer: &mut Writer<'_>, contents: &mut Contents) {
        let limits =
            self.receive_limits.iter_mut().filter(|(_, request)| request.delivery == Delivery::Wanted);
        for (path, request) in limits {
            let Wanted { window, rate } = request.value;
            let block = ReceiveLimit {
                path: *path,
                sequence: request.sequence,
                window: window.map_or(ReceiveLimit::UNLIMITED, ByteCount::get),
                rate: rate.map(Rate::bytes_per_second),
            };
            if block.encoded_len() <= writer.remaining() {
                block.encode(writer);
                contents.push(SentContent::ReceiveLimit { path: *path, sequence: request.sequence });
                request.delivery = Delivery::Sent;
            }
        }
        if let Some(request) =
            self.connections.as_mut().filter(|request| request.delivery == Delivery::Wanted)
        {
            let block = TcpConnections { sequence: request.sequence, count: request.value.into() };
            if block.encoded_len() <= writer.remaining() {
                block.encode(writer);
                contents.push(SentContent::TcpConnections { sequence: request.sequence });
                request.delivery = Delivery::Sent;
            }
        }
    }

    fn write_addresses(&mut self, writer: &mut Writer<'_>, contents: &mut Contents) {
        for own in self.addresses.iter_mut().filter(|own| own.delivery == Delivery::Wanted) {
            let before = writer.position();
            match own.address {
                Some(address) => {
                    let block =
                        AddAddress { id: own.id, sequence: own.sequence, priority: 0, cost: 0, address };
                    if block.encoded_len() <= writer.remaining() {
                        block.encode(writer);
                        contents.push(SentContent::AddAddress { id: own.id });
                    }
                }
                None => {
                    let block = RemoveAddress { id: own.id, sequence: own.sequence };
                    if block.encoded_len() <= writer.remaining() {
                        block.encode(writer);
                        contents.push(SentContent::RemoveAddress { id: own.id });
                    }
                }
            }
            if writer.position() > before {
                own.delivery = Delivery::Sent;
            }
        }
    }

    /// The peer has the value: final statements need not be kept.
    pub(crate) fn on_delivered(&mut self, content: &SentContent) {
        if let SentContent::PathClose { path } = content {
            self.closes.remove(path);
        }
        if let SentContent::RemoveAddress { id } = content {
            self.addresses.retain(|own| own.id != *id || own.address.is_some());
        }
    }

    /// The block was lost: sends it again unless a newer value replaced it.
    pub(crate) fn on_lost(&mut self, content: &SentContent) {
        match content {
            SentContent::Pong => self.pong = Some(Delivery::Wanted),
            SentContent::PathLimit => {
                if let Some((_, delivery)) = &mut self.path_limit {
                    *delivery = Delivery::Wanted;
                }
            }
            SentContent::PathStatus { path, sequence } => {
                if let Some(status) =
                    self.statuses.get_mut(path).filter(|status| status.sequence == *sequence)
                {
                    status.delivery = Delivery::Wanted;
                }
            }
            SentContent::ReceiveLimit { path, sequence } => {
                let request =
                    self.receive_limits.get_mut(path).filter(|request| request.sequence == *sequence);
                request.into_iter().for_each(|request| request.delivery = Delivery::Wanted);
            }
            SentContent::TcpConnections { sequence } => {
                let request = self.connections.as_mut().filter(|request| request.sequence == *sequence);
                request.into_iter().for_each(|request| request.delivery = Delivery::Wanted);
            }
            SentContent::PathClose { path } => {
                if let Some((_, delivery)) = self.closes.get_mut(path) {
                    *delivery = Delivery::Wanted;
                }
            }
            SentContent::AddAddress { id } | SentContent::RemoveAddress { id } => {
                if let Some(own) = self.addresses.iter_mut().find(|own| own.id == *id) {
                    own.delivery = Delivery::Wanted;
                }
            }
            SentContent::Handshake { .. }
            | SentContent::Stream { .. }
            | SentContent::Message { .. }
            | SentContent::Skip { .. }
            | SentContent::PathAck { .. }
            | SentContent::MaxData
            | SentContent::MaxStreamData { .. }
            | SentContent::MaxStreams
            | SentContent::ResetStream { .. }
            | SentContent::StopSending { .. }
            | SentContent::Blocked { .. }
            | SentContent::NewCid { .. }
            | SentContent::RetireCid { .. }
            | SentContent::MtuProbe { .. }
            | SentContent::Data { .. } => {}
        }
    }
}

/// The availability that the peer reports.
pub(crate) fn from_wire(state: mmsp2::PathAvailability) -> PathAvailability {
    match state {
        mmsp2::PathAvailability::Available => PathAvailability::Available,
        mmsp2::PathAvailability::Backup => PathAvailability::Backup,
        mmsp2::PathAvailability::Suspect => PathAvailability::Suspect,
        mmsp2::PathAvailability::Dead => PathAvailability::Dead,
    }
}

/// The availability that this end reports.
fn to_wire(state: PathAvailability) -> mmsp2::PathAvailability {
    match state {
        PathAvailability::Available => mmsp2::PathAvailability::Available,
        PathAvailability::Backup => mmsp2::PathAvailability::Backup,
        PathAvailability::Suspect => mmsp2::PathAvailability::Suspect,
        PathAvailability::Dead => mmsp2::PathAvailability::Dead,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use manyway_wire::mmsp2::{Block, Blocks, Liveness};
    use manyway_wire::{PathId, Writer, mmsp2};

    use super::{Control, MAX_LIVENESS};
    use crate::packet::content::{Contents, SentContent};
    use crate::path::remotes::Remotes;
    use crate::path::{PathAvailability, PathReport};
    use crate::{Instant, Rate};

    /// Of a path without cost.
    fn report(availability: PathAvailability) -> PathReport {
        PathReport { availability, ..PathReport::NONE }
    }

    fn written(control: &mut Control) -> Contents {
        let (mut buffer, mut contents) = (Vec::new(), Contents::new());
        control.write_into(&mut Writer::new(&mut buffer, 1200), &mut contents);
        contents
    }

    #[test]
    fn every_value_is_sent_once_and_again_for_each_loss_and_only_if_it_fits() {
        let mut control = Control::default();
        control.send_pong();
        control.send_path_limit(8);
        control.send_status(PathId(1), report(PathAvailability::Suspect));
        control.send_close(PathId(2), 0);
        control.announce(&["10.0.0.1:1".parse().unwrap()]);
        let mut buffer = Vec::new();
        assert!(!control.write_into(&mut Writer::new(&mut buffer, 3), &mut Contents::new()));
        for _ in 0..3 {
            assert!(control.wants());
            let contents = written(&mut control);
            assert_eq!(contents.len(), 5);
            assert!(!control.wants() && written(&mut control).is_empty());
            contents.iter().for_each(|content| control.on_lost(content));
        }
    }

    #[test]
    fn the_loss_of_an_old_state_does_not_restore_it() {
        let mut control = Control::default();
        control.send_status(PathId(1), report(PathAvailability::Suspect));
        let old = written(&mut control);
        control.send_status(PathId(1), report(PathAvailability::Available));
        assert_eq!(written(&mut control)[..], [SentContent::PathStatus { path: PathId(1), sequence: 2 }]);
        control.on_lost(&old[0]);
        control.send_status(PathId(1), report(PathAvailability::Available));
        assert!(!control.wants());
    }

    // spec 5.94
    #[test]
    fn a_new_cost_is_sent_once_and_goes_with_every_later_report() {
        let mut control = Control::default();
        let mut sent = |path, availability, cost, is_status| {
            let report = PathReport { availability, cost };
            if is_status {
                control.send_status(PathId(path), report);
            } else {
                control.send_cost(PathId(path), report);
            }
            let mut buffer = Vec::new();
            control.write_into(&mut Writer::new(&mut buffer, 1200), &mut Contents::new());
            let mut blocks = Blocks::new(&buffer).map(|block| {
                let Block::PathStatus(status) = block.unwrap() else { panic!() };
                (status.path.0, status.cost)
            });
            blocks.next()
        };
        let (available, suspect) = (PathAvailability::Available, PathAvailability::Suspect);
        assert_eq!(sent(1, available, 0, false), None, "0 holds without a report");
        assert_eq!(sent(1, available, 255, false), Some((1, 255)));
        assert_eq!(sent(1, available, 255, false), None);
        assert_eq!(sent(1, suspect, 255, false), None, "the availability is no news of the cost");
        assert_eq!(sent(1, suspect, 255, true), Some((1, 255)));
        assert_eq!(sent(1, suspect, 0, false), Some((1, 0)));
        assert_eq!(sent(2, available, 7, true), Some((2, 7)));
    }

    // spec 6.54
    #[test]
    fn a_rate_goes_with_its_own_statement_once_a_second_and_only_on_request() {
        let start = Instant::from_nanos(1_000_000_000);
        let rate = Rate::from_bytes_per_second(2_500_000);
        let told = |control: &mut Control| {
            let mut buffer = Vec::new();
            control.write_into(&mut Writer::new(&mut buffer, 1200), &mut Contents::new());
            let Block::PathStatus(status) = Blocks::new(&buffer).next().unwrap().unwrap() else { panic!() };
            (status.state, status.rate)
        };
        let wants = |control: &Control, now, path| control.wants_rate(now, PathId(path), || true);
        let mut control = Control::default();
        assert!(!wants(&control, start, 1));
        control.enable_rate_reports();
        assert!(wants(&control, start, 1));
        control.send_rate(start, PathId(1), report(PathAvailability::Available), rate);
        assert_eq!(told(&mut control), (mmsp2::PathAvailability::Available, Some(2_500_000)));
        control.send_status(PathId(1), report(PathAvailability::Available));
        assert!(!control.wants(), "that is no news");
        control.send_status(PathId(1), report(PathAvailability::Suspect));
        assert_eq!(told(&mut control), (mmsp2::PathAvailability::Suspect, None));
        let almost = start + Duration::from_millis(999);
        assert!(!wants(&control, almost, 1) && wants(&control, almost, 2));
        assert!(wants(&control, start + Duration::from_secs(1), 1));
        assert!(!control.wants_rate(start + Duration::from_secs(9), PathId(1), || false), "it is not full");
        control.forget_status(PathId(1));
        assert!(wants(&control, start, 1));
    }

    #[test]
    fn the_end_of_a_path_is_forgotten_once_the_peer_knows_it() {
        let mut control = Control::default();
        control.send_status(PathId(3), report(PathAvailability::Dead));
        control.send_close(PathId(3), 0);
        let contents = written(&mut control);
        assert_eq!(contents[..], [SentContent::PathClose { path: PathId(3) }]);
        control.on_delivered(&contents[0]);
        control.on_lost(&contents[0]);
        assert!(!control.wants() && control.closes.is_empty() && control.statuses.is_empty());
    }

    #[test]
    fn a_missing_address_is_withdrawn_and_then_forgotten() {
        let mut control = Control::default();
        let address = |port: u16| ([192, 0, 2, 1], port).into();
        control.announce(&[address(1), address(2)]);
        assert_eq!(written(&mut control).len(), 2);
        control.announce(&[address(2), address(3)]);
        let contents = written(&mut control);
        assert_eq!(contents[..], [SentContent::RemoveAddress { id: 0 }, SentContent::AddAddress { id: 2 }]);
        control.on_delivered(&contents[0]);
        assert_eq!(control.addresses.len(), 2);
    }

    #[test]
    fn an_address_that_reuses_an_id_is_newer_than_the_withdrawal_of_its_predecessor() {
        let mut control = Control::default();
        let address = |port: u16| ([192, 0, 2, 1], port).into();
        let mut remotes = Remotes::default();
        let mut tell = |control: &mut Control| {
            for own in &control.addresses {
                let peer = [192, 0, 2, 1].into();
                match own.address {
                    Some(address) => _ = remotes.on_add(own.id, own.sequence, address, peer),
                    None => _ = remotes.on_remove(own.id, own.sequence),
                }
            }
            for content in written(control) {
                control.on_delivered(&content);
            }
            remotes.iter().collect::<Vec<_>>()
        };
        for addresses in [&[address(1), address(2)][..], &[address(1)], &[address(1), address(3)]] {
            control.announce(addresses);
            assert_eq!(tell(&mut control), addresses);
        }
    }

    #[test]
    fn liveness_replies_are_bounded_and_not_repeated() {
        let mut control = Control::default();
        for _ in 0..3 * MAX_LIVENESS {
            control.send_liveness(Liveness::Query { path: PathId(1) });
        }
        assert_eq!(control.liveness.len(), MAX_LIVENESS);
        assert!(written(&mut control).is_empty() && !control.wants());
    }
}
