use super::*;
use crate::failure::Reason;
use crate::name::RelativePath;
use std::io::{Read, Write};

/// The same laws for the implementation by descriptors and the one by paths.
macro_rules! laws {
    ($name:ident) => {
        mod $name {
            use super::*;
            use crate::directory::$name::{Directory, PartFile};

            fn settle(
                directory: &Directory,
                name: &str,
                part: PartFile,
                modified: Timestamp,
            ) -> Result<(), crate::failure::Failure> {
                let complete = part.identity().unwrap();
                let attributes = Attributes { mode: 0o640, modified };
                let target = directory.target(&path(name));
                let safety = (Durability::Unsafe, target);
                directory.settle(&path(name), (complete, Some(part)), attributes, safety)
            }

            #[cfg(unix)]
            #[test]
            fn a_pipe_or_socket_is_never_replaced_by_a_file_or_link() {
                use std::os::unix::fs::FileTypeExt as _;
                let place = tempfile::tempdir().unwrap();
                let directory = Directory::open(place.path()).unwrap();
                let mut part = directory.open_part(&path("late")).unwrap();
                part.file().write_all(b"content").unwrap();
                make_pipe(&place.path().join("pipe"));
                let _socket = std::os::unix::net::UnixListener::bind(place.path().join("socket")).unwrap();
                for name in ["pipe", "socket"] {
                    assert_eq!(directory.look(&path(name), 7).unwrap_err().reason, Reason::NotFile);
                }
                // One that appears while the file arrives.
                make_pipe(&place.path().join("late"));
                drop(part);
                for target in [Target::Free, Target::Taken] {
                    let complete = directory.open_part(&path("late")).unwrap().identity().unwrap();
                    let safety = (Durability::Unsafe, target);
                    let failure = directory.settle(&path("late"), (complete, None), attributes(0), safety);
                    assert_eq!(failure.unwrap_err().to_string(), "exists and is not a regular file");
                }
                for name in ["pipe", "late"] {
                    assert!(place.path().join(name).symlink_metadata().unwrap().file_type().is_fifo());
                }
                assert!(place.path().join("socket").symlink_metadata().unwrap().file_type().is_socket());
            }

            #[cfg(unix)]
            #[test]
            fn a_directory_that_is_removed_during_a_transfer_is_made_again_and_a_link_there_not_followed() {
                let (place, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
                let directory = Directory::open(place.path()).unwrap().for_transfer();
                for name in ["a/first", "a/second"] {
                    let part = directory.open_part(&path(name)).unwrap();
                    settle(&directory, name, part, Timestamp::default()).unwrap();
                    assert!(place.path().join(name).exists());
                    std::fs::remove_dir_all(place.path().join("a")).unwrap();
                }
                std::os::unix::fs::symlink(elsewhere.path(), place.path().join("a")).unwrap();
                let failure = directory.open_part(&path("a/third")).unwrap_err();
                assert_eq!(failure.reason, Reason::SymbolicLink);
                assert!(std::fs::read_dir(elsewhere.path()).unwrap().next().is_none());
            }

            #[test]
            fn a_file_has_its_name_only_when_it_is_finished() {
                let place = tempfile::tempdir().unwrap();
                let directory = Directory::open(place.path()).unwrap();
                let mut part = directory.open_part(&path("a/b/file")).unwrap();
                part.file().write_all(b"content").unwrap();
                assert!(!place.path().join("a/b/file").exists());
                assert!(place.path().join("a/b/.file.manyway-part").exists());
                let time = Timestamp { seconds: 1_500_000_000, nanos: 123_000_000 };
                settle(&directory, "a/b/file", part, time).unwrap();
                let (mut file, facts) = directory.read(&path("a/b/file")).unwrap();
                let mut text = String::new();
                file.read_to_string(&mut text).unwrap();
                assert_eq!((text.as_str(), facts.size, facts.modified), ("content", 7, time));
                assert!(!place.path().join("a/b/.file.manyway-part").exists());
            }

            #[test]
            fn an_unfinished_file_stays_and_leaves_the_old_one_unchanged() {
                let place = tempfile::tempdir().unwrap();
                std::fs::write(place.path().join("file"), "old").unwrap();
                let directory = Directory::open(place.path()).unwrap();
                let mut part = directory.open_part(&path("file")).unwrap();
                part.file().write_all(b"new").unwrap();
                drop(part);
                assert_eq!(std::fs::read(place.path().join("file")).unwrap(), b"old");
                let found = directory.look(&path("file"), 3).unwrap();
                let (Existing::Part(mut file, identity), Target::Taken) = found else {
                    panic!("it is not found");
                };
                let mut text = String::new();
                file.read_to_string(&mut text).unwrap();
                assert_eq!((text.as_str(), identity.size()), ("new", 3));
                drop(file);
                let part = directory.open_part(&path("file")).unwrap();
                assert_eq!(part.opened().size(), 3);
                part.discard();
                assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
            }

            #[test]
            fn a_modified_temporary_file_gets_no_name() {
                let place = tempfile::tempdir().unwrap();
                let directory = Directory::open(place.path()).unwrap();
                let part = directory.open_part(&path("file")).unwrap();
                let closed = part.identity().unwrap();
                drop(part);
                directory.open_part(&path("file")).unwrap().file().write_all(b"other").unwrap();
                let settled = directory.settle(
                    &path("file"),
                    (closed, None),
                    attributes(0),
                    (Durability::Unsafe, Target::Free),
                );
                assert_eq!(settled.unwrap_err().reason, Reason::Busy);
                assert!(!place.path().join("file").exists());
            }

            /// As where two names mean the same file.
            #[test]
            fn a_file_that_appeared_meanwhile_is_not_replaced() {
                let place = tempfile::tempdir().unwrap();
                let directory = Directory::open(place.path()).unwrap();
                let target = directory.target(&path("file"));
                assert_eq!(target, Target::Free);
                let closed = directory.open_part(&path("file")).unwrap().identity().unwrap();
                std::fs::write(place.path().join("file"), "first").unwrap();
                let safety = (Durability::Unsafe, target);
                let settled = directory.settle(&path("file"), (closed, None), attributes(0), safety);
                assert_eq!(settled.unwrap_err().reason, Reason::Name);
                assert_eq!(std::fs::read(place.path().join("file")).unwrap(), b"first");
                assert_eq!(directory.target(&path("file")), Target::Taken);
            }

            #[test]
            fn a_directory_is_filled_and_synced() {
                let place = tempfile::tempdir().unwrap();
                let directory = Directory::open(place.path()).unwrap();
                assert_eq!(directory.make_directory(&path("a/b"), 0o755).unwrap(), None);
                assert!(directory.make_directory(&path("a/b"), 0o755).unwrap().is_some());
                directory.finish_directory(&path("a/b"), attributes(5)).unwrap();
                assert!(directory.finish_directory(&path("a/c"), attributes(5)).is_err());
                directory.sync(Some(&path("a/b"))).unwrap();
                directory.sync(None).unwrap();
                directory.sync_everything().unwrap();
            }

            #[test]
            fn only_a_file_of_the_announced_size_counts_as_whole() {
                let place = tempfile::tempdir().unwrap();
                std::fs::write(place.path().join("file"), "four").unwrap();
                let directory = Directory::open(place.path()).unwrap();
                let look = |name: &str, size| directory.look(&path(name), size).unwrap().0;
                assert!(matches!(look("file", 4), Existing::Whole(..)));
                assert!(matches!(look("file", 5), Existing::Nothing));
                assert!(matches!(look("none", 4), Existing::Nothing));
                assert!(matches!(look("no/where", 4), Existing::Nothing));
                let Existing::Whole(_, identity) = look("file", 4) else { panic!("it is not found") };
                directory.adopt(&path("file"), &identity, attributes(77)).unwrap();
                assert_eq!(directory.describe(&path("file")).unwrap().modified.seconds, 77);
                std::fs::write(place.path().join("file"), "other").unwrap();
                let adopted = directory.adopt(&path("file"), &identity, attributes(78));
                assert_eq!(adopted.unwrap_err().reason, Reason::Busy);
            }

            #[cfg(unix)]
            #[test]
            fn links_are_not_followed() {
                let outside = tempfile::tempdir().unwrap();
                std::fs::write(outside.path().join("secret"), "secret").unwrap();
                let place = tempfile::tempdir().unwrap();
                let link = |name: &str, to: &std::path::Path| {
                    std::os::unix::fs::symlink(to, place.path().join(name)).unwrap();
                };
                link("directory", outside.path());
                link("file", &outside.path().join("secret"));
                let directory = Directory::open(place.path()).unwrap();
                let reason = |failure: crate::failure::Failure| failure.reason;
                for name in ["file", "directory/secret"] {
                    assert_eq!(
                        directory.read(&path(name)).map(drop).map_err(reason),
                        Err(Reason::SymbolicLink)
                    );
                    assert_eq!(
                        directory.describe(&path(name)).map(drop).map_err(reason),
                        Err(Reason::SymbolicLink)
                    );
                }
                assert_eq!(
                    directory.open_part(&path("directory/x")).map(drop).map_err(reason),
                    Err(Reason::SymbolicLink)
                );
                assert_eq!(
                    directory.open_part(&path("directory/x/y")).map(drop).map_err(reason),
                    Err(Reason::SymbolicLink)
                );
                assert_eq!(
                    directory.make_directory(&path("directory"), 0o755).map(drop).map_err(reason),
                    Err(Reason::SymbolicLink)
                );
                assert_eq!(
                    directory.children(Some(&path("directory"))).map(drop).map_err(reason),
                    Err(Reason::SymbolicLink)
                );
                assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);

                // A link in the place of the final name is replaced, not written through.
                let mut part = directory.open_part(&path("file")).unwrap();
                part.file().write_all(b"new").unwrap();
                settle(&directory, "file", part, Timestamp::default()).unwrap();
                assert_eq!(std::fs::read(outside.path().join("secret")).unwrap(), b"secret");
                assert_eq!(std::fs::read(place.path().join("file")).unwrap(), b"new");
            }

            #[test]
            fn an_obstacle_is_named() {
                let place = tempfile::tempdir().unwrap();
                std::fs::create_dir(place.path().join("directory")).unwrap();
                std::fs::write(place.path().join("file"), "").unwrap();
                let directory = Directory::open(place.path()).unwrap();
                assert_eq!(directory.look(&path("directory"), 1).unwrap_err().reason, Reason::IsDirectory);
                assert_eq!(directory.open_part(&path("file/x")).unwrap_err().reason, Reason::NotDirectory);
                assert_eq!(directory.read(&path("directory")).unwrap_err().reason, Reason::IsDirectory);
                assert_eq!(directory.read(&path("none")).unwrap_err().reason, Reason::NotFound);
            }

            #[test]
            fn unfinished_files_and_links_are_found_and_free_space_is_reported() {
                let place = tempfile::tempdir().unwrap();
                std::fs::create_dir(place.path().join("d")).unwrap();
                std::fs::write(place.path().join("d/.small.manyway-part"), vec![1; 9_000]).unwrap();
                std::fs::write(place.path().join("d/.large.manyway-part"), vec![1; 90_000]).unwrap();
                let directory = Directory::open(place.path()).unwrap();
                let largest = |name: &str| directory.largest_part(&path(name)).map(|(name, _)| name);
                assert_eq!(largest("d/other").as_deref(), Some(".large.manyway-part"));
                assert_eq!(largest("d/large").as_deref(), Some(".small.manyway-part"), "not its own");
                assert_eq!(largest("e/other"), None);
                let room = directory.room(&path("d/x")).unwrap();
                assert!(room.free > 0 && room.free <= room.total, "{room:?}");
                assert!(!directory.is_made_up(&path("d/x")));
                let target = crate::link::LinkTarget::parse("d/x").unwrap();
                match directory.make_link(&path("link"), &target, Target::Free) {
                    Ok(()) => assert_eq!(directory.read_link(&path("link")).unwrap(), "d/x"),
                    Err(failure) => assert_eq!(failure.reason, Reason::LeftOut),
                }
                assert!(directory.read_link(&path("d")).is_err());
            }

            #[test]
            fn children_are_in_order() {
                let place = tempfile::tempdir().unwrap();
                let directory = Directory::open(place.path()).unwrap();
                for name in ["c", "a", "b"] {
                    directory.make_directory(&path("top").join(name).unwrap(), 0o755).unwrap();
                }
                let names: Vec<_> = directory.children(Some(&path("top"))).unwrap();
                assert_eq!(names, [Ok("a".to_owned()), Ok("b".to_owned()), Ok("c".to_owned())]);
                assert_eq!(directory.children(None).unwrap().len(), 1);
            }
        }
    };
}

