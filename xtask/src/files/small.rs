//! Many small files, and the time of other programs for them.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use super::options::parse;
use super::process::{Process, run as run_program, with_keys};
use super::random::Random;
use crate::output::{show, text};

/// Sends many small files over the loopback interface, twice, and copies them by `cp` and `tar`; prints the rates.
pub(crate) fn run(arguments: impl Iterator<Item = String>) -> ExitCode {
    let (mut seed, mut files) = (1, 100_000);
    let parsed = parse(arguments, &mut [("--seed", &mut seed), ("--files", &mut files)]);
    show(parsed.and_then(|()| measure(seed, files)))
}

fn measure(seed: u64, files: u64) -> Result<String, String> {
    let place = tempfile::TempDir::new().map_err(text)?;
    let bytes = make(&place.path().join("tree"), Random(seed), files)?;
    let mut table = format!("{files} files of 0 to 4 KiB, {bytes} bytes, in directories of 1000\n");
    let mut add = |what: &str, seconds: f64, more: &str| {
        let rate = u32::try_from(files).map_or(0.0, f64::from) / seconds;
        let _ = writeln!(table, "{what:<34} {seconds:>7.2} s {rate:>9.0} files/s{more}");
    };
    let target = place.path().join("target");
    std::fs::create_dir(&target).map_err(text)?;
    let (mut server, ticket) =
        Process::serve(with_keys(&place.path().join("keys"))?, "127.0.0.1:0", &target)?;
    for what in ["manyway send", "manyway send again, all is there"] {
        run_program("sync", &[])?;
        let started = Instant::now();
        let mut command = with_keys(&place.path().join("keys"))?;
        command.args(["--json", "send", "tree", &ticket]).current_dir(place.path());
        let mut client = Process::start(command)?;
        let summary = client.end()?;
        let elapsed = started.elapsed().as_secs_f64();
        server.watch()?;
        let sent = summary.get("bytes_sent").and_then(serde_json::Value::as_u64).unwrap_or(0);
        let peaks = (client.peak, server.peak);
        add(what, elapsed, &format!(", {sent} bytes sent, peak memory {} and {} KiB", peaks.0, peaks.1));
    }
    drop(server);
    let here = place.path().to_string_lossy();
    for (what, script) in [
        ("cp -a, then sync", format!("cd '{here}' && cp -a tree copy && sync")),
        ("tar | tar, then sync", format!("cd '{here}' && mkdir t && tar -c tree | tar -x -C t && sync")),
    ] {
        run_program("sync", &[])?;
        let started = Instant::now();
        run_program("sh", &["-c", &script])?;
        add(what, started.elapsed().as_secs_f64(), "");
    }
    let difference = run_program("diff", &["-r", &format!("{here}/tree"), &format!("{here}/target/tree")]);
    difference.map(|_| table)
}

fn make(tree: &Path, mut random: Random, files: u64) -> Result<u64, String> {
    let mut content = vec![0; 4096];
    let mut bytes = 0;
    for number in 0..files {
        let directory = tree.join(format!("{:03}", number / 1000));
        if number % 1000 == 0 {
            std::fs::create_dir_all(&directory).map_err(text)?;
        }
        let length = usize::try_from(random.below(4097)).map_err(text)?;
        let content = content.get_mut(..length).unwrap_or_default();
        random.fill(content);
        bytes += u64::try_from(length).unwrap_or(0);
        std::fs::write(directory.join(format!("{number:06}")), content).map_err(text)?;
    }
    Ok(bytes)
}
