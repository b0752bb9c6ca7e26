//! A daemon's text files, read and printed for people and scripts. Programs like `scifctl` share
//! this module.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use runtime::{eprintln, fs, print, println};
use syscall::error::{EACCES, EINVAL, ENODEV, ENOENT, EPERM};

use crate::table::Table;

/// The list of processes.
const PROCESSES: &str = "/scheme/proc/ps";

/// The exit status for wrong arguments.
pub const STATUS_USAGE: i32 = 2;

/// The files of a daemon. Methods that fail print the reason, and return the program's exit
/// status.
#[derive(Clone, Copy, Debug)]
pub struct Files {
    /// The name of the program, which begins its error messages.
    pub program: &'static str,
    /// The directory of the files.
    pub directory: &'static str,
}

impl Files {
    /// The path of a file.
    pub fn path(&self, file: &str) -> String {
        format!("{}/{file}", self.directory)
    }

    /// The contents of a file.
    ///
    /// # Errors
    /// The exit status 1.
    pub fn read(&self, file: &str) -> Result<String, i32> {
        let path = self.path(file);
        fs::read_to_string(&path).map_err(|error| self.failed(&path, error))
    }

    /// Prints why a path cannot be used, and returns the exit status.
    pub fn failed(&self, path: &str, error: runtime::Error) -> i32 {
        let program = self.program;
        eprintln!("{program}: {path}: {error}");
        if error.errno == ENOENT || error.errno == ENODEV {
            eprintln!("{program}: is its daemon running?");
        }
        1
    }

    /// Prints that only root may do `what`, and returns the exit status.
    pub fn only_root(&self, what: &str) -> i32 {
        eprintln!("{}: {what}: only root may do that", self.program);
        1
    }

    /// Prints counters of the file `stats`: the whole table, or for scripts only the values of the
    /// named counters, one a line.
    ///
    /// # Errors
    /// The exit status 1.
    pub fn counters(&self, names: &[&str]) -> Result<(), i32> {
        let table = Table::parse(&self.read("stats")?);
        if names.is_empty() {
            show(table);
            return Ok(());
        }
        let mut status = Ok(());
        for name in names {
            let mut counters = table.pairs("counter", "value");
            match counters.find(|(counter, _)| counter == name) {
                Some((_, value)) => println!("{value}"),
                None => {
                    let program = self.program;
                    eprintln!(
                        "{program}: no counter is named {name}; `{program} stats` lists them"
                    );
                    status = Err(1);
                }
            }
        }
        status
    }

    /// Prints the file `limits`.
    ///
    /// # Errors
    /// The exit status 1.
    pub fn limits(&self) -> Result<(), i32> {
        show(Table::with_columns("limit value", &self.read("limits")?));
        Ok(())
    }

    /// Sets a limit. `rule` says, for the error message, which numbers the daemon accepts.
    ///
    /// # Errors
    /// The exit status: 1, or [`STATUS_USAGE`] if the value is no number.
    pub fn set_limit(&self, name: &str, value: &str, rule: &str) -> Result<(), i32> {
        let program = self.program;
        if value.parse::<u64>().is_err() {
            eprintln!("{program}: limits {name} {value}: the value must be a whole number");
            return Err(STATUS_USAGE);
        }
        let limits = Table::with_columns("limit value", &self.read("limits")?);
        let mut known = limits.pairs("limit", "value");
        if !known.any(|(limit, _)| limit == name) {
            eprintln!("{program}: no limit is named {name}; `{program} limits` lists them");
            return Err(1);
        }
        let path = self.path("limits");
        let line = format!("{name} {value}\n");
        fs::write(&path, line).map_err(|error| match error.errno {
            EINVAL => {
                eprintln!("{program}: limits {name} {value}: {rule}");
                1
            }
            EACCES | EPERM => self.only_root(&format!("limits {name}")),
            _ => self.failed(&path, error),
        })
    }

    /// Prints which words are not understood, and the usage. Returns the exit status.
    pub fn not_understood(&self, words: &[&str], usage: &str) -> i32 {
        eprintln!("{}: `{}` is not understood", self.program, words.join(" "));
        eprintln!("{usage}");
        STATUS_USAGE
    }
}

/// Prints a table, with a column of program names.
pub fn show(table: Table) {
    print!("{}", with_programs(table).text());
}

/// Adds a column with the names of programs to a table.
pub fn with_programs(mut table: Table) -> Table {
    // Without a list of processes no program is named.
    let processes = fs::read_to_string(PROCESSES).unwrap_or_default();
    let processes = Table::parse(&processes);
    let names: BTreeMap<&str, &str> = processes.pairs("pid", "name").collect();
    table.name_programs(&names);
    table
}
