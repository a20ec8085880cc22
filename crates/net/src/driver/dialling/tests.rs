use super::*;

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn local(interface: u32) -> LocalAddress {
    let host = u8::try_from(interface).unwrap();
    LocalAddress { interface, address: ([10, 0, host, 1], 0).into() }
}

fn remote(host: u8) -> SocketAddr {
    ([10, 9, 9, host], 4455).into()
}

fn stream(interface: u32, port: u16, host: u8) -> FourTuple {
    let mut local = local(interface);
    local.address.set_port(port);
    FourTuple::tcp(local, remote(host))
}

fn situation(working: &[u32]) -> Situation {
    Situation {
        locals: vec![local(1), local(2)],
        remotes: vec![remote(1), remote(2)],
        working: working.iter().copied().map(local).collect(),
        failing: [1, 2].into_iter().filter(|it| !working.contains(it)).map(local).collect(),
        dead: Vec::new(),
        wanted: 1,
        room: 8,
        is_connected: true,
        rates: BTreeMap::new(),
    }
}

/// The first slot of an interface, if the first interface came first.
fn slot(interface: u32) -> TcpSlotId {
    TcpSlotId(u64::from(interface) - 1)
}

fn plain(host: u8) -> Target {
    Target { remote: remote(host), is_tls: false }
}

fn dial(interface: u32, host: u8) -> Step {
    Step::Dial(slot(interface), local(interface), plain(host))
}

const CLIENT: ClientId = ClientId::FIRST;

fn dialler(choice: CarrierChoice) -> Dialler {
    let mut dialler = Dialler::new(choice, PairMode::LocalDisjoint, None);
    dialler.add(CLIENT);
    dialler
}

/// Both slots are connected and in use since the beginning.
fn connected() -> Dialler {
    let mut dialler = dialler(CarrierChoice::Tcp);
    dialler.advance(at(0), CLIENT, &situation(&[]));
    for (interface, host) in [(1, 1), (2, 2)] {
        let tuple = stream(interface, 50, host);
        assert!(dialler.on_dialled(at(0), CLIENT, (slot(interface), &local(interface)), Some(tuple)));
        assert_eq!(dialler.on_used(at(0), CLIENT, tuple), None);
    }
    dialler
}

#[test]
fn udp_has_a_head_start_and_tcp_follows_where_it_does_not_work() {
    let mut dialler = dialler(CarrierChoice::Auto);
    assert_eq!(dialler.advance(at(0), CLIENT, &situation(&[])), []);
    assert_eq!((dialler.deadline(), dialler.due(at(249))), (Some(at(250)), vec![]));
    assert_eq!(dialler.due(at(250)), [CLIENT]);
    let steps = dialler.advance(at(250), CLIENT, &situation(&[1]));
    assert_eq!(steps, [dial(2, 1)]);
    assert_eq!(dialler.deadline(), None);
}

#[test]
fn without_udp_every_interface_connects_at_once_and_to_an_address_of_its_own() {
    let steps = dialler(CarrierChoice::Tcp).advance(at(0), CLIENT, &situation(&[]));
    assert_eq!(steps, [dial(1, 1), dial(2, 2)]);
}

#[test]
fn attempts_go_on_at_growing_intervals_and_to_every_address_in_turn() {
    let mut dialler = dialler(CarrierChoice::Tcp);
    let mut situation = situation(&[]);
    situation.locals.truncate(1);
    let (mut now, mut waits, mut hosts) = (0, Vec::new(), Vec::new());
    for _ in 0..6 {
        let steps = dialler.advance(at(now), CLIENT, &situation);
        let [Step::Dial(_, _, to)] = steps[..] else { panic!("{steps:?}") };
        hosts.push(to.remote);
        assert!(!dialler.has_failed(CLIENT));
        dialler.on_dialled(at(now), CLIENT, (slot(1), &local(1)), None);
        assert_eq!(dialler.has_failed(CLIENT), hosts.len() > 1, "both hosts have to be tried");
        let due = dialler.deadline().unwrap();
        waits.push((due - at(now)).as_millis());
        now += u64::try_from((due - at(now)).as_millis()).unwrap();
    }
    assert_eq!(waits, [250, 500, 1000, 2000, 2000, 2000]);
    assert_eq!(hosts, [1, 2, 1, 2, 1, 2].map(remote));
}

