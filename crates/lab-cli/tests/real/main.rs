//! Contenders on real sockets, in network namespaces over emulated links: needs root.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test may fail and tell"
)]

mod cpu;
mod programs;
mod turn;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use manyway_lab::outcome::Outcome;
use manyway_lab::real::Real;
use manyway_lab::scenario::{
    Change, Checksum, CrossTraffic, Direction, Ending, Event, Interface, Link, Route, Side, Traffic,
};
use manyway_lab::{Contender, LabError, Runner, Scenario};
use manyway_proto::{ByteCount, Rate};
use manyway_sim::CrossKind;
use manyway_sim::link::{LinkConfig, RateModel};
use manyway_sim::nightly::few_or_many;
use manyway_sim::skipped::{skip, skip_optional, tell_skipped};

use turn::{AT_ONCE, Turn};

#[test]
fn contenders_on_all_routes_use_all_of_them() {
    let Some(mut lab) = Lab::start() else { return };
    for name in ["manyway", "possible", "mptcp-cubic", "mptcp-bbr"] {
        let outcome = lab.run(&two_paths(Direction::Up), name);
        lab.check(name, &outcome, 12..=40);
        for (route, totals) in outcome.routes.iter().enumerate() {
            let bytes = totals.up.total().get();
            assert!(bytes > 300_000, "{name}: route {route} carried {bytes} bytes");
        }
    }
}

#[test]
fn contenders_at_the_same_time_share_the_links() {
    let Some(mut lab) = Lab::start() else { return };
    let named =
        |names: &[&str]| -> Vec<Contender> { names.iter().map(|name| name.parse().unwrap()).collect() };
    let scenario = two_paths(Direction::Up);
    let outcomes = lab.real.run_together(&scenario, &named(&["manyway", "possible", "manyway"]), 1).unwrap();
    for outcome in &outcomes {
        // Alone each of them has more than 36 of the 40 Mbit/s.
        let megabits = outcome.flows[0].arrivals.goodput().bits_per_second() / 1_000_000;
        assert!(outcome.failure.is_none() && (1..32).contains(&megabits), "{megabits} {:?}", outcome.failure);
    }
    let error = lab.real.run_together(&scenario, &named(&["mptcp-cubic", "mptcp-bbr"]), 1).unwrap_err();
    assert!(error.to_string().contains("at the same time"), "{error}");
}

#[test]
fn traffic_from_the_server_uses_all_routes_too() {
    let Some(mut lab) = Lab::start() else { return };
    for name in ["manyway", "possible-bbr", "mptcp-cubic"] {
        let outcome = lab.run(&two_paths(Direction::Down), name);
        lab.check(name, &outcome, 12..=40);
        assert_eq!(outcome.flows[0].receiver, Side::Client);
        assert!(outcome.routes.iter().all(|route| route.down.total().get() > 300_000), "{name}");
    }
}

#[test]
fn a_contender_on_one_route_uses_that_alone() {
    let Some(mut lab) = Lab::start() else { return };
    for (name, used) in [("tcp-cubic", 0), ("tcp-bbr@2", 1), ("manyway-best", 0), ("manyway@2", 1)] {
        let outcome = lab.run(&two_paths(Direction::Up), name);
        lab.check(name, &outcome, 6..=20);
        let carried: Vec<u64> = outcome.routes.iter().map(|route| route.up.total().get()).collect();
        assert!(carried[used] > 600_000 && carried[1 - used] < 10_000, "{name}: {carried:?}");
    }
}

#[test]
fn every_address_of_the_server_is_found() {
    let Some(mut lab) = Lab::start() else { return };
    for name in ["manyway", "possible", "mptcp-cubic"] {
        let outcome = lab.run(&mesh(), name);
        lab.check(name, &outcome, 12..=80);
        let carried: Vec<u64> = outcome.routes.iter().map(|route| route.up.total().get()).collect();
        let routes = carried.iter().filter(|bytes| **bytes > 100_000).count();
        // Manyway has one path for each interface of the client (spec 6.4).
        assert_eq!(routes, if name == "manyway" { 2 } else { 4 }, "{name}: {carried:?}");
        assert!(
            carried[0] + carried[1] > 100_000 && carried[2] + carried[3] > 100_000,
            "{name}: {carried:?}"
        );
    }
}

