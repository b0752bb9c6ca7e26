//! A session: receives the request and files of one `scifrun`, runs the program, and passes it
//! input and signals from the connection. [`pump`](crate::pump) sends its output back.

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
use syscall::error::{EEXIST, ENOEXEC, Error, Result};

use crate::pump::{self, Output};

/// The signal that ends programs whose user has gone, as a terminal sends it.
const SIGHUP: u32 = 1;
/// The signal that no program can catch.
const SIGKILL: u32 = 9;
/// How long a program may take to end after SIGHUP.
const CLEAN_UP_LIMIT: Duration = Duration::from_secs(2);
/// How long to wait for a killed program to end, and the time between two checks.
const END_LIMIT: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(5);

/// The directory in which runs with files get theirs.
const DIRECTORIES: &str = "/tmp";

/// A result, or the refusal to send to the client.
type Answer<T> = core::result::Result<T, Refusal>;
/// A result, or the failure of the connection: the client has gone or sends nonsense.
type Outcome<T> = core::result::Result<T, Failure>;

/// Serves the connection behind the descriptor `fd`.
pub fn main(fd: usize) -> i32 {
    let connection = Arc::new(Connection::new(Endpoint::from_file(Fd::new(fd))));
    let session = match begin(&connection) {
        Ok(Ok(session)) => session,
        Ok(Err(refusal)) => {
            // The result does not matter: a peer that has gone needs no answer.
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

/// Ends the run after the client has gone: the program, and the processes it has started, which
/// are in its group. A program that catches SIGHUP has [`CLEAN_UP_LIMIT`] for its own end. Returns
/// the exit status.
fn abandon(pid: u32, directory: &Directory) -> i32 {
    // All end first, because the directory must not change while it is removed.
    if !ends_by(pid, SIGHUP, CLEAN_UP_LIMIT) && !ends_by(pid, SIGKILL, END_LIMIT) {
        runtime::eprintln!("WARN scifrund: process {pid} was killed and did not end");
    }
    // It fails if none of them is left.
    let _ = process::kill_group(pid, SIGKILL);
    let end = Instant::now() + END_LIMIT;
    while !directory.remove() && Instant::now() < end {
        sleep(LOOK);
    }
    1
}

/// Sends the program a signal, and waits for its end. False if the time passes before.
fn ends_by(pid: u32, signal: u32, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    // A program that has ended already cannot be sent a signal.
    let mut is_there = process::kill(pid, signal).is_ok();
    while is_there && Instant::now() < end {
        sleep(LOOK);
        is_there = process::kill(pid, 0).is_ok();
    }
    !is_there
}

/// A program that runs for a client.
struct Session {
    pid: u32,
    /// The pipe for its input; `None` once the input has ended.
    input: Option<Fd>,
    /// Whether the program has ended; the client has got the report, or gets it next.
    is_over: Arc<AtomicBool>,
    directory: Directory,
}

/// The path of the run's directory, if it has one.
#[derive(Clone)]
struct Directory(Option<String>);

impl Directory {
    /// Removes the directory with all files in it. Returns whether it is gone; it stays if a
    /// process makes files in it meanwhile.
    fn remove(&self) -> bool {
        let Some(path) = &self.0 else { return true };
        remove_tree(path, 0);
        fs::metadata(path).is_err()
    }
}

/// The wait status that is reported if that of the program is not known: exit status 255, as ssh's
/// for a failure of its own.
const UNKNOWN_END: i32 = 255 << 8;

/// How many levels of directories are removed.
const MAX_DEPTH: u32 = 32;

fn remove_tree(path: &str, depth: u32) {
    if let Ok(entries) = fs::read_dir(path) {
        for entry in entries.flatten() {
            let name = entry.file_name();
            let below = format!("{path}/{name}");
            match name {
                "." | ".." => {}
                _ if entry.is_dir() && depth < MAX_DEPTH => remove_tree(&below, depth + 1),
                // Files that cannot be removed stay.
                _ => drop(fs::remove_file(&below)),
            }
        }
    }
    let _ = fs::remove_dir(path);
}

/// The refusal for an error, with its reason for the client.
fn refusal(what: &str, error: Error) -> Refusal {
    Refusal {
        errno: error.errno.unsigned_abs(),
        text: format!("{what}: {error}"),
    }
}

/// Receives the request and files, and starts the program.
fn begin(connection: &Arc<Connection>) -> Outcome<Answer<Session>> {
    let mut payload = Vec::new();
    if connection.receive(&mut payload)? != Kind::Request {
        return Err(Malformed.into());
    }
    let request = Request::decode(&payload)?;
    // From here on this process has only the rights of the user for whom it runs.
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
    // All files are received even after an error: the client sends them all before it reads.
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

/// Returns the directory of the run, which it makes if there is none yet.
fn make_directory(directory: &mut Directory) -> Answer<String> {
    if let Some(path) = &directory.0 {
        return Ok(path.clone());
    }
    let mut path = format!("{DIRECTORIES}/scifrun-{}", process::id());
    let mut made = fs::create_dir(&path);
    if made.is_err_and(|error| error.errno == EEXIST) {
        // Anybody may have made it; the time is no name that can be foreseen.
        path = format!("{path}-{:x}", Instant::now().as_nanos());
        made = fs::create_dir(&path);
    }
    made.map_err(|error| refusal(&path, error))?;
    directory.0 = Some(path.clone());
    Ok(path)
}

/// A new pipe: the end to read from and the end to write to.
pub fn pipe() -> Result<(Fd, Fd)> {
    let reader = Fd::open("/scheme/pipe", O_CLOEXEC, 0)?;
    let writer = Fd::new(libredox::call::dup(reader.raw(), b"write")?);
    Ok((reader, writer))
}

/// Starts the program, and the threads that serve its streams.
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
    // A session of its own, apart from the system's: a program that signals all processes means
    // those of users. What the program starts is in its group.
    let run = |name: &str, arguments: &[String]| {
        let mut command = Command::new(name);
        command.args(arguments).own_session();
        set_variables(&mut command, request);
        command.stdin(&stdin.0).stdout(&stdout.1).stderr(&stderr.1);
        command.spawn()
    };
    let spawned = match run(name, &request.arguments[1..]) {
        // The file is a script, so a shell runs it.
        Err(error) if error.errno == ENOEXEC => run("sh", &request.arguments),
        other => other,
    };
    let child = spawned.map_err(|error| refusal(name, error))?;
    let pid = child.pid();
    // Only the program keeps its ends of the pipes, so that their ends show when it closes them.
    drop((stdin.0, stdout.1, stderr.1));
    let failed = |error| {
        // Without the threads the program cannot be served. An error means that it has ended.
        let _ = process::kill(pid, SIGKILL);
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
    // The client must receive this before the program's output.
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

/// Changes to the directory in which to run the program; its path may be relative to it.
fn enter(request: &Request, directory: &Directory) -> Answer<()> {
    let path = match &directory.0 {
        _ if !request.directory.is_empty() => &request.directory,
        Some(path) => path,
        None => return Ok(()),
    };
    env::set_current_dir(path).map_err(|error| refusal(path, error))
}

/// Waits for the program's end and reports it to the pump.
fn wait_for(mut child: Child, reports: &Fd) {
    let status = match child.wait() {
        Ok(status) => status.into_raw(),
        Err(error) => {
            runtime::eprintln!(
                "ERROR scifrund: waiting for process {}: {error}",
                child.pid()
            );
            UNKNOWN_END
        }
    };
    // The reader ends only with this process.
    let _ = runtime::io::write_all(reports.raw(), &pump::ended(status));
}

impl Session {
    /// Handles the client's frames until the client goes; then the program ends with all processes
    /// it has started. If the program has ended before, its background processes go on.
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
                    // The pipe has room for a whole window.
                    runtime::io::write_all(input.raw(), payload)?;
                }
            }
            Kind::StdinEnd => self.input = None,
            Kind::Signal => {
                let signal = protocol::decode_number(payload)?;
                // The program may have ended, or belong to a user whom this one may not signal.
                let _ = process::kill(self.pid, signal);
            }
            _ => return Err(Malformed.into()),
        }
        Ok(())
    }
}