#[test]
fn a_tcp_connection_is_offered_until_a_path_uses_it() {
    let mut dialler = dialler(CarrierChoice::Tcp);
    dialler.advance(at(0), CLIENT, &situation(&[]));
    let tuple = stream(1, 50, 1);
    dialler.on_dialled(at(10), CLIENT, (slot(1), &local(1)), Some(tuple));
    assert_eq!(dialler.advance(at(10), CLIENT, &situation(&[])), [Step::Offer(tuple)]);
    assert_eq!(dialler.advance(at(11), CLIENT, &situation(&[])), []);
    assert_eq!(dialler.advance(at(110), CLIENT, &situation(&[])), [Step::Offer(tuple)]);
    dialler.on_used(at(110), CLIENT, tuple);
    assert_eq!((dialler.deadline(), dialler.advance(at(300), CLIENT, &situation(&[]))), (None, vec![]));
}

#[test]
fn a_tcp_connection_ends_five_seconds_after_udp_works_again_and_not_if_that_fails_before() {
    let mut dialler = dialler(CarrierChoice::Auto);
    dialler.advance(at(0), CLIENT, &situation(&[2]));
    dialler.advance(at(250), CLIENT, &situation(&[2]));
    let tuple = stream(1, 50, 1);
    dialler.on_dialled(at(300), CLIENT, (slot(1), &local(1)), Some(tuple));
    dialler.on_used(at(300), CLIENT, tuple);
    dialler.advance(at(1000), CLIENT, &situation(&[1, 2]));
    assert_eq!(dialler.deadline(), Some(at(6000)));
    dialler.advance(at(5000), CLIENT, &situation(&[2]));
    assert_eq!(dialler.deadline(), None);
    dialler.advance(at(7000), CLIENT, &situation(&[1, 2]));
    assert_eq!(dialler.advance(at(12_000), CLIENT, &situation(&[1, 2])), [Step::Close(tuple)]);
    assert_eq!(dialler.on_ended(at(12_001), &tuple), None, "no client waits for its end");
}

#[test]
fn a_connection_that_lasted_is_replaced_at_once_and_one_that_did_not_later() {
    let mut dialler = connected();
    assert_eq!(dialler.on_ended(at(1000), &stream(1, 50, 1)), Some(CLIENT));
    assert_eq!(dialler.advance(at(1000), CLIENT, &situation(&[])), []);
    let steps = dialler.advance(at(1250), CLIENT, &situation(&[]));
    assert_eq!(steps, [dial(1, 2)]);
    assert_eq!(dialler.on_ended(at(9000), &stream(2, 50, 2)), Some(CLIENT));
    assert_eq!(dialler.due(at(9000)), [CLIENT]);
}

#[test]
fn a_silent_connection_ends_when_another_one_has_taken_its_place() {
    let mut dialler = connected();
    let mut situation = situation(&[]);
    situation.dead.push(stream(1, 50, 1));
    let steps = dialler.advance(at(9000), CLIENT, &situation);
    assert_eq!(steps, [dial(1, 1)]);
    let next = stream(1, 51, 1);
    dialler.on_dialled(at(9050), CLIENT, (slot(1), &local(1)), Some(next));
    assert_eq!(dialler.advance(at(9050), CLIENT, &situation), [Step::Offer(next)]);
    assert_eq!(dialler.on_used(at(9050), CLIENT, next), Some(stream(1, 50, 1)));
}

