//! The primary path that the user names: `--primary` of `send` and `bench`, and the place of `paths --primary`.

use manyway::{Connection, Event, Wire};
use manyway_terminal::CommandError;
use tokio::sync::broadcast::error::RecvError;

use crate::args::GlobalArgs;
use crate::status::path_over;

/// Checks that this end's scheduler has a primary path, if one is named.
///
/// # Errors
/// It has none.
pub fn check(global: &GlobalArgs) -> Result<(), CommandError> {
    let scheduler = global.scheduler.as_deref().and_then(|choice| choice.split('=').next());
    let default = if global.wire == Wire::Mmsp1 { "primary" } else { "earliest" };
    let scheduler = scheduler.unwrap_or(default);
    if global.primary.is_some() && scheduler != "primary" {
        return Err(CommandError::usage(format!(
            "--primary: the scheduler {scheduler} has no primary path; add --scheduler primary"
        )));
    }
    Ok(())
}

/// Makes the path over the named place the primary one as soon as it is open, beside other work.
pub fn attend(global: &GlobalArgs, connection: &Connection) {
    let Some(place) = global.primary.clone() else { return };
    let (mut events, connection) = (connection.events(), connection.clone());
    tokio::spawn(async move {
        loop {
            let Ok(info) = connection.info().await else { return };
            if let Some(path) = path_over(&info.paths, &place) {
                return connection.path(path.statistics.id).make_primary();
            }
            if matches!(events.recv().await, Ok(Event::Closed(_)) | Err(RecvError::Closed)) {
                return;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::Cli;

    /// The error of a command line that names a primary path.
    fn error_of(words: &[&str]) -> Option<String> {
        let cli = Cli::try_parse_from([&["manyway"], words].concat()).unwrap();
        let mut global = cli.global;
        global.primary = Some("wlan0".to_owned());
        check(&global).err().map(|error| error.text)
    }

    #[test]
    fn a_primary_path_needs_a_scheduler_that_has_one() {
        let bench = ["bench", "mw1x"];
        assert_eq!(error_of(&[&["--wire", "mmsp1"], &bench[..]].concat()), None);
        assert_eq!(error_of(&[&["--scheduler", "primary=rank"], &bench[..]].concat()), None);
        for more in [&[][..], &["--wire", "mmsp1", "--scheduler", "earliest"]] {
            let error = error_of(&[more, &bench].concat()).unwrap();
            assert!(error.contains("the scheduler earliest has no primary path"), "{error}");
        }
    }
}