#[test]
fn messages_beside_bulk_have_latencies() {
    let Some(mut lab) = Lab::start() else { return };
    let mut scenario = two_paths(Direction::Both);
    let (size, interval) = (ByteCount(100), Duration::from_millis(20));
    scenario.traffic.push(Traffic::Messages { direction: Direction::Down, size, interval, lifetime: None });
    for name in ["manyway", "tcp-cubic", "possible", "mptcp-cubic"] {
        let outcome = lab.run(&scenario, name);
        assert_eq!(outcome.failure, None, "{name}");
        let receivers: Vec<Side> = outcome.flows.iter().map(|flow| flow.receiver).collect();
        assert_eq!(receivers, [Side::Server, Side::Client, Side::Client], "{name}");
        let messages = &outcome.flows[2];
        let latencies = messages.latencies.as_ref().unwrap();
        let sent = u64::try_from(latencies.len()).unwrap() + messages.missing;
        assert!((49..=51).contains(&sent) && messages.missing < 10, "{name}: {sent}, {}", messages.missing);
        assert!(
            latencies.iter().all(|latency| *latency >= Duration::from_millis(5)),
            "{name}: {latencies:?}"
        );
    }
}

/// Manyway abandons expired messages, so no message waits for them; a stream of the kernel delivers everything, late.
#[test]
fn messages_with_a_lifetime_are_not_late_during_an_outage() {
    let Some(mut lab) = Lab::start() else { return };
    let mut scenario = two_paths(Direction::Up);
    let (size, interval) = (ByteCount(300), Duration::from_millis(10));
    let lifetime = Some(Duration::from_millis(50));
    scenario.traffic = vec![Traffic::Messages { direction: Direction::Up, size, interval, lifetime }];
    let cut = |link| Event {
        at: Duration::from_millis(300),
        change: Change::Cut { link, direction: Direction::Both },
    };
    let restore = |link| Event {
        at: Duration::from_millis(500),
        change: Change::Restore { link, direction: Direction::Both },
    };
    scenario.events = vec![cut(0), cut(1), restore(0), restore(1)];
    let mut latest = |name: &str| {
        let outcome = lab.run(&scenario, name);
        assert_eq!(outcome.failure, None, "{name}");
        let messages = &outcome.flows[0];
        let latencies = messages.latencies.clone().unwrap();
        assert!(latencies.len() >= 50, "{name}: {}", latencies.len());
        (latencies.into_iter().max().unwrap(), messages.missing)
    };
    let (late, missing) = latest("manyway");
    assert!(missing >= 5 && late < Duration::from_millis(150), "{missing} {late:?}");
    let (late, missing) = latest("tcp-cubic");
    assert!(missing == 0 && late > Duration::from_millis(150), "{missing} {late:?}");
}

#[test]
fn bulk_of_a_size_ends_when_all_has_arrived() {
    let Some(mut lab) = Lab::start() else { return };
    let mut scenario = two_paths(Direction::Up);
    scenario.traffic = vec![Traffic::Bulk {
        direction: Direction::Up,
        size: Some(ByteCount(2_000_000)),
        rate: None,
        chunk: None,
    }];
    for name in ["manyway", "possible"] {
        let outcome = lab.run(&scenario, name);
        assert_eq!(outcome.failure, None, "{name}");
        assert_eq!(outcome.flows[0].arrivals.total(), ByteCount(2_000_000), "{name}");
    }
}