#[test]
fn connections_of_a_removed_address_close_and_results_for_it_are_ignored() {
    let mut dialler = connected();
    let mut situation = situation(&[]);
    situation.locals.remove(0);
    assert_eq!(dialler.advance(at(10), CLIENT, &situation), [Step::Close(stream(1, 50, 1))]);
    assert!(!dialler.on_dialled(at(10), CLIENT, (slot(1), &local(1)), Some(stream(1, 52, 1))));
    dialler.remove(CLIENT);
    assert!(!dialler.on_dialled(at(10), CLIENT, (slot(2), &local(2)), None));
}

#[test]
fn one_tcp_connection_per_interface_and_none_where_udp_was_not_tried() {
    let mut dialler = dialler(CarrierChoice::Auto);
    let mut situation = situation(&[1]);
    let other = LocalAddress { interface: 1, address: ([10, 0, 7, 1], 0).into() };
    situation.locals.push(other);
    situation.failing = vec![other];
    dialler.advance(at(0), CLIENT, &situation);
    assert_eq!(
        dialler.deadline(),
        None,
        "UDP works at another address of the one, and is not used on the other"
    );
    situation.working.clear();
    dialler.advance(at(1000), CLIENT, &situation);
    assert_eq!(dialler.advance(at(1250), CLIENT, &situation), [dial(1, 1)]);
    dialler.on_dialled(at(1250), CLIENT, (slot(1), &local(1)), None);
    assert_eq!(dialler.advance(at(1500), CLIENT, &situation), [Step::Dial(slot(1), other, plain(1))]);
}

#[test]
fn the_head_start_ends_when_udp_has_failed() {
    let mut dialler = dialler(CarrierChoice::Auto);
    dialler.advance(at(0), CLIENT, &situation(&[]));
    dialler.on_udp_failed(at(20), CLIENT);
    assert_eq!(dialler.advance(at(20), CLIENT, &situation(&[])).len(), 2);
}

/// Opens what is wanted on both interfaces, and returns the TCP connections.
fn open_all(dialler: &mut Dialler, situation: &Situation) -> Vec<FourTuple> {
    let (mut port, mut tuples) = (60, Vec::new());
    loop {
        let steps = dialler.advance(at(0), CLIENT, situation);
        if steps.is_empty() {
            return tuples;
        }
        for step in steps {
            let Step::Dial(slot, from, to) = step else { continue };
            port += 1;
            let mut local = from;
            local.address.set_port(port);
            let tuple = FourTuple::tcp(local, to.remote);
            assert!(dialler.on_dialled(at(0), CLIENT, (slot, &from), Some(tuple)));
            dialler.on_used(at(0), CLIENT, tuple);
            tuples.push(tuple);
        }
    }
}

#[test]
fn an_interface_gets_the_wanted_number_once_its_first_connection_is_used_and_servers_are_used_evenly() {
    let mut dialler = dialler(CarrierChoice::Tcp);
    let mut situation = situation(&[]);
    situation.wanted = 3;
    assert_eq!(dialler.advance(at(0), CLIENT, &situation).len(), 2, "one each at first");
    let mut dialler = self::dialler(CarrierChoice::Tcp);
    let tuples = open_all(&mut dialler, &situation);
    let count = |test: &dyn Fn(&FourTuple) -> bool| tuples.iter().filter(|tuple| test(tuple)).count();
    assert_eq!((count(&|tuple| tuple.local.interface == 1), tuples.len()), (3, 6));
    assert_eq!(count(&|tuple| tuple.remote == remote(1)), 3);
}

#[test]
fn no_connection_is_opened_without_room_for_a_path() {
    let mut dialler = dialler(CarrierChoice::Tcp);
    let mut situation = situation(&[]);
    (situation.wanted, situation.room) = (4, 5);
    // The first two do not need any more room once they are used.
    assert_eq!(dialler.advance(at(0), CLIENT, &situation).len(), 2);
    let mut dialler = connected();
    assert_eq!(dialler.advance(at(0), CLIENT, &situation).len(), 5);
    situation.room = 0;
    let mut dialler = connected();
    assert_eq!(dialler.advance(at(0), CLIENT, &situation), []);
    // A dead path makes room for its successor.
    let dead = stream(1, 50, 1);
    situation.dead.push(dead);
    assert_eq!(dialler.advance(at(9000), CLIENT, &situation), [Step::Close(dead)]);
    (situation.room, situation.wanted) = (1, 1);
    situation.dead.clear();
    assert_eq!(dialler.advance(at(9250), CLIENT, &situation), [dial(1, 1)]);
}

