//! `manyway play` with curl as the player.
#![cfg(unix)]

use crate::common::place::Place;
use crate::common::program::{have, make_file};

#[test]
fn a_player_is_started_with_the_url_of_a_film_and_gets_any_part_of_it() {
    if !have(&[("curl", "--version")]) {
        return;
    }
    let place = Place::new();
    std::fs::create_dir(place.there().join("films")).unwrap();
    make_file(&place.there().join("films/a film.avi"), 3_000_001);
    let server = place.serve(&["--read-only"]);
    let ticket = server.ticket.as_str();
    let play = |path: &str, player: &[&str]| {
        place.run(&[&["play", ticket, path, "--report", "report.svg", "--"], player].concat())
    };
    let ended = play("films/a film.avi", &["curl", "-sSf", "-r", "2000000-2999999", "-o", "part"]).expect(0);
    let film = std::fs::read(place.there().join("films/a film.avi")).unwrap();
    assert!(std::fs::read(place.here().join("part")).unwrap() == film[2_000_000..3_000_000]);
    assert!(
        ended.out.contains("/films/a%20film.avi\nfilms/a film.avi: 976.5 KiB, start-up"),
        "{}",
        ended.out
    );
    assert!(std::fs::read_to_string(place.here().join("report.svg")).unwrap().contains("rate, Mbit/s"));

    play("films/", &["curl", "-sSf", "-o", "page"]).expect(0);
    assert!(std::fs::read_to_string(place.here().join("page")).unwrap().contains("/films/a%20film.avi"));
    play("films/none.mp4", &["true"]).expect(1).says("no such file or directory: films/none.mp4");
    play("films/a film.avi", &["false"]).expect(1).says("the player ended: exit status: 1");
    play("films/a film.avi", &["no-such-player"]).expect(1).says("no-such-player: no such file");
}
