//! Questions to a user at a terminal.

use super::place::{Place, Side};
use crate::common::terminal::AtTerminal;

fn start(place: &Place, arguments: &[&str]) -> AtTerminal {
    let mut asked = AtTerminal::start(place.command(Side::Client, arguments));
    asked.read_until("(yes/no) ");
    asked
}

fn answer(place: &Place, arguments: &[&str], answer: &str) -> (Option<i32>, String) {
    let mut asked = start(place, arguments);
    asked.write(answer);
    asked.end()
}

#[test]
fn the_key_of_an_unknown_server_is_shown_and_asked_about_once() {
    let place = Place::new();
    place.add_ticket("default", &[]);
    place.server_keys(&["add", "client", "laptop", &place.key(Side::Client)]).expect(0);
    let server = place.serve(&[]);
    let address = server.listening();
    let key = place.key(Side::Server);
    let bench = ["bench", "-n", "1", &address];
    for refusal in ["no\n", "\n", "y\n"] {
        let (code, shown) = answer(&place, &bench, refusal);
        assert_eq!(code, Some(3), "{shown}");
        assert!(shown.contains(&key) && shown.contains("is not trusted"), "{shown}");
    }
    let (code, shown) = answer(&place, &bench, "yes\n");
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("is known from now on"), "{shown}");
    place.client(&["-q", "bench", "-n", "1", &address]).expect(0);
}

#[test]
fn ctrl_c_ends_the_question() {
    let place = Place::new();
    let server = place.serve(&[]);
    let address = server.listening();
    let asked = start(&place, &["bench", "-n", "1", &address]);
    let id = asked.id().to_string();
    assert!(std::process::Command::new("kill").args(["-s", "INT", &id]).status().unwrap().success());
    assert_eq!(asked.end().0, Some(130));
}