#[test]
fn the_congestion_control_applies_to_every_subflow() {
    let Some(mut lab) = Lab::alone() else { return };
    for congestion in ["cubic", "bbr"] {
        let looking = std::thread::spawn(|| {
            let text = wait_for(|| {
                let text = ip(&["netns", "exec", &namespace('c')?, "ss", "-tinH", "state", "established"])?;
                let details = text.lines().filter(|line| line.starts_with(char::is_whitespace));
                // Data flows on both.
                (details.filter(|line| line.contains("bytes_acked")).count() >= 2).then_some(text)
            });
            text.lines()
                .filter(|line| line.starts_with(char::is_whitespace))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        });
        let outcome = lab.run(&two_paths(Direction::Up), &format!("mptcp-{congestion}"));
        assert_eq!(outcome.failure, None);
        // Remarks about the load of the machine are ignored here.
        let concerned = |remark: &&String| remark.contains("subflow") || remark.contains("route");
        assert_eq!(outcome.remarks.iter().find(concerned), None);
        for line in looking.join().unwrap() {
            assert!(line.split_whitespace().any(|word| word == congestion), "{line}");
        }
    }
}

#[test]
fn an_outage_shows_as_a_silence() {
    let Some(mut lab) = Lab::start() else { return };
    let mut scenario = two_paths(Direction::Up).with_duration(Duration::from_secs(2));
    let at = |millis, change| Event { at: Duration::from_millis(millis), change };
    let direction = Direction::Both;
    scenario.events = (0..2).map(|link| at(600, Change::Cut { link, direction })).collect();
    scenario.events.extend((0..2).map(|link| at(1000, Change::Restore { link, direction })));
    let outcome = lab.run(&scenario, "manyway");
    assert_eq!(outcome.failure, None);
    let silence = outcome.flows[0].arrivals.longest_silence().unwrap();
    assert!(silence.length >= Duration::from_millis(350), "{silence:?}");
    assert!((500..800).contains(&silence.from.as_millis()), "{silence:?}");
}

#[test]
fn the_first_route_is_the_primary_path_also_if_another_is_better_and_answers_sooner() {
    let Some(mut lab) = Lab::start() else { return };
    let mut scenario = two_paths(Direction::Up);
    let first = &mut scenario.links[0];
    first.up.delay.base = Duration::from_millis(40);
    first.down.delay.base = Duration::from_millis(40);
    let half = RateModel::Fixed(Rate::from_bits_per_second(10_000_000));
    (first.up.rate, first.down.rate) = (half.clone(), half);
    let outcome = lab.run(&scenario, "manyway:wire=mmsp1");
    assert_eq!(outcome.failure, None);
    let carried: Vec<u64> = outcome.routes.iter().map(|route| route.up.total().get()).collect();
    assert!(carried[0] > 10 * carried[1], "{carried:?}");
}

#[test]
fn a_connection_that_loses_all_paths_ends_at_both_ends_on_sockets() {
    let Some(mut lab) = Lab::start() else { return };
    let mut scenario = two_paths(Direction::Up).with_duration(Duration::from_secs(1));
    scenario.ending = Ending::NoPath(Duration::from_millis(500));
    // An end that only receives needs longer.
    scenario.traffic.push(Traffic::Messages {
        direction: Direction::Down,
        size: ByteCount(100),
        interval: Duration::from_millis(20),
        lifetime: None,
    });
    let cut = |link| Event {
        at: Duration::from_millis(500),
        change: Change::Cut { link, direction: Direction::Both },
    };
    scenario.events = (0..2).map(cut).collect();
    let outcome = lab.run(&scenario, "manyway:wire=mmsp1,detection=fast");
    assert_eq!(outcome.failure, None);
    assert_eq!(outcome.ended.len(), 2, "{:?}", outcome.ended);
    assert!(outcome.ended.iter().all(|at| *at >= Duration::from_secs(1)), "{:?}", outcome.ended);
}