#[test]
fn the_slowest_connections_end_when_fewer_are_wanted_and_one_stays() {
    let mut dialler = dialler(CarrierChoice::Tcp);
    let mut situation = situation(&[]);
    situation.locals.truncate(1);
    situation.wanted = 4;
    let tuples = open_all(&mut dialler, &situation);
    situation.rates =
        (5..).map(Rate::from_bytes_per_second).zip(&tuples).map(|(rate, it)| (*it, rate)).collect();
    situation.wanted = 2;
    let steps = dialler.advance(at(10), CLIENT, &situation);
    assert_eq!(steps, [Step::Retire(tuples[0]), Step::Retire(tuples[1])]);
    assert_eq!(dialler.on_ended(at(20), &tuples[0]), None, "no client waits for its end");
    situation.wanted = 0;
    assert_eq!(dialler.advance(at(30), CLIENT, &situation), [Step::Retire(tuples[2])]);
    assert_eq!(dialler.advance(at(40), CLIENT, &situation), []);
}

/// The steps after attempts between both interfaces and both hosts that took these times in ms.
fn attempt_all(
    dialler: &mut Dialler,
    situation: &Situation,
    steps: &[Step],
    times: [[u64; 2]; 2],
) -> Vec<Step> {
    let mut count = 0;
    for step in steps {
        let Step::AttemptPair(from, to) = step else { continue };
        count += 1;
        let (interface, host) =
            (usize::try_from(from.interface).unwrap(), if *to == remote(1) { 0 } else { 1 });
        let took = Duration::from_millis(times[interface - 1][host]);
        let tuple =
            stream(from.interface, 70 + u16::try_from(count).unwrap(), u8::try_from(host + 1).unwrap());
        assert!(dialler.on_attempted(at(50), CLIENT, (from, *to), Some((tuple, took))));
    }
    assert_eq!(count, 4, "{steps:?}");
    dialler.advance(at(100), CLIENT, situation)
}

#[test]
fn all_disjoint_pairs_are_attempted_once_connected_and_the_first_connection_gives_way_to_the_chosen_one() {
    let mut dialler = Dialler::new(CarrierChoice::Tcp, PairMode::Disjoint, None);
    dialler.add(CLIENT);
    let mut situation = situation(&[]);
    situation.is_connected = false;
    let first = stream(1, 50, 1);
    assert_eq!(dialler.advance(at(0), CLIENT, &situation), [dial(1, 1), dial(2, 2)]);
    dialler.on_dialled(at(0), CLIENT, (slot(1), &local(1)), Some(first));
    dialler.on_used(at(0), CLIENT, first);
    situation.is_connected = true;
    let steps = dialler.advance(at(10), CLIENT, &situation);
    let steps = attempt_all(&mut dialler, &situation, &steps, [[50, 10], [10, 50]]);
    let (one, two) = (stream(1, 72, 2), stream(2, 73, 1));
    let dropped = [Step::Discard(stream(1, 71, 1)), Step::Discard(stream(2, 74, 2))];
    assert_eq!(steps, [&dropped[..], &[Step::Offer(one), Step::Offer(two)]].concat());
    assert_eq!(dialler.on_used(at(100), CLIENT, one), Some(first), "the first one ends");
    assert_eq!(dialler.on_used(at(100), CLIENT, two), None);
    assert_eq!(dialler.advance(at(200), CLIENT, &situation), [], "no further attempts");
    // A connection that ends is set up again between the same addresses.
    assert_eq!(dialler.on_ended(at(9000), &one), Some(CLIENT));
    assert_eq!(dialler.advance(at(9000), CLIENT, &situation), [dial(1, 2)]);
    // Other addresses are attempted again.
    situation.remotes.push(remote(3));
    let steps = dialler.advance(at(9001), CLIENT, &situation);
    assert_eq!(steps.iter().filter(|step| matches!(step, Step::AttemptPair(..))).count(), 6);
}

