//! Running the program, and comparing what it says with what it said.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use planfetch_testkit::{ACCESS_KEY, S3Server, SECRET_KEY};
use serde_json::Value;

/// How long a process may take before the test gives up on it; no test waits for as long as this when all is well.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a process said, and how it ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    #[track_caller]
    fn new(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or_else(|| panic!("killed: {output:?}")),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Returns standard output of a process that did what it was asked for.
    #[track_caller]
    pub(crate) fn stdout(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.stdout
    }

    /// Returns standard output as JSON.
    #[track_caller]
    pub(crate) fn json(self) -> Value {
        serde_json::from_str(&self.stdout()).unwrap()
    }

    /// Returns standard error of a process that ended with this code and printed nothing.
    #[track_caller]
    pub(crate) fn failure(self, code: i32) -> String {
        assert_eq!((self.code, self.stdout.as_str()), (code, ""), "{self:?}");
        self.stderr
    }
}

/// The program in a folder, where temporary folders go too, with the credentials of a server.
pub(crate) fn command<A: AsRef<OsStr>>(
    server: Option<&S3Server>,
    arguments: impl IntoIterator<Item = A>,
    dir: &Path,
) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_planfetch"));
    command.args(arguments).current_dir(dir).env("TMPDIR", dir).env("COLUMNS", "80").stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("AWS_")) {
            command.env_remove(name);
        }
    }
    if let Some(server) = server {
        command.env("AWS_ACCESS_KEY_ID", ACCESS_KEY).env("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
        command.env("AWS_ENDPOINT_URL", server.endpoint());
    }
    command
}

/// Runs the program with arguments that are written as one line.
#[track_caller]
pub(crate) fn planfetch(server: &S3Server, line: &str, dir: &Path) -> Ran {
    Ran::new(command(Some(server), line.split_whitespace(), dir).output().unwrap())
}

/// Runs the program where no server is needed.
#[track_caller]
pub(crate) fn local(line: &str, dir: &Path) -> Ran {
    Ran::new(command(None, line.split_whitespace(), dir).output().unwrap())
}

/// The names of what lies in a folder, in order.
pub(crate) fn entries(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A process that runs beside the test. It is killed where the test fails.
pub(crate) struct Running {
    child: Option<Child>,
    lines: mpsc::Receiver<String>,
    said: Vec<String>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            // OK because where nobody reads any more, the test is over.
            stderr.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)).ok();
        });
        Self { child: Some(child), lines, said: Vec::new() }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Waits for a line on standard error.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, mut is_it: impl FnMut(&str) -> bool) {
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|error| panic!("no {what} ({error}): {:?}", self.said));
            self.said.push(line.clone());
            if is_it(&line) {
                return;
            }
        }
    }

    /// Waits until samples have come, as `--verbose` says.
    #[track_caller]
    pub(crate) fn until_samples(&mut self) {
        self.until("samples", |line| line.contains(" samples  ") && !line.starts_with("0/"));
    }

    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn end(mut self) -> Ran {
        let child = self.child.take().unwrap();
        let id = child.id();
        let (sender, ended) = mpsc::channel();
        std::thread::spawn(move || sender.send(child.wait_with_output()));
        let Ok(output) = ended.recv_timeout(PATIENCE) else {
            let _ = Command::new("kill").args(["-KILL", &id.to_string()]).status();
            panic!("it does not end: {:?}", self.said);
        };
        let mut ran = Ran::new(output.unwrap());
        self.said.extend(self.lines.iter());
        ran.stderr = self.said.join("\n");
        ran
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Compares text with that in `tests/snapshots`, or writes it there where `UPDATE_SNAPSHOTS` is set.
#[track_caller]
pub(crate) fn snapshot(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let first = expected.lines().zip(text.lines()).find(|(expected, actual)| expected != actual);
    assert!(
        expected == text,
        "{name} is not what it was; if that is meant, run the tests with UPDATE_SNAPSHOTS=1. First difference: \
         {first:?}. Now:\n{text}"
    );
}
