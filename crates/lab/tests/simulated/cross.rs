use std::time::Duration;

use manyway_lab::measures::Measures;
use manyway_lab::simulated::Simulated;
use manyway_lab::{Contender, Outcome, Runner as _, Scenario};
use manyway_proto::Rate;

use super::run;

fn mbit(rate: Rate) -> f64 {
    rate.bits_per_second() as f64 * 1e-6
}

fn scenario(text: &str) -> Scenario {
    Scenario::parse("mine.toml", text, &|_| Err(std::io::ErrorKind::NotFound.into())).unwrap()
}

fn figures(text: &str, outcome: &Outcome) -> Measures {
    Measures::of(&scenario(text), outcome)
}

const ONE: &str = "[links.a]\nrate = '10M'\nrtt = '40ms'\nqueue = '40ms'\n";

#[test]
fn others_take_a_share_of_the_link_for_their_time() {
    for way in ["up", "down"] {
        let text = format!(
            "duration = '12s'\n{ONE}[[traffic]]\nbulk = '{way}'\n\
             [[traffic]]\nby = 'tcp-cubic'\ncount = 2\nat = '2s'\nfor = '8s'\n"
        );
        let outcome = run(&text);
        let measures = figures(&text, &outcome);
        let [others] = measures.cross.as_slice() else { panic!("{:?}", measures.cross) };
        let (goodput, beside) = (mbit(others.goodput), mbit(others.beside));
        assert!(
            goodput > 0.5 && beside > 1.0 && goodput + beside > 8.5 && goodput + beside < 9.7,
            "{others:?}"
        );
        assert!(others.slowest <= others.fastest && others.fastest < others.goodput, "{others:?}");
        // Before and after it the link is that of the contender.
        let seconds = Duration::from_secs;
        let arrivals = &outcome.flows[0].arrivals;
        assert!(mbit(arrivals.rate(seconds(1), seconds(2))) > 9.0);
        assert!(mbit(arrivals.rate(seconds(11), seconds(12))) > 8.5);
        assert!(outcome.cross[0].span().unwrap().0 >= seconds(2));
    }
}

#[test]
fn datagrams_of_others_keep_their_rate_behind_a_translator_too() {
    for direction in ["up", "down"] {
        let text = format!(
            "duration = '5s'\n{ONE}[client.a]\nnat = {{}}\n[[traffic]]\nbulk = 'up'\nrate = '1M'\n\
             [[traffic]]\nby = 'udp'\nrate = '4M'\ndirection = '{direction}'\npacket = 1000\n"
        );
        let measures = figures(&text, &run(&text));
        // 972 of 1000 bytes are payload.
        let rate = mbit(measures.cross[0].goodput);
        assert!((3.8..3.9).contains(&rate), "{direction}: {rate}");
    }
}

#[test]
fn a_route_of_others_shares_its_links_and_no_contender_uses_it() {
    let text = "duration = '8s'\nroutes = [{ client = 'home', server = 'video', links = ['shared', 'near'] },\n\
         { client = 'home', server = 'other', links = ['shared', 'far'] }]\n\
         [links.shared]\nrate = '6M'\nrtt = '20ms'\n[links.near]\nrate = '6M'\nrtt = '20ms'\n\
         [links.far]\nrate = '6M'\nrtt = '40ms'\n[server.video]\n[server.other]\nothers = true\n\
         [[traffic]]\nbulk = 'down'\n[[traffic]]\nby = 'udp'\nroute = 'home-other'\nrate = '4M'\n";
    let outcome = run(text);
    let measures = figures(text, &outcome);
    assert_eq!(outcome.routes.len(), 1);
    let (others, own) = (mbit(measures.cross[0].goodput), mbit(measures.cross[0].beside));
    assert!(others > 2.5 && own > 1.5 && others + own < 5.9, "{others} {own}");
    assert!(outcome.remarks.is_empty(), "{:?}", outcome.remarks);
}

#[test]
fn a_single_route_meets_the_same_traffic_of_others() {
    let text = "duration = '5s'\nroutes = [{ client = 'a', links = ['one', 'cell'] }, { client = 'b', links = ['two', 'cell'] }]\n\
        [links.one]\nrate = '9M'\nrtt = '10ms'\n[links.two]\nrate = '9M'\nrtt = '10ms'\n\
        [links.cell]\nrate = '10M'\nrtt = '20ms'\n\
        [[traffic]]\nby = 'udp'\nroute = 'a'\nrate = '5M'\n";
    for contender in ["manyway", "manyway@1", "manyway@2"] {
        let contender: Contender = contender.parse().unwrap();
        let outcome = Simulated::new().run(&scenario(text), &contender, 7).unwrap();
        let measures = figures(text, &outcome);
        let (others, own) = (mbit(measures.cross[0].goodput), mbit(measures.cross[0].beside));
        assert!(others > 3.0 && own > 3.0 && others + own < 9.8, "{contender}: {others} {own}");
    }
}

#[test]
fn the_dumb_bell_of_figure_8_2_is_the_same_twice() {
    let scenario = manyway_lab::scenario::Library::builtin().unwrap().find("multitcp-82").unwrap().remove(0);
    let scenario = scenario.with_duration(Duration::from_secs(50));
    let run = || Simulated::new().run(&scenario, &"manyway".parse().unwrap(), 3).unwrap();
    let outcome = run();
    assert_eq!(outcome.failure, None);
    assert_eq!(outcome, run());
    let measures = Measures::of(&scenario, &outcome);
    let cross: Vec<f64> = measures.cross.iter().map(|one| mbit(one.goodput)).collect();
    assert!(cross[0] > 4.5 && cross[2] > 2.5 && cross[3] > 0.5, "{cross:?}");
}