/// AMS, figure 10.
#[test]
fn a_connection_whose_full_queue_delays_a_further_attempt_stays_beside_a_new_address() {
    let mut dialler = Dialler::new(CarrierChoice::Tcp, PairMode::Disjoint, None);
    dialler.add(CLIENT);
    let mut situation = situation(&[]);
    let second = situation.remotes.pop().unwrap();
    situation.is_connected = false;
    let first = stream(1, 50, 1);
    dialler.advance(at(0), CLIENT, &situation);
    dialler.on_dialled(at(0), CLIENT, (slot(1), &local(1)), Some(first));
    dialler.on_used(at(0), CLIENT, first);
    situation.is_connected = true;
    // Before there is another address, no pair of the second interface leads anywhere.
    dialler.advance(at(10), CLIENT, &situation);
    let took = Duration::from_millis(10);
    let repeated = stream(1, 51, 1);
    dialler.on_attempted(at(20), CLIENT, (&local(1), remote(1)), Some((repeated, took)));
    dialler.advance(at(1100), CLIENT, &situation);
    situation.remotes.push(second);
    dialler.advance(at(9000), CLIENT, &situation);
    let new = stream(2, 60, 2);
    dialler.on_attempted(at(9020), CLIENT, (&local(2), second), Some((new, took)));
    assert_eq!(dialler.advance(at(10_100), CLIENT, &situation), [Step::Offer(new)]);
    assert_eq!(dialler.on_used(at(10_200), CLIENT, new), None);
}

#[test]
fn attempts_between_all_pairs_are_repeated_while_addresses_are_left_over() {
    let mut dialler = Dialler::new(CarrierChoice::Tcp, PairMode::Disjoint, None);
    dialler.add(CLIENT);
    let situation = situation(&[]);
    let pairs = |steps: &[Step]| -> Vec<(LocalAddress, SocketAddr)> {
        let pair = |step: &Step| match step {
            Step::AttemptPair(from, to) => Some((*from, *to)),
            Step::Dial(..) | Step::Discard(_) | Step::Offer(_) | Step::Close(_) | Step::Retire(_) => None,
        };
        steps.iter().filter_map(pair).collect()
    };
    let mut time = 10;
    // Only one pair answers: repeated after 1, 2, 4 s.
    for wait in [1000, 2000, 4000] {
        let steps = dialler.advance(at(time), CLIENT, &situation);
        let attempted = pairs(&steps);
        assert_eq!(attempted.len(), 4, "after {time} ms");
        for (from, to) in attempted {
            let is_first = (from, to) == (local(1), remote(1));
            let result = is_first.then(|| (stream(1, 71, 1), Duration::from_millis(10)));
            dialler.on_attempted(at(time + 10), CLIENT, (&from, to), result);
        }
        dialler.advance(at(time + 10), CLIENT, &situation);
        dialler.on_used(at(time + 10), CLIENT, stream(1, 71, 1));
        assert_eq!(pairs(&dialler.advance(at(time + 9 + wait), CLIENT, &situation)), []);
        time += 10 + wait;
    }
    // Both interfaces have a connection: no further attempts.
    for (from, to) in pairs(&dialler.advance(at(time), CLIENT, &situation)) {
        let host = if to == remote(1) { 1 } else { 2 };
        let took = Duration::from_millis(10);
        dialler.on_attempted(at(time), CLIENT, (&from, to), Some((stream(from.interface, 80, host), took)));
    }
    assert_eq!(pairs(&dialler.advance(at(time + 10), CLIENT, &situation)), []);
    assert_eq!(pairs(&dialler.advance(at(time + 100_000), CLIENT, &situation)), []);
}

