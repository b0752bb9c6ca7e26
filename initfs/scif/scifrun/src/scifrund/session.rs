//! A session: receives what one `scifrun` wants to run, runs it, and passes the connection's frames
//! on to it. Its output is passed on by [`pump`](crate::pump).

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use libredox::Fd;
use libredox::flag::O_CLOEXEC;
use runtime::process::{self, Child, Command};
use runtime::time::{Duration, Instant, sleep};
use runtime::{env, fs, thread};
use scif::Endpoint;
use scifrun::connection::{Connection, Failure, Incoming};
use scifrun::protocol::{self, FileHeader, Kind, Malformed, Refusal, Request, STDIN_WINDOW};
use syscall::error::{ENOEXEC, Error, Result};

use crate::pump::{self, Output};

/// The signal that tells programs that their user has gone, as from a terminal.
const SIGHUP: u32 = 1;
/// How long it is waited for the end of a program that was killed, and between two looks.
const END_LIMIT: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(5);

/// Where runs with files have their directories.
const DIRECTORIES: &str = "/tmp";

/// A result, or the refusal that the client gets.
type Answer<T> = core::result::Result<T, Refusal>;
/// Something, or the client is gone or talks nonsense.
type Outcome<T> = core::result::Result<T, Failure>;

/// Serves the connection behind the descriptor.
pub fn main(fd: usize) -> i32 {
    let connection = Arc::new(Connection::new(Endpoint::from_file(Fd::new(fd))));
    // The end of the run ends all its processes.
    let led = process::lead_group();
    let begun = led.map_err(Failure).and_then(|()| begin(&connection));
    let session = match begun {
        Ok(Ok(session)) => session,
        Ok(Err(refusal)) => {
            // A peer that has gone needs no answer.
            let _ = connection.send(Kind::Refused, &refusal.encode());
            return 1;
        }
        Err(Failure(error)) => {
            runtime::eprintln!("WARN scifrund: a client went before its program began: {error}");
            return 1;
        }
    };
    session.serve(&connection)
}

/// The client has gone: ends the program, what it has started, and this process.
fn abandon(pid: u32, directory: &Directory) -> i32 {
    // The program first: what its directory holds must not change while it is removed.
    let end = Instant::now() + END_LIMIT;
    while process::kill(pid, SIGHUP).is_ok() && Instant::now() < end {
        sleep(LOOK);
    }
    directory.remove();
    let _ = process::kill_group(SIGHUP);
    1
}

/// A program that runs.
struct Session {
    pid: u32,
    /// Where its input goes; none: it gets no more.
    input: Option<Fd>,
    /// Whether the client knows that it has ended.
    is_over: Arc<AtomicBool>,
    directory: Directory,
}

/// The directory of the run, if it has one.
#[derive(Clone)]
struct Directory(Option<String>);

impl Directory {
    /// Removes it with the files in it.
    fn remove(&self) {
        let Some(path) = &self.0 else { return };
        remove_tree(path, 0);
    }
}

/// How deeply directories are looked into when they are removed.
const MAX_DEPTH: u32 = 32;

fn remove_tree(path: &str, depth: u32) {
    if let Ok(entries) = fs::read_dir(path) {
        for entry in entries.flatten() {
            let name = entry.file_name();
            let below = format!("{path}/{name}");
            match name {
                "." | ".." => {}
                _ if entry.is_dir() && depth < MAX_DEPTH => remove_tree(&below, depth + 1),
                // Files that cannot be removed are left to their owner.
                _ => drop(fs::remove_file(&below)),
            }
        }
    }
    let _ = fs::remove_dir(path);
}

/// Why it is not run, for the client.
fn refusal(what: &str, error: Error) -> Refusal {
    Refusal {
        errno: error.errno.unsigned_abs(),
        text: format!("{what}: {error}"),
    }
}

/// Receives request and files, and starts the program.
fn begin(connection: &Arc<Connection>) -> Outcome<Answer<Session>> {
    let mut payload = Vec::new();
    if connection.receive(&mut payload)? != Kind::Request {
        return Err(Malformed.into());
    }
    let request = Request::decode(&payload)?;
    // From here on everything happens with the rights of the user to be served.
    if let Err(error) = process::set_own_ids(request.uid, request.gid) {
        return Ok(Err(refusal("becoming the user", error)));
    }
    let mut directory = Directory(None);
    let result = prepare(connection, &request, &mut directory, &mut payload);
    if !matches!(result, Ok(Ok(_))) {
        directory.remove();
    }
    result
}

fn prepare(
    connection: &Arc<Connection>,
    request: &Request,
    directory: &mut Directory,
    payload: &mut Vec<u8>,
) -> Outcome<Answer<Session>> {
    let mut problem = None;
    if !request.fetch.is_empty() {
        problem = make_directory(directory).err();
    }
    let mut incoming: Option<Incoming> = None;
    // All files are taken in any case: the client sends them before it listens.
    loop {
        match connection.receive(payload)? {
            Kind::File if incoming.as_ref().is_none_or(Incoming::is_complete) => {
                let header = FileHeader::decode(payload)?;
                incoming = None;
                let made = make_directory(directory).and_then(|path| {
                    Incoming::create(&format!("{path}/{}", header.name), &header)
                        .map_err(|error| refusal(&header.name, error))
                });
                match made {
                    Ok(file) => incoming = Some(file),
                    Err(refusal) => problem = problem.or(Some(refusal)),
                }
            }
            Kind::Data => {
                if let Some(file) = &mut incoming
                    && let Err(error) = file.write(payload)
                {
                    problem = problem.or(Some(refusal("writing a file", error)));
                    incoming = None;
                }
            }
            Kind::Start if incoming.as_ref().is_none_or(Incoming::is_complete) => break,
            _ => return Err(Malformed.into()),
        }
    }
    drop(incoming);
    if let Some(refusal) = problem {
        return Ok(Err(refusal));
    }
    Ok(start(connection, request, directory))
}

