//! The real binary as a child that never outlives its test, and files to send.

use std::cell::RefCell;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use manyway_sim::skipped::skip;
use tempfile::TempDir;

/// The program under test.
pub(crate) const MANYWAY: &str = env!("CARGO_BIN_EXE_manyway");
/// Longer than any step takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A child process; its output is collected. Dropping it kills it.
pub(crate) struct Running {
    child: RefCell<Child>,
    _home: TempDir,
    out: Collected,
    err: Collected,
}

/// A child that has exited.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) took: Duration,
}

/// A running `manyway serve`.
pub(crate) struct Server {
    pub(crate) running: Running,
    pub(crate) ticket: String,
}

/// Whether the programs are installed; otherwise the test counts as skipped, and fails where none may be.
pub(crate) fn have(programs: &[(&str, &str)]) -> bool {
    for (program, argument) in programs {
        let Err(error) = Command::new(program).arg(argument).output() else { continue };
        skip(format!("{program}: {error}"));
        return false;
    }
    true
}

/// Gives the command the surroundings of a user of its own: keys, and the place where `manyway status` finds commands.
pub(crate) fn as_user<'a>(command: &'a mut Command, home: &Path) -> &'a mut Command {
    command.env("MANYWAY_HOME", home).env("XDG_RUNTIME_DIR", home).env("TMPDIR", home)
}

impl Running {
    /// Starts `command`, which is `manyway`, perhaps in a wrapper. Unless it names a directory of keys, it gets new
    /// ones.
    pub(crate) fn start(mut command: Command) -> Self {
        let home = TempDir::new().unwrap();
        if !command.get_envs().any(|(name, _)| name == "MANYWAY_HOME") {
            command.env("MANYWAY_HOME", home.path());
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.env_remove("MANYWAY_LOG").spawn().unwrap();
        let out = Collected::new(child.stdout.take().unwrap());
        let err = Collected::new(child.stderr.take().unwrap());
        Self { child: RefCell::new(child), _home: home, out, err }
    }

    /// Its process ID.
    pub(crate) fn id(&self) -> u32 {
        self.child.borrow().id()
    }

    /// Its output for people until now.
    pub(crate) fn messages(&self) -> String {
        self.err.text()
    }

    /// Its standard output until now.
    pub(crate) fn printed(&self) -> String {
        self.out.text()
    }

    /// Waits until it has printed `text` for people.
    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) {
        self.wait_until(&format!("the message {text:?}"), || self.messages().contains(text));
    }

    /// Waits for a condition that must become true before its end.
    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let start = Instant::now();
        while !holds() {
            let is_late = self.status().is_some() || start.elapsed() > PATIENCE;
            assert!(!is_late, "waited in vain for {what}:\n{}\n{}", self.out.text(), self.messages());
            std::thread::sleep(POLL);
        }
    }

    /// Sends a signal by its name, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.id().to_string()]).status().unwrap();
        assert!(status.success(), "it ended before: {}", self.messages());
    }

    /// Stops all its threads; the signal alone is asynchronous.
    #[track_caller]
    pub(crate) fn suspend(&self) {
        self.signal("STOP");
        self.wait_until("all threads to stop", || {
            let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", self.id())) else { return true };
            threads.flatten().all(|thread| {
                let status = std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
                status.lines().any(|line| line.starts_with("State:\tT"))
            })
        });
    }

    /// Waits for its end, at most [`PATIENCE`].
    #[track_caller]
    pub(crate) fn end(self) -> Finished {
        self.end_within(PATIENCE)
    }

    /// Waits for its end, at most this long.
    #[track_caller]
    pub(crate) fn end_within(mut self, patience: Duration) -> Finished {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.status() {
                break status;
            }
            assert!(start.elapsed() < patience, "it does not end:\n{}\n{}", self.out.text(), self.messages());
            std::thread::sleep(POLL);
        };
        self.finished(status, start.elapsed())
    }

    /// Whether it has not ended.
    pub(crate) fn is_running(&self) -> bool {
        self.status().is_none()
    }

    fn status(&self) -> Option<ExitStatus> {
        self.child.borrow_mut().try_wait().unwrap()
    }

    fn finished(&mut self, status: ExitStatus, took: Duration) -> Finished {
        self.out.join();
        self.err.join();
        Finished { code: status.code(), out: self.out.text(), err: self.messages(), took }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let child = self.child.get_mut();
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Finished {
    /// Checks its exit status.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "out:\n{}\nerr:\n{}", self.out, self.err);
        self
    }

    /// Checks that `text` was printed for people.
    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        assert!(self.err.contains(text) || self.out.contains(text), "{text:?} is not in {self:#?}");
        self
    }

    /// Its output as JSON, one document a line.
    #[track_caller]
    pub(crate) fn json(&self) -> Vec<serde_json::Value> {
        let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        self.out.lines().map(parse).collect()
    }

    /// The last document of its output: the summary.
    #[track_caller]
    pub(crate) fn summary(&self) -> serde_json::Value {
        self.json().pop().unwrap()
    }
}

impl Server {
    /// The first address and port on which it listens, as it prints them.
    #[track_caller]
    pub(crate) fn listening(&self) -> String {
        let told = || {
            let messages = self.running.messages();
            let (_, rest) = messages.split_once("on UDP ")?;
            let (line, _) = rest.split_once('\n')?;
            line.split_whitespace().next().map(str::to_owned)
        };
        self.running.wait_until("the address on which it listens", || told().is_some());
        told().unwrap()
    }

    /// Starts `manyway serve` by `command`, which has its arguments already, and waits for the ticket.
    pub(crate) fn start(command: Command) -> Self {
        let running = Running::start(command);
        let find = || running.printed().split(['\n', '"']).find(|l| l.starts_with("mw1")).map(str::to_owned);
        let start = Instant::now();
        let ticket = loop {
            if let Some(ticket) = find() {
                break ticket;
            }
            assert!(start.elapsed() < PATIENCE, "no ticket: {}", running.messages());
            std::thread::sleep(POLL);
        };
        Self { running, ticket }
    }

    /// Stops it as a service manager does.
    pub(crate) fn stop(self) -> Finished {
        self.running.signal("TERM");
        self.running.end()
    }
}

/// The output of a pipe so far.
struct Collected {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Collected {
    fn new(mut pipe: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&bytes);
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = pipe.read(&mut buffer) {
                into.lock().unwrap().extend_from_slice(&buffer[..length]);
            }
        });
        Self { bytes, reader: Some(reader) }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }

    fn join(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
    }
}

/// Waits for a condition, at most [`PATIENCE`].
#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(POLL);
    }
}

/// Writes a file of content without repetition.
pub(crate) fn make_file(path: &Path, size: usize) {
    let mut bytes = vec![0; size];
    blake3::Hasher::new().update(path.as_os_str().as_encoded_bytes()).finalize_xof().fill(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

/// Checks that two files have the same content.
#[track_caller]
pub(crate) fn assert_same_content(left: &Path, right: &Path) {
    let hash = |path: &Path| blake3::hash(&std::fs::read(path).unwrap_or_else(|e| panic!("{path:?}: {e}")));
    assert_eq!(hash(left), hash(right), "{left:?} {right:?}");
}

/// The names in a directory, sorted.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

const POLL: Duration = Duration::from_millis(20);