#[test]
fn disjoint_pairs_are_of_one_family_each() {
    let mut dialler = Dialler::new(CarrierChoice::Tcp, PairMode::Disjoint, None);
    dialler.add(CLIENT);
    let mut situation = situation(&[]);
    let v6 = |text: &str| -> SocketAddr { text.parse().unwrap() };
    situation.locals[1].address = v6("[fd00::1]:0");
    situation.remotes[1] = v6("[fd00::9]:4455");
    let steps = dialler.advance(at(0), CLIENT, &situation);
    let attempts: Vec<_> = steps
        .iter()
        .filter_map(|step| match step {
            Step::AttemptPair(from, to) => Some((from.interface, *to)),
            Step::Dial(..) | Step::Discard(_) | Step::Offer(_) | Step::Close(_) | Step::Retire(_) => None,
        })
        .collect();
    assert_eq!(attempts, [(1, remote(1)), (2, v6("[fd00::9]:4455"))], "{steps:?}");
    for (interface, to) in attempts {
        let from = situation.locals[usize::try_from(interface).unwrap() - 1];
        let took = Duration::from_millis(10);
        let mut local = from;
        local.address.set_port(70);
        assert!(dialler.on_attempted(at(50), CLIENT, (&from, to), Some((FourTuple::tcp(local, to), took))));
    }
    let steps = dialler.advance(at(100), CLIENT, &situation);
    let offered = steps.iter().filter(|step| matches!(step, Step::Offer(_))).count();
    assert_eq!((offered, steps.len()), (2, 2), "{steps:?}");
}

#[test]
fn an_interface_without_an_address_of_the_peer_for_itself_is_not_used() {
    let mut dialler = Dialler::new(CarrierChoice::Tcp, PairMode::Disjoint, None);
    dialler.add(CLIENT);
    let mut situation = situation(&[]);
    situation.remotes.truncate(1);
    let steps = dialler.advance(at(0), CLIENT, &situation);
    for step in &steps {
        let Step::AttemptPair(from, to) = step else { continue };
        let took = Duration::from_millis(u64::from(from.interface) * 10);
        dialler.on_attempted(at(50), CLIENT, (from, *to), Some((stream(from.interface, 70, 1), took)));
    }
    let steps = dialler.advance(at(100), CLIENT, &situation);
    assert_eq!(steps, [Step::Discard(stream(2, 70, 1)), Step::Offer(stream(1, 70, 1))]);
    dialler.on_used(at(100), CLIENT, stream(1, 70, 1));
    assert_eq!((dialler.advance(at(5000), CLIENT, &situation), dialler.deadline()), (vec![], None));
}

#[test]
fn tls_is_tried_where_tcp_alone_fails_and_first_where_it_worked_before() {
    let mut dialler = Dialler::new(CarrierChoice::Tcp, PairMode::LocalDisjoint, Some(443));
    dialler.add(CLIENT);
    let mut situation = situation(&[]);
    situation.locals.truncate(1);
    situation.remotes.truncate(1);
    let within = Target { remote: ([10, 9, 9, 1], 443).into(), is_tls: true };
    assert_eq!(dialler.advance(at(0), CLIENT, &situation), [dial(1, 1)]);
    dialler.on_dialled(at(0), CLIENT, (slot(1), &local(1)), None);
    assert_eq!(dialler.advance(at(250), CLIENT, &situation), [Step::Dial(slot(1), local(1), within)]);
    let mut tuple = stream(1, 50, 1);
    tuple.remote.set_port(443);
    dialler.on_dialled(at(300), CLIENT, (slot(1), &local(1)), Some(tuple));
    dialler.on_used(at(300), CLIENT, tuple);
    dialler.on_ended(at(9000), &tuple);
    assert_eq!(dialler.advance(at(9000), CLIENT, &situation), [Step::Dial(slot(1), local(1), within)]);
    dialler.on_dialled(at(9001), CLIENT, (slot(1), &local(1)), None);
    assert_eq!(dialler.advance(at(9251), CLIENT, &situation), [dial(1, 1)]);
}