/// Connections and datagrams of a program that knows nothing of Manyway, over two links at once. By day by one verb: the
/// others have the same sockets.
#[test]
fn verbs_of_manyway_carry_a_program_over_all_routes() {
    let Some(mut lab) = Lab::start() else { return };
    let mut scenario = two_paths(Direction::Down);
    let (size, interval) = (ByteCount(160), Duration::from_millis(20));
    let lifetime = Some(Duration::from_millis(500));
    scenario.traffic.push(Traffic::Messages { direction: Direction::Both, size, interval, lifetime });
    for name in few_or_many(&["run"][..], &["run", "forward", "tunnel", "tunnel:flows=4"]) {
        let Some(outcome) = lab.run_if_built(&scenario, name) else { return };
        assert_eq!(outcome.failure, None, "{name}");
        let [download, up, down] = outcome.flows.as_slice() else { panic!("{:?}", outcome.flows) };
        assert!(download.arrivals.goodput().bits_per_second() > 22_000_000, "{name}: {outcome:?}");
        for call in [up, down] {
            let arrived = call.latencies.as_ref().unwrap().len();
            assert!(arrived > 30 && call.overtaken < 5, "{name}: {arrived} and {}", call.overtaken);
        }
        assert!(outcome.routes.iter().all(|route| route.down.total().get() > 300_000), "{name}");
    }
    let download = two_paths(Direction::Down);
    for name in few_or_many(&[][..], &["proxy", "proxy:program=curl", "run:program=iperf3"]) {
        let Some(outcome) = lab.run_if_built(&download, name) else { continue };
        assert_eq!(outcome.failure, None, "{name}");
        assert!(outcome.flows[0].arrivals.goodput().bits_per_second() > 22_000_000, "{name}: {outcome:?}");
    }
}

#[test]
fn programs_are_contenders_by_address_and_port() {
    let Some(mut lab) = Lab::start() else { return };
    // Common tools that need nothing else at either end.
    let tools = [
        ("nc", "nc;nc -N {remote} {port};nc -l {local} {port}"),
        ("socat", "socat;socat -u - TCP:{remote}:{port};socat -u TCP-LISTEN:{port},bind={local} -"),
        (
            "python3",
            "python%exec python3 -c 'import shutil, socket, sys; s = socket.create_connection((\"{remote}\", {port})); \
             shutil.copyfileobj(sys.stdin.buffer, s.makefile(\"wb\", 0), 65536)'\
             %exec python3 -c 'import shutil, socket, sys; s = socket.create_server((\"{local}\", {port})).accept()[0]; \
             shutil.copyfileobj(s.makefile(\"rb\", 0), sys.stdout.buffer, 65536)'",
        ),
        (
            "perl",
            "perl%exec perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(\"{remote}:{port}\") or die $!; \
             while (sysread(STDIN, $b, 65536)) { syswrite($s, $b) }'\
             %exec perl -MIO::Socket::INET -e '$l = IO::Socket::INET->new(LocalAddr => \"{local}:{port}\", Listen => 1) \
             or die $!; $s = $l->accept; while (sysread($s, $b, 65536)) { syswrite(STDOUT, $b) }'",
        ),
    ];
    // By day one is enough: what differs between them is theirs.
    for (tool, commands) in tools.into_iter().take(few_or_many(1, tools.len())) {
        if !Command::new("sh").args(["-c", &format!("command -v {tool}")]).output().unwrap().status.success()
        {
            skip_optional(format!("there is no {tool}"));
            continue;
        }
        for direction in [Direction::Up, Direction::Down] {
            let program = Contender::External(commands.parse().unwrap());
            let outcome = lab.real.run(&two_paths(direction), &program, 1).unwrap();
            // One connection over the first of two routes.
            lab.check(tool, &outcome, 8..=20);
            let carried = |route: usize| {
                let totals = &outcome.routes[route];
                totals.up.total().get().max(totals.down.total().get())
            };
            assert!(carried(0) > 600_000 && carried(1) < 10_000, "{tool}: {} {}", carried(0), carried(1));
        }
    }
}

#[test]
fn a_failed_program_is_an_outcome() {
    let Some(mut lab) = Lab::start() else { return };
    for (commands, reason) in [
        ("absent;no-such-program;sleep 5", "no-such-program"),
        ("hasty;cat > /dev/null;exit 4", "exit status: 4"),
        ("deaf;sleep 100;sleep 100", "nothing arrived at the server"),
    ] {
        let program = commands.parse().unwrap();
        let before = Instant::now();
        let scenario = beside_others(two_paths(Direction::Up));
        let outcome = lab.real.run(&scenario, &Contender::External(program), 1).unwrap();
        let failure = outcome.failure.unwrap();
        assert!(failure.contains(reason), "{commands}: {failure}");
        assert!(before.elapsed() < Duration::from_secs(30), "{commands} took {:?}", before.elapsed());
    }
}

