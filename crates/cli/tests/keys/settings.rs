//! The file of settings, and failures as documents.

use super::place::{Place, Side};
use crate::common::program::Running;

#[test]
fn settings_apply_to_a_server_and_a_client_and_the_command_line_takes_precedence() {
    let place = Place::new();
    place.make_served("film", 10);
    let home = place.home(Side::Server);
    std::fs::create_dir_all(&home).unwrap();
    let files = place.files(Side::Server);
    let text = format!(
        "[serve]\ndir = {:?}\nread-only = true\nlisten = [\"127.0.0.1:0\"]\n",
        files.to_str().unwrap()
    );
    std::fs::write(home.join("config.toml"), text).unwrap();
    let server = crate::common::program::Server::start(place.command(Side::Server, &["serve"]));
    server.running.wait_for("for reading on UDP 127.0.0.1:");

    let own = place.home(Side::Client).join("config.toml");
    std::fs::create_dir_all(place.home(Side::Client)).unwrap();
    std::fs::write(&own, "interfaces = [\"none0\"]\n").unwrap();
    place.client(&["get", &server.ticket, "film"]).expect(2).says("none0: no such interface");
    place.client(&["-q", "--no-config", "get", &server.ticket, "film"]).expect(0);
    place.client(&["-q", "-I", "lo", "get", &server.ticket, "film"]).expect(0);
    let empty = place.files(Side::Client).join("empty.toml");
    std::fs::write(&empty, "").unwrap();
    place.client(&["-q", "--config", empty.to_str().unwrap(), "get", &server.ticket, "film"]).expect(0);
}

#[test]
fn an_error_in_the_settings_names_the_file_the_line_and_the_key() {
    let place = Place::new();
    let file = place.files(Side::Client).join("my.toml");
    std::fs::write(&file, "scheduler = \"min-rtt\"\n\nconection = 1\n").unwrap();
    let path = file.to_str().unwrap();
    let failed = place.client(&["--config", path, "--json", "keys", "list"]).expect(2);
    for part in ["my.toml", "line 3", "conection", "congestion"] {
        assert!(failed.err.contains(part), "{part} in {}", failed.err);
    }
    assert_eq!(failed.summary()["error"]["code"], 2);
    place.client(&["--config", "none.toml", "keys", "list"]).expect(2).says("none.toml");
}

#[test]
fn the_example_of_settings_and_its_values_are_understood() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/config.example.toml");
    let text = std::fs::read_to_string(path).unwrap();
    manyway_cli::config::Settings::parse(&text).unwrap();
    // With everything that it shows enabled.
    let all: Vec<_> = text
        .lines()
        .map(|line| line.strip_prefix("# ").filter(|rest| rest.contains(" = ")).unwrap_or(line))
        .collect();
    assert!(all.iter().filter(|line| line.contains(" = ")).count() >= 16, "{all:#?}");
    manyway_cli::config::Settings::parse(&all.join("\n")).unwrap();
}

#[test]
fn failures_are_documents_too() {
    let place = Place::new();
    let failed = place.client(&["--json", "get", "mw1nonsense"]).expect(2);
    let error = &failed.summary()["error"];
    assert_eq!((error["code"].as_u64(), error["kind"].as_str()), (Some(2), Some("usage")));
    assert!(error["text"].as_str().unwrap().contains("ticket"), "{error}");
    let failed = place.client(&["bench", "--json"]).expect(2);
    assert_eq!(failed.summary()["error"]["kind"], "usage");
    let failed = place.client(&["get", "mw1nonsense"]).expect(2);
    assert!(failed.out.is_empty(), "{failed:?}");
}

#[test]
fn a_user_without_a_home_learns_what_to_do() {
    let place = Place::new();
    let mut command = place.command(Side::Client, &["keys", "show"]);
    command.env("MANYWAY_HOME", "").env_remove("HOME").env_remove("XDG_CONFIG_HOME");
    Running::start(command).end().expect(1).says("set MANYWAY_HOME");
    let mut command = place.command(Side::Client, &["keys", "show", "--json"]);
    command.env("MANYWAY_HOME", "").env("XDG_CONFIG_HOME", place.files(Side::Client));
    let shown = Running::start(command).end().expect(0).summary();
    assert!(shown["directory"].as_str().unwrap().ends_with("files/manyway"), "{shown}");
}
