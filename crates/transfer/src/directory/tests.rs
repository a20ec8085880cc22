use super::*;
use crate::failure::Reason;
use crate::name::RelativePath;
use std::io::{Read, Write};

/// The same laws for the implementation by descriptors and the one by paths.
macro_rules! laws {
    ($name:ident) => {
        mod $name {
            use super::*;
            use crate::directory::$name::Directory;

            #[test]
            fn a_file_has_its_name_only_when_it_is_finished() {
                let place = tempfile::tempdir().unwrap();
                let directory = Directory::open(place.path()).unwrap();
                let mut part = directory.create(&path("a/b/file")).unwrap();
                part.file().write_all(b"content").unwrap();
                assert!(!place.path().join("a/b/file").exists());
                assert!(place.path().join("a/b/.file.manyway-part").exists());
                let time = Timestamp { seconds: 1_500_000_000, nanos: 123_000_000 };
                part.finish(0o640, time).unwrap();
                let (mut file, facts) = directory.read(&path("a/b/file")).unwrap();
                let mut text = String::new();
                file.read_to_string(&mut text).unwrap();
                assert_eq!((text.as_str(), facts.size, facts.modified), ("content", 7, time));
                assert!(!place.path().join("a/b/.file.manyway-part").exists());
            }

            #[test]
            fn an_unfinished_file_leaves_nothing_and_spares_the_old_one() {
                let place = tempfile::tempdir().unwrap();
                std::fs::write(place.path().join("file"), "old").unwrap();
                let directory = Directory::open(place.path()).unwrap();
                let mut part = directory.create(&path("file")).unwrap();
                part.file().write_all(b"new").unwrap();
                drop(part);
                assert_eq!(std::fs::read(place.path().join("file")).unwrap(), b"old");
                assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
            }

            #[test]
            fn the_same_file_is_written_by_one_only() {
                let place = tempfile::tempdir().unwrap();
                let directory = Directory::open(place.path()).unwrap();
                let first = directory.create(&path("file")).unwrap();
                assert_eq!(directory.create(&path("file")).unwrap_err().reason, Reason::Busy);
                drop(first);
                assert!(directory.create(&path("file")).is_ok());
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
                    directory.create(&path("directory/x")).map(drop).map_err(reason),
                    Err(Reason::SymbolicLink)
                );
                assert_eq!(
                    directory.create(&path("directory/x/y")).map(drop).map_err(reason),
                    Err(Reason::SymbolicLink)
                );
                assert_eq!(
                    directory.make_directory(&path("directory"), 0o755).map_err(reason),
                    Err(Reason::SymbolicLink)
                );
                assert_eq!(
                    directory.children(Some(&path("directory"))).map(drop).map_err(reason),
                    Err(Reason::SymbolicLink)
                );
                assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);

                // A link in the place of the final name is replaced, not written through.
                let mut part = directory.create(&path("file")).unwrap();
                part.file().write_all(b"new").unwrap();
                part.finish(0o600, Timestamp::default()).unwrap();
                assert_eq!(std::fs::read(outside.path().join("secret")).unwrap(), b"secret");
                assert_eq!(std::fs::read(place.path().join("file")).unwrap(), b"new");
            }

            #[test]
            fn what_stands_in_the_way_is_named() {
                let place = tempfile::tempdir().unwrap();
                std::fs::create_dir(place.path().join("directory")).unwrap();
                std::fs::write(place.path().join("file"), "").unwrap();
                let directory = Directory::open(place.path()).unwrap();
                assert_eq!(directory.create(&path("directory")).unwrap_err().reason, Reason::IsDirectory);
                assert_eq!(directory.create(&path("file/x")).unwrap_err().reason, Reason::NotDirectory);
                assert_eq!(directory.read(&path("directory")).unwrap_err().reason, Reason::IsDirectory);
                assert_eq!(directory.read(&path("none")).unwrap_err().reason, Reason::NotFound);
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

// transfer 4.7
#[cfg(unix)]
#[test]
fn a_new_directory_has_the_permissions_of_its_entry_and_an_old_one_keeps_its_own() {
    use std::os::unix::fs::PermissionsExt;
    let place = tempfile::tempdir().unwrap();
    let directory = Directory::open(place.path()).unwrap();
    let mode = || place.path().join("new").metadata().unwrap().permissions().mode() & 0o7777;
    directory.make_directory(&path("new"), 0o077).unwrap();
    assert_eq!(mode(), 0o777);
    directory.make_directory(&path("new"), 0o700).unwrap();
    assert_eq!(mode(), 0o777);
}

#[cfg(target_os = "linux")]
#[test]
fn a_pipe_does_not_hold_us_up() {
    let place = tempfile::tempdir().unwrap();
    let name = place.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &name,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let directory = Directory::open(place.path()).unwrap();
    assert_eq!(directory.read(&path("pipe")).unwrap_err().reason, Reason::NotFile);
}

fn path(name: &str) -> RelativePath {
    RelativePath::parse(name).unwrap()
}