#[test]
fn a_killed_server_is_an_outcome() {
    let Some(mut lab) = Lab::alone() else { return };
    let scenario = two_paths(Direction::Up).with_duration(Duration::from_secs(20));
    let killing = std::thread::spawn(|| {
        let server = wait_for(|| {
            let (client, server) = (agent('c')?, agent('s')?);
            (!client.is_empty()).then_some(server)
        });
        assert!(Command::new("kill").args(["-s", "KILL", &server]).status().unwrap().success());
    });
    let before = Instant::now();
    let outcome = lab.run(&scenario, "manyway");
    killing.join().unwrap();
    let failure = outcome.failure.unwrap();
    assert!(failure.contains("the agent of the server ended with signal: 9"), "{failure}");
    assert!(before.elapsed() < Duration::from_secs(40), "{:?}", before.elapsed());
}

#[test]
fn a_stop_request_ends_a_run_and_leaves_nothing_behind() {
    let Some(mut lab) = Lab::alone() else { return };
    let stop = lab.real.stop();
    let stopping = std::thread::spawn(move || {
        wait_for(|| agent('c'));
        stop.set();
    });
    let scenario = beside_others(two_paths(Direction::Up).with_duration(Duration::from_secs(60)));
    let result = lab.real.run(&scenario, &"tcp-cubic".parse().unwrap(), 1);
    stopping.join().unwrap();
    assert!(matches!(result, Err(LabError::Interrupted)), "{result:?}");
    assert_eq!((namespace('c'), namespace('s')), (None, None));
}

#[test]
fn missing_features_of_the_system_are_reported() {
    let Some(lab) = Lab::start() else { return };
    for name in ["tcp-vegetarian", "possible-vegetarian", "mptcp-vegetarian"] {
        let error = lab.real.supports(&name.parse().unwrap()).unwrap_err();
        assert!(matches!(error, LabError::Unsupported(_)));
        let text = error.to_string();
        assert!(text.contains(name) && text.contains("modprobe tcp_vegetarian"), "{text}");
    }
}

/// The runner.
struct Lab {
    real: Real,
    _turn: Turn,
}

impl Lab {
    /// Creates a runner, or prints why that is impossible.
    fn start() -> Option<Self> {
        Self::start_with(Turn::wait(1))
    }

    /// As [`Self::start`], for a test that looks at the hosts or processes of its run.
    fn alone() -> Option<Self> {
        Self::start_with(Turn::wait(AT_ONCE))
    }

    fn start_with(turn: Turn) -> Option<Self> {
        match Real::new(program()) {
            Ok(real) => Some(Self { real, _turn: turn }),
            Err(reason) => {
                skip(reason);
                None
            }
        }
    }

    #[track_caller]
    fn run(&mut self, scenario: &Scenario, contender: &str) -> Outcome {
        match self.real.run(scenario, &contender.parse().unwrap(), 1) {
            Ok(outcome) => outcome,
            Err(error) => panic!("{contender}: {error}"),
        }
    }

    /// As [`Self::run`], or counts the test as skipped for a missing program.
    #[track_caller]
    fn run_if_built(&mut self, scenario: &Scenario, contender: &str) -> Option<Outcome> {
        if let Err(reason) = self.real.supports(&contender.parse().unwrap()) {
            skip_optional(reason);
            return None;
        }
        Some(self.run(scenario, contender))
    }

