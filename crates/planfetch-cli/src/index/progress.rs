//! How far a check has come, in a file beside its list, so that the next run goes on from there.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// Which check it is: a run goes on with its own only.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Check {
    pub(crate) index: String,
    pub(crate) rows: u64,
    /// Those that choose rows, and say what is done with each.
    pub(crate) options: String,
    /// Of the rows, and of what else decides on what is found.
    pub(crate) digest: String,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with {} rows ({})", self.index, self.rows, self.options)
    }
}

/// A digest that tells what changed from what did not, by FNV-1a in 64 bits; nobody tries to mislead it.
#[derive(Debug)]
pub(crate) struct Digest(u64);

impl Digest {
    pub(crate) fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Adds bytes, and how many there are.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        // OK because a length fits in 64 bits.
        for &byte in bytes.iter().chain(&(bytes.len() as u64).to_le_bytes()) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What a check has done.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Progress {
    check: Check,
    pub(crate) checked: u64,
    pub(crate) missing: u64,
    pub(crate) empty: u64,
    pub(crate) undecodable: u64,
    pub(crate) unreadable: u64,
    /// The length of the list that goes with this.
    list_bytes: u64,
}

/// The list of what was found: a file with its progress, or standard output.
#[derive(Debug)]
pub(crate) struct List {
    csv: csv::Writer<Target>,
    path: Option<PathBuf>,
    pub(crate) progress: Progress,
}

/// Where rows go, and how many bytes did.
#[derive(Debug)]
struct Target {
    to: To,
    written: u64,
}

#[derive(Debug)]
enum To {
    File(BufWriter<File>),
    Stdout,
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let n = match &mut self.to {
            To::File(file) => file.write(bytes)?,
            To::Stdout => std::io::stdout().write(bytes)?,
        };
        self.written += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match &mut self.to {
            To::File(file) => file.flush(),
            To::Stdout => std::io::stdout().flush(),
        }
    }
}

/// An object that can't be loaded, and why.
#[derive(Debug, Serialize)]
pub(crate) struct Problem<'a> {
    pub(crate) row: u64,
    pub(crate) s3_uri: &'a str,
    pub(crate) label: u32,
    pub(crate) problem: &'static str,
    pub(crate) detail: String,
}

impl List {
    /// Begins the list of a check, or goes on with the one that was begun at `path`.
    pub(crate) fn open(path: Option<&Path>, check: Check) -> Result<Self, Failure> {
        let new = Progress { check, ..Progress::default() };
        let Some(path) = path else {
            let mut list = Self { csv: writer(To::Stdout, 0), path: None, progress: new };
            list.begin()?;
            return Ok(list);
        };
        let progress = match fs::read(beside(path)) {
            Ok(json) => serde_json::from_slice::<Progress>(&json).unwrap_or_else(|_| new.clone()),
            Err(_) => new.clone(),
        };
        if progress.check != new.check {
            let (beside, before, now) = (beside(path), progress.check.to_string(), new.check.to_string());
            let difference = if before == now {
                "of which the rows, or the settings of images, are no longer the same".to_owned()
            } else {
                format!("and this is one of {now}")
            };
            return Err(Failure::usage(
                format!("{} is of a check of {before}, {difference}", beside.display()),
                "delete it to begin anew, or name another file by --out",
            ));
        }
        let mut options = OpenOptions::new();
        options.create(true).truncate(progress.checked == 0).write(true);
        let mut file = options.open(path).map_err(|error| unwritable(path, &error))?;
        // What was written after the progress was saved is written again.
        file.set_len(progress.list_bytes).map_err(|error| unwritable(path, &error))?;
        std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).map_err(|error| unwritable(path, &error))?;
        let mut list = Self {
            csv: writer(To::File(BufWriter::new(file)), progress.list_bytes),
            path: Some(path.to_owned()),
            progress,
        };
        if list.progress.checked == 0 {
            list.begin()?;
        }
        Ok(list)
    }

    fn begin(&mut self) -> Result<(), Failure> {
        Ok(self.csv.write_record(["row", "s3_uri", "label", "problem", "detail"])?)
    }

    pub(crate) fn push(&mut self, problem: &Problem<'_>) -> Result<(), Failure> {
        let counter = match problem.problem {
            "missing" => &mut self.progress.missing,
            "empty" => &mut self.progress.empty,
            "undecodable" => &mut self.progress.undecodable,
            _ => &mut self.progress.unreadable,
        };
        *counter += 1;
        Ok(self.csv.serialize(problem)?)
    }

    /// Saves how far the check has come, where it can go on.
    pub(crate) fn save(&mut self) -> Result<(), Failure> {
        self.flush()?;
        let Some(path) = &self.path else { return Ok(()) };
        self.progress.list_bytes = self.csv.get_ref().written;
        let (beside, unfinished) = (beside(path), beside(path).with_extension("unfinished"));
        let written = fs::write(&unfinished, serde_json::to_vec(&self.progress)?);
        let written = written.and_then(|()| fs::rename(unfinished, &beside));
        Ok(written.map_err(|error| unwritable(&beside, &error))?)
    }

    /// Ends the list: nothing is left to go on with.
    pub(crate) fn finish(mut self) -> Result<Progress, Failure> {
        self.flush()?;
        if let Some(path) = &self.path
            && let Err(error) = fs::remove_file(beside(path))
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(unwritable(&beside(path), &error).into());
        }
        Ok(self.progress)
    }

    fn flush(&mut self) -> Result<(), Failure> {
        match (self.csv.flush(), &self.path) {
            (Err(error), Some(path)) => Err(unwritable(path, &error).into()),
            (flushed, _) => Ok(flushed?),
        }
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> String {
    format!("can't write {}: {error}", path.display())
}

fn writer(to: To, written: u64) -> csv::Writer<Target> {
    csv::WriterBuilder::new().has_headers(false).from_writer(Target { to, written })
}

/// The file that says how far a check has come.
fn beside(list: &Path) -> PathBuf {
    let mut name = list.as_os_str().to_owned();
    name.push(".progress");
    PathBuf::from(name)
}
