//! Codes that people can say: `send` and `get` by way of a rendezvous server.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

use crate::common::place::Place;
use crate::common::program::{Running, assert_same_content, make_file};

/// A rendezvous server, and its address.
fn meeting(place: &Place) -> (Running, String) {
    let meeting = place.start(&["--json", "rendezvous", "--listen", "127.0.0.1:0"]);
    let mut address = None;
    meeting.wait_until("its address", || {
        let facts = meeting.printed().lines().next().and_then(|line| serde_json::from_str(line).ok());
        let facts: Option<serde_json::Value> = facts;
        address = facts.and_then(|facts| facts["listening"][0].as_str().map(str::to_owned));
        address.is_some()
    });
    (meeting, address.unwrap())
}

/// Offers a file, and waits for the code.
fn offer(place: &Place, arguments: &[&str]) -> (Running, String) {
    let offer = place.start(&[&["send", "file"], arguments].concat());
    let mut code = None;
    offer.wait_until("the code", || {
        code = offer.printed().lines().next().map(str::to_owned);
        code.is_some()
    });
    (offer, code.unwrap())
}

#[test]
fn a_file_goes_to_the_one_who_has_the_code_and_once() {
    let place = Place::new();
    make_file(&place.here().join("file"), 100_000);
    let (meeting, meet) = meeting(&place);
    let option = ["--rendezvous", &meet];
    let (sender, code) = offer(&place, &option);
    assert!(code.starts_with("1-") && code.split('-').count() == 3, "{code}");
    sender.wait_for(&format!("manyway get {code} --rendezvous {meet}"));
    place.run(&["get", &code]).expect(2).says("--rendezvous HOST");
    place.run(&["get", &code, "-o", "back/", option[0], option[1]]).expect(0);
    sender.end().expect(0);
    assert_same_content(&place.here().join("file"), &place.here().join("back/file"));
    place.run(&["get", &code, option[0], option[1]]).expect(3).says("no code of that number");
    meeting.signal("INT");
    let counted = meeting.end().expect(0).summary();
    assert_eq!(counted["refused"], 0, "{counted}");
}

#[test]
fn one_wrong_word_or_ctrl_c_makes_a_code_void() {
    let place = Place::new();
    make_file(&place.here().join("file"), 10);
    let (_meeting, meet) = meeting(&place);
    let option = ["--rendezvous", &meet];
    let (sender, line) = offer(&place, &["--json", option[0], option[1]]);
    let code: serde_json::Value = serde_json::from_str(&line).unwrap();
    let code = code["code"].as_str().unwrap();
    let last = code.rsplit('-').next().unwrap();
    let wrong = code.replace(last, if last == "abbey" { "absent" } else { "abbey" });
    place.run(&["get", &wrong, option[0], option[1]]).expect(3).says("another code");
    sender.end().expect(3);
    let (sender, code) = offer(&place, &option);
    sender.signal("INT");
    sender.end().expect(130);
    place.run(&["get", &code, option[0], option[1]]).expect(3).says("no code of that number");
}

#[test]
fn without_its_rendezvous_server_send_prints_a_long_code() {
    let place = Place::new();
    make_file(&place.here().join("file"), 10);
    // Nothing listens at this port, which a moment ago was free.
    let closed = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let (sender, code) = offer(&place, &["--rendezvous", &closed]);
    assert!(code.starts_with("mw1"), "{code}");
    sender.wait_for("no short code: no rendezvous server answers");
    sender.signal("INT");
    sender.end();
}
