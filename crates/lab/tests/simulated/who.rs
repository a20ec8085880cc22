use manyway_lab::contender::{ExternalProgram, ManywaySettings, RouteChoice};
use manyway_lab::scenario::Library;
use manyway_lab::simulated::Simulated;
use manyway_lab::{Contender, LabError, Runner as _};

use super::{TWO, only, run, run_with};

#[test]
fn contenders_that_need_sockets_are_referred_to_the_lab() {
    let external = ExternalProgram { name: "iperf".into(), sender: "a".into(), receiver: "b".into() };
    let scenario = Library::builtin().unwrap().find("two-50").unwrap().remove(0);
    for (contender, name) in [
        (Contender::Tcp { congestion: "cubic".into(), route: RouteChoice::Best }, "kernel TCP"),
        (Contender::Possible { congestion: None }, "kernel TCP"),
        (Contender::Mptcp { congestion: "bbr".into() }, "kernel MPTCP"),
        (Contender::External(external), "iperf"),
    ] {
        for error in [
            Simulated::new().supports(&contender).unwrap_err(),
            Simulated::new().run(&scenario, &contender, 1).unwrap_err(),
        ] {
            assert!(matches!(error, LabError::Unsupported(_)));
            assert!(error.to_string().starts_with(&format!("{name} needs real sockets")), "{error}");
            assert!(error.to_string().contains("\"manyway-lab\""), "{error}");
        }
    }
}

#[test]
fn scenarios_and_contenders_that_tell_udp_from_tcp_are_referred_to_the_lab() {
    let library = Library::builtin().unwrap();
    let refused = |scenario: &str, contender: &str| {
        let scenario = library.find(scenario).unwrap().remove(0);
        let error = Simulated::new().run(&scenario, &contender.parse().unwrap(), 1).unwrap_err();
        assert!(matches!(error, LabError::Unsupported(_)));
        error.to_string()
    };
    for scenario in ["udp-blocked", "udp-blocked-one", "udp-blocked-midway"] {
        assert!(refused(scenario, "manyway:carrier=tcp").contains("\"manyway-lab\" as root"));
    }
    assert!(refused("two-50", "manyway:carrier=auto").contains("takes real sockets"));
}

#[test]
fn an_unknown_scheduler_is_refused_with_the_known_ones() {
    let scenario = Library::builtin().unwrap().find("two-50").unwrap().remove(0);
    let settings = ManywaySettings { scheduler: Some("magic".into()), ..ManywaySettings::default() };
    let error = Simulated::new().run(&scenario, &Contender::Manyway(settings), 1).unwrap_err();
    assert!(error.to_string().contains("round-robin"), "{error}");
    let error = Simulated::new().run(&scenario, &Contender::Manyway(only(2)), 1).unwrap_err();
    assert_eq!(error.to_string(), "two-50 has 2 routes, not 3");
}

#[test]
fn a_link_with_a_cost_carries_what_the_free_one_cannot() {
    let text = "duration = '5s'\n[links.a]\nrate = '10M'\nrtt = '40ms'\n[links.b]\nrate = '10M'\nrtt = '20ms'\n\
        [client.a]\n[client.b]\ncost = 1\n[[traffic]]\nbulk = 'up'\nrate = '5M'\n";
    let cost = || ManywaySettings { scheduler: Some("cost".into()), ..ManywaySettings::default() };
    let on_b = |text: &str| run_with(text, cost()).routes[1].up.total().get();
    assert!(on_b(text) < 50_000, "{}", on_b(text));
    let free = text.replace("cost = 1\n", "");
    assert!(on_b(&free) > 2_000_000, "{}", on_b(&free));
}

#[test]
fn a_mesh_has_as_many_paths_as_the_client_has_interfaces() {
    let scenario = Library::builtin().unwrap().find("ams-mesh").unwrap().remove(0);
    let scenario = scenario.with_duration(std::time::Duration::from_secs(1));
    let outcome =
        Simulated::new().run(&scenario, &Contender::Manyway(ManywaySettings::default()), 1).unwrap();
    assert_eq!((outcome.failure, outcome.remarks), (None, Vec::new()));
}

#[test]
fn a_single_route_has_its_place_among_the_totals() {
    let short = format!("duration = '500ms'\n{TWO}");
    let outcome = run_with(&short, only(1));
    assert_eq!(outcome.routes.len(), 2);
    assert_eq!(outcome.routes[0].up.total().get(), 0);
    assert!(outcome.routes[1].up.total() > outcome.flows[0].arrivals.total());
    let best = ManywaySettings { routes: RouteChoice::Best, ..ManywaySettings::default() };
    assert_eq!(run_with(&short, best).routes[1].up.total().get(), 0);
}

#[test]
fn scheduler_and_congestion_control_make_a_difference() {
    // Less than the first route carries, over a second one that is slower.
    let text = "duration = '3s'\n[links.a]\nrate = '10M'\nrtt = '20ms'\n[links.b]\nrate = '10M'\nrtt = '80ms'\n\
        [[traffic]]\nbulk = 'up'\nrate = '2M'\n";
    let with = |scheduler: &str, congestion: &str| {
        let (scheduler, congestion) = (Some(scheduler.into()), Some(congestion.into()));
        run_with(text, ManywaySettings { scheduler, congestion, ..ManywaySettings::default() })
    };
    assert!(with("earliest", "bbr") == run(text), "the defaults");
    let second = |scheduler| with(scheduler, "cubic").routes[1].up.total();
    assert!(second("round-robin") > second("min-rtt") * 3);
    let full = text.replace("rate = '2M'\n", "");
    let settings = |congestion: &str| ManywaySettings {
        congestion: Some(congestion.into()),
        ..ManywaySettings::default()
    };
    assert!(run_with(&full, settings("new-reno")) != run_with(&full, settings("cubic")));
}
