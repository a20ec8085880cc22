use std::os::unix::fs::PermissionsExt as _;

use tempfile::TempDir;

use super::*;

fn home() -> (TempDir, Home) {
    let place = TempDir::new().unwrap();
    let home = Home::at(place.path().join("manyway"));
    (place, home)
}

fn ticket(byte: u8) -> TicketEntry {
    TicketEntry::new(Secret([byte; 16]), Rights::default(), Vec::new())
}

fn add(home: &Home, name: &str, entry: TicketEntry) {
    home.change(|tickets| {
        tickets.insert(name.to_owned(), entry);
        Ok::<_, HomeError>(())
    })
    .unwrap();
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn an_identity_is_created_once_and_kept() {
    let (_place, home) = home();
    assert!(home.existing_identity().unwrap().is_none());
    assert!(!home.directory().exists(), "looking makes nothing");
    let seed = home.identity().unwrap();
    assert_eq!(home.identity().unwrap(), seed);
    assert_eq!(home.existing_identity().unwrap(), Some(seed));
    assert_eq!(mode(home.directory()), 0o700);
    assert_eq!(mode(&home.identity_file()), 0o600);
}

#[test]
fn entries_come_back_as_they_were_written() {
    let (_place, home) = home();
    assert!(home.entries::<TicketEntry>().unwrap().is_empty());
    let rights = Rights {
        expires: Some(Timestamp::now()),
        read_only: true,
        max_rate: Some("50M".parse().unwrap()),
        max_connections: Some(3),
        listen: vec!["0.0.0.0/32:8080".parse().unwrap()],
    };
    let entry = TicketEntry::new(Secret([1; 16]), rights.clone(), vec!["example.org".parse().unwrap()]);
    add(&home, "alice", entry.clone());
    assert_eq!(home.entries::<TicketEntry>().unwrap()["alice"], entry);
    assert_eq!(entry.rights(), rights);
    assert_eq!(mode(&home.file_of::<TicketEntry>()), 0o600);
    let text = std::fs::read_to_string(home.file_of::<TicketEntry>()).unwrap();
    for part in [
        "[alice]",
        "read-only = true",
        "max-rate = \"50Mbit\"",
        "max-connections = 3",
        "listen = [\"0.0.0.0/32:8080\"]",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn a_file_that_others_can_read_is_not_used_and_the_remedy_is_named() {
    let (_place, home) = home();
    home.identity().unwrap();
    for mode in [0o640, 0o604, 0o620] {
        let path = home.identity_file();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let text = home.identity().unwrap_err().to_string();
        assert!(text.contains(&format!("chmod 600 {}", path.display())), "{text}");
    }
}

#[test]
fn a_damaged_file_is_named_with_its_line() {
    let (_place, home) = home();
    add(&home, "alice", ticket(1));
    let path = home.file_of::<TicketEntry>();
    let text = std::fs::read_to_string(&path).unwrap() + "expire = \"2026-01-01\"\n";
    std::fs::write(&path, text).unwrap();
    let error = home.entries::<TicketEntry>().unwrap_err().to_string();
    for part in ["tickets.toml", "line 6", "expire"] {
        assert!(error.contains(part), "{part} in {error}");
    }
}

#[test]
fn a_failed_change_changes_nothing_and_an_empty_one_does_not_touch_the_file() {
    let (_place, home) = home();
    add(&home, "alice", ticket(1));
    let stamp = home.stamp::<TicketEntry>();
    let failed = home.change(|tickets: &mut Entries<TicketEntry>| {
        tickets.clear();
        Err::<(), _>(HomeError::NoRandomness)
    });
    assert!(failed.is_err());
    home.change(|_: &mut Entries<TicketEntry>| Ok::<_, HomeError>(())).unwrap();
    assert_eq!(home.stamp::<TicketEntry>(), stamp);
    add(&home, "bob", ticket(2));
    assert_ne!(home.stamp::<TicketEntry>(), stamp);
    let mut names: Vec<_> =
        std::fs::read_dir(home.directory()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [".lock", "tickets.toml"], "nothing is left behind");
}

#[test]
fn simultaneous_changes_lose_nothing() {
    let (_place, home) = home();
    std::thread::scope(|scope| {
        for byte in 0..16 {
            let home = &home;
            scope.spawn(move || add(home, &format!("t{byte}"), ticket(byte)));
        }
    });
    assert_eq!(home.entries::<TicketEntry>().unwrap().len(), 16);
}

#[test]
fn the_addresses_of_a_server_are_remembered() {
    let (_place, home) = home();
    assert!(home.last_hosts().unwrap().is_empty());
    let hosts = vec!["192.0.2.7:5000".parse().unwrap(), "example.org".parse().unwrap()];
    home.remember_hosts(&hosts).unwrap();
    assert_eq!(home.last_hosts().unwrap(), hosts);
}

#[test]
fn files_that_root_changes_for_a_service_still_belong_to_the_service() {
    use std::os::unix::fs::{MetadataExt as _, chown};
    let (_place, home) = home();
    add(&home, "alice", ticket(1));
    let owner = |path: &Path| std::fs::metadata(path).unwrap().uid();
    if owner(home.directory()) != 0 || chown(home.directory(), Some(12_345), Some(12_345)).is_err() {
        // Only root can change the owner of files.
        return;
    }
    add(&home, "bob", ticket(2));
    home.identity().unwrap();
    for path in [home.identity_file(), home.file_of::<TicketEntry>(), home.directory().join(".lock")] {
        assert_eq!(owner(&path), 12_345, "{path:?}");
    }
}
