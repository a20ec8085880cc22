//! Runs a test in a network namespace of its own, so that it may change interfaces.

use std::process::Command;

use manyway_sim::skipped::skip;

/// Set for the test's second run, inside the namespace.
const INSIDE: &str = "MANYWAY_TEST_NAMESPACE";

/// Runs `test` inside a fresh network namespace: the test program restarts itself there with only the test of that name
/// (its full path). Without root or `ip`, `tc` and `nft`, or where namespaces cannot be created, the test counts as
/// skipped, unless `MANYWAY_REQUIRE_NAMESPACES` is set: then it fails.
///
/// The namespace and all its interfaces are removed at the end, even if the test fails.
pub(crate) fn in_namespace(name: &str, test: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return test();
    }
    if let Err(reason) = run_inside(name) {
        skip(format!("{name}: {reason}"));
    }
}

/// Runs `ip` and fails the test if the command fails.
pub(crate) fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Waits until the kernel reports a carrier on an interface whose both ends are up. It reports at most one change a
/// second for the whole system, so tests that run side by side delay each other.
pub(crate) fn wait_for_carrier(interface: &str) {
    let start = std::time::Instant::now();
    loop {
        let output = Command::new("ip").args(["-o", "link", "show", "dev", interface]).output().unwrap();
        if String::from_utf8_lossy(&output.stdout).contains("state UP") {
            return;
        }
        assert!(start.elapsed().as_secs() < 10, "{interface} has no carrier");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

fn run_inside(name: &str) -> Result<(), String> {
    let user = Command::new("id").arg("-u").output().map_err(|error| error.to_string())?;
    if user.stdout.trim_ascii() != b"0" {
        return Err("network namespaces need root".into());
    }
    for (program, argument) in [("ip", "-V"), ("tc", "-V"), ("nft", "-v")] {
        Command::new(program).arg(argument).output().map_err(|error| format!("{program}: {error}"))?;
    }
    let short = name.rsplit("::").next().unwrap_or(name);
    let namespace = Namespace::new(&format!("mw-{}-{}", std::process::id(), &short[..short.len().min(20)]))?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("ip")
        .args(["netns", "exec", &namespace.0])
        .arg(program)
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, &namespace.0)
        .output()
        .map_err(|error| error.to_string())?;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if err.contains("setting the network namespace") || err.contains("mount of /sys failed") {
        return Err(err.into_owned());
    }
    // Lines at the margin of a log belong to the tests of the outer run.
    let said = || format!("{out}\n{err}").lines().map(|line| format!("    {line}\n")).collect::<String>();
    assert!(output.status.success(), "inside the namespace:\n{}", said());
    assert!(out.contains("1 passed"), "no test is called {name}:\n{out}");
    Ok(())
}

/// A network namespace that is removed when dropped.
struct Namespace(String);

impl Namespace {
    fn new(name: &str) -> Result<Self, String> {
        let output =
            Command::new("ip").args(["netns", "add", name]).output().map_err(|error| error.to_string())?;
        if output.status.success() {
            Ok(Self(name.into()))
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(Command::new("ip").args(["netns", "delete", &self.0]).output());
    }
}