    /// Returns the megabits of bulk, after checking what holds for any outcome.
    #[track_caller]
    fn check(&self, name: &str, outcome: &Outcome, megabits: std::ops::RangeInclusive<u64>) {
        assert_eq!(outcome.failure, None, "{name}");
        let goodput = outcome.flows[0].arrivals.goodput().bits_per_second() / 1_000_000;
        assert!(megabits.contains(&goodput), "{name}: {goodput} Mbit/s, {:?}", outcome.remarks);
        let cpu = outcome.cpu.unwrap();
        assert!(cpu.client > Duration::ZERO && cpu.server > Duration::ZERO, "{name}: {cpu:?}");
        println!("{name}: {goodput} Mbit/s {cpu:?} {:?}", outcome.remarks);
    }
}

fn program() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_manyway-lab")).to_owned()
}

/// One second of bulk over two paths of 20 Mbit/s and 10 ms each way.
fn two_paths(direction: Direction) -> Scenario {
    scenario(&["near", "far"], &["core"], direction)
}

/// The same with traffic of others until the end of the run.
fn beside_others(mut scenario: Scenario) -> Scenario {
    let entry = |kind| CrossTraffic {
        kind,
        count: 2,
        route: 0,
        at: Duration::ZERO,
        lasts: None,
        direction: Direction::Up,
        packet: 1500,
    };
    let rate = Rate::from_bits_per_second(1_000_000);
    scenario.cross_traffic = vec![entry(CrossKind::Cubic), entry(CrossKind::Udp(rate))];
    scenario
}

/// Two interfaces at either end, each with a link to each.
fn mesh() -> Scenario {
    scenario(&["near", "far"], &["core", "edge"], Direction::Up)
}

fn scenario(client: &[&str], server: &[&str], direction: Direction) -> Scenario {
    let interface = |name: &&str| Interface {
        name: (*name).to_owned(),
        addresses: Vec::new(),
        mtu: 1500,
        nat: None,
        cost: 0,
        is_for_others: false,
        tcp_packet: None,
        starts_down: false,
    };
    let mut config = LinkConfig::new(Rate::from_bits_per_second(20_000_000), Duration::from_millis(10));
    config.overhead = 0;
    let (mut links, mut routes) = (Vec::new(), Vec::new());
    for (here, near) in client.iter().enumerate() {
        for (there, far) in server.iter().enumerate() {
            let name = format!("{near}-{far}");
            let (up, down) = (config.clone(), config.clone());
            routes.push(Route {
                name: name.clone(),
                client: here,
                server: there,
                links: vec![links.len()],
                shares: Vec::new(),
            });
            links.push(Link { name, up, down, checksum: Checksum::Stale });
        }
    }
    Scenario {
        name: "small".to_owned(),
        title: "for tests".to_owned(),
        group: "tests".to_owned(),
        source: String::new(),
        duration: Duration::from_secs(1),
        client: client.iter().map(interface).collect(),
        server: server.iter().map(interface).collect(),
        links,
        routes,
        cross_routes: Vec::new(),
        traffic: vec![Traffic::Bulk { direction, size: None, rate: None, chunk: None }],
        cross_traffic: Vec::new(),
        events: Vec::new(),
        ending: Ending::Complete,
        damage: None,
    }
}

/// The namespace that this test program has created for a side, if there is one.
fn namespace(side: char) -> Option<String> {
    let prefix = format!("mwlab{}.", std::process::id());
    let list = ip(&["netns", "list"])?;
    let mut names = list.lines().filter_map(|line| line.split_whitespace().next());
    names.find(|name| name.starts_with(&prefix) && name.ends_with(side)).map(str::to_owned)
}

/// The agent that runs at a side now.
fn agent(side: char) -> Option<String> {
    let processes = ip(&["netns", "pids", &namespace(side)?])?;
    let is_agent = |process: &&str| {
        let words = std::fs::read(Path::new("/proc").join(process).join("cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|word| word == b"lab-agent") && !words.starts_with(b"ip\0")
    };
    processes.split_whitespace().find(is_agent).map(str::to_owned)
}

fn ip(arguments: &[&str]) -> Option<String> {
    let output = Command::new("ip").args(arguments).output().unwrap();
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Waits for a value to appear.
#[track_caller]
fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "waited in vain");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Tests begin in the order of their names.
#[test]
fn zz_tests_that_were_skipped_are_counted() {
    tell_skipped();
}