#[cfg(unix)]
laws!(unix);
laws!(portable);

// transfer 5.8
#[cfg(unix)]
#[test]
fn a_new_directory_has_the_permissions_of_its_entry_and_an_old_one_keeps_its_own() {
    use std::os::unix::fs::PermissionsExt;
    let place = tempfile::tempdir().unwrap();
    let directory = Directory::open(place.path()).unwrap();
    let mode = || place.path().join("new").metadata().unwrap().permissions().mode() & 0o7777;
    let fill = |entry: u16| {
        let before = directory.make_directory(&path("new"), entry).unwrap();
        let writable = mode();
        let attributes = Attributes { mode: final_mode(entry, before), modified: Timestamp::default() };
        directory.finish_directory(&path("new"), attributes).unwrap();
        (writable, mode())
    };
    assert_eq!(fill(0o577), (0o777, 0o577));
    assert_eq!(fill(0o700), (0o777, 0o577));
    // As an incomplete attempt leaves it.
    std::fs::set_permissions(place.path().join("new"), std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(fill(0o555), (0o755, 0o555));
}

#[cfg(unix)]
#[test]
fn a_file_can_be_opened_only_once_at_a_time() {
    let place = tempfile::tempdir().unwrap();
    let directory = Directory::open(place.path()).unwrap();
    let first = directory.open_part(&path("file")).unwrap();
    assert_eq!(directory.open_part(&path("file")).unwrap_err().reason, Reason::Busy);
    drop(first);
    assert!(directory.open_part(&path("file")).is_ok());
}

/// So that no other request writes into a file that is about to get its name.
#[cfg(unix)]
#[test]
fn a_complete_file_that_stays_open_stays_locked_until_it_has_its_name() {
    let place = tempfile::tempdir().unwrap();
    let directory = Directory::open(place.path()).unwrap();
    let part = directory.open_part(&path("file")).unwrap();
    let complete = part.identity().unwrap();
    assert_eq!(directory.open_part(&path("file")).unwrap_err().reason, Reason::Busy);
    let safety = (Durability::Unsafe, Target::Free);
    directory.settle(&path("file"), (complete, Some(part)), attributes(0), safety).unwrap();
    assert!(place.path().join("file").exists());
    assert_eq!(directory.open_part(&path("file")).unwrap().opened().size(), 0);
}

/// A link to a file elsewhere must not be written through.
#[cfg(unix)]
#[test]
fn a_link_in_the_place_of_a_temporary_file_is_refused() {
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    std::fs::write(&secret, "secret").unwrap();
    let place = tempfile::tempdir().unwrap();
    let directory = Directory::open(place.path()).unwrap();
    std::os::unix::fs::symlink(&secret, place.path().join(".soft.manyway-part")).unwrap();
    assert_eq!(directory.open_part(&path("soft")).unwrap_err().reason, Reason::SymbolicLink);
    assert!(matches!(directory.look(&path("soft"), 6).unwrap(), (Existing::Nothing, Target::Free)));
    if std::fs::hard_link(&secret, place.path().join(".hard.manyway-part")).is_ok() {
        assert_eq!(directory.open_part(&path("hard")).unwrap_err().reason, Reason::NotFile);
        assert_eq!(directory.look(&path("hard"), 6).unwrap_err().reason, Reason::NotFile);
    }
    assert_eq!(std::fs::read(&secret).unwrap(), b"secret");
}

#[cfg(target_os = "linux")]
#[test]
fn a_pipe_does_not_block() {
    let place = tempfile::tempdir().unwrap();
    make_pipe(&place.path().join("pipe"));
    let directory = Directory::open(place.path()).unwrap();
    assert_eq!(directory.read(&path("pipe")).unwrap_err().reason, Reason::NotFile);
}

#[cfg(unix)]
fn make_pipe(name: &std::path::Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, name, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

fn path(name: &str) -> RelativePath {
    RelativePath::parse(name).unwrap()
}

fn attributes(seconds: i64) -> Attributes {
    Attributes { mode: 0o644, modified: Timestamp { seconds, nanos: 0 } }
}