/// The directory of the run, made now if it is not there.
fn make_directory(directory: &mut Directory) -> Answer<String> {
    if let Some(path) = &directory.0 {
        return Ok(path.clone());
    }
    let path = format!("{DIRECTORIES}/scifrun-{}", process::id());
    fs::create_dir(&path).map_err(|error| refusal(&path, error))?;
    directory.0 = Some(path.clone());
    Ok(path)
}

/// A new pipe: the end to read and the end to write.
pub fn pipe() -> Result<(Fd, Fd)> {
    let reader = Fd::open("/scheme/pipe", O_CLOEXEC, 0)?;
    let writer = Fd::new(libredox::call::dup(reader.raw(), b"write")?);
    Ok((reader, writer))
}

/// Starts the program, and the threads that pass on what comes from it.
fn start(
    connection: &Arc<Connection>,
    request: &Request,
    directory: &Directory,
) -> Answer<Session> {
    let pipes = || Ok::<_, Error>((pipe()?, pipe()?, pipe()?, pipe()?, pipe()?));
    let (stdin, stdout, stderr, input, reports) =
        pipes().map_err(|error| refusal("pipes", error))?;
    enter(request, directory)?;
    let name = &request.arguments[0];
    let mut command = Command::new(name);
    command.args(&request.arguments[1..]);
    set_variables(&mut command, request);
    command.stdin(&stdin.0).stdout(&stdout.1).stderr(&stderr.1);
    let spawned = match command.spawn() {
        // A script: its shell runs it.
        Err(error) if error.errno == ENOEXEC => {
            let mut shell = Command::new("sh");
            shell.args(&request.arguments);
            set_variables(&mut shell, request);
            shell.stdin(&stdin.0).stdout(&stdout.1).stderr(&stderr.1);
            shell.spawn()
        }
        other => other,
    };
    let child = spawned.map_err(|error| refusal(name, error))?;
    let pid = child.pid();
    // The program's ends are the program's alone: their end is to be seen.
    drop((stdin.0, stdout.1, stderr.1));
    let failed = |error| {
        // Without the threads there is no use in it; its group goes with this process.
        let _ = process::kill(pid, SIGHUP);
        refusal("threads", error)
    };
    let taken =
        Fd::new(libredox::call::dup(reports.1.raw(), b"").map_err(|error| failed(error.into()))?);
    thread::spawn(move || pump::input(&input.0, stdin.1, &taken)).map_err(failed)?;
    let report_writer = reports.1;
    thread::spawn(move || wait_for(child, &report_writer)).map_err(failed)?;
    let output = Output {
        connection: connection.clone(),
        stdout: stdout.0,
        stderr: stderr.0,
        reports: reports.0,
        fetch: request.fetch.clone(),
        directory: directory.0.clone().unwrap_or_default(),
        is_over: Arc::default(),
    };
    let is_over = output.is_over.clone();
    // Before the program's first words.
    let _ = connection.send(Kind::Started, &pid.to_le_bytes());
    let directory = directory.clone();
    let cleaner = directory.clone();
    let passer = move || {
        let status = match output.run() {
            Ok(()) => 0,
            Err(error) => {
                runtime::eprintln!("INFO scifrund: a client went before its program: {error}");
                abandon(pid, &cleaner)
            }
        };
        cleaner.remove();
        process::exit(status)
    };
    thread::spawn(passer).map_err(failed)?;
    Ok(Session {
        pid,
        input: Some(input.1),
        is_over,
        directory,
    })
}

fn set_variables(command: &mut Command, request: &Request) {
    for variable in &request.environment {
        if let Some((name, value)) = variable.split_once('=') {
            command.env(name, value);
        }
    }
}

/// Goes to where the program is to run, which it may be found by.
fn enter(request: &Request, directory: &Directory) -> Answer<()> {
    let path = match &directory.0 {
        _ if !request.directory.is_empty() => &request.directory,
        Some(path) => path,
        None => return Ok(()),
    };
    env::set_current_dir(path).map_err(|error| refusal(path, error))
}

/// Waits for the end of the program and tells it.
fn wait_for(mut child: Child, reports: &Fd) {
    let status = child.wait().map_or(0, |status| status.into_raw());
    // The reader ends with this process only.
    let _ = runtime::io::write_all(reports.raw(), &pump::ended(status));
}

impl Session {
    /// Takes what the client sends until it goes; then the program ends with all that it has
    /// started. If the program ended before, what it left in the background goes on.
    fn serve(mut self, connection: &Connection) -> i32 {
        let mut payload = Vec::new();
        while let Ok(kind) = connection.receive(&mut payload)
            && self.take(kind, &payload).is_ok()
        {}
        if self.is_over.load(Ordering::Acquire) {
            self.directory.remove();
            return 0;
        }
        abandon(self.pid, &self.directory)
    }

    fn take(&mut self, kind: Kind, payload: &[u8]) -> Outcome<()> {
        match kind {
            Kind::Stdin if payload.len() <= STDIN_WINDOW => {
                if let Some(input) = &self.input {
                    // It has room for a window.
                    runtime::io::write_all(input.raw(), payload)?;
                }
            }
            Kind::StdinEnd => self.input = None,
            Kind::Signal => {
                let signal = protocol::decode_number(payload)?;
                // The program may have ended, or not be ours to end.
                let _ = process::kill(self.pid, signal);
            }
            _ => return Err(Malformed.into()),
        }
        Ok(())
    }
}
