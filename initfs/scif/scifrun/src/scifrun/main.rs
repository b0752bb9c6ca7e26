//! `scifrun`: runs a program on another node. `scifrun --help` explains its use, the library's
//! module `protocol` the frames on the connection.
#![cfg_attr(target_os = "redox", no_std, no_main)]

#[cfg(target_os = "redox")]
extern crate alloc;

#[cfg(target_os = "redox")]
mod client {
    use alloc::format;
    use alloc::string::{String, ToString};
    use alloc::sync::Arc;
    use alloc::vec::Vec;
    use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use libredox::Fd;
    use libredox::flag::O_CLOEXEC;
    use runtime::io::{Read, Write};
    use runtime::{env, eprintln, io, print, println, process, thread};
    use scif::{Endpoint, Errno, PortId};
    use scifrun::connection::{Connection, Failure, Incoming};
    use scifrun::options::{self, Command, HELP, Options};
    use scifrun::protocol::{
        self, FileHeader, Kind, MAX_REQUEST, Malformed, PORT, Refusal, Request, STDIN_WINDOW,
        Unsent,
    };
    use syscall::error::{EINTR, ENOENT, EPIPE, Error};

    /// Exit status for wrong arguments.
    const STATUS_USAGE: i32 = 2;
    /// Exit status if the node cannot be reached, the same as that of ssh.
    const STATUS_UNREACHED: i32 = 255;
    /// Exit status for an error of a local file or stream.
    const STATUS_NO_FILE: i32 = 1;
    /// Exit statuses if the program was not found, and if it cannot be run.
    const STATUS_NOT_FOUND: i32 = 127;
    const STATUS_CANNOT_RUN: i32 = 126;

    runtime::main!(main);

    fn main() -> i32 {
        let words: Vec<String> = env::args().skip(1).collect();
        match options::parse(&words) {
            Ok(Command::Help) => {
                print!("{HELP}");
                io::printed("scifrun", 0)
            }
            Ok(Command::Version) => {
                println!("scifrun (Skiff) {}", env!("CARGO_PKG_VERSION"));
                io::printed("scifrun", 0)
            }
            Ok(Command::Run(options)) => run(&options).unwrap_or_else(|problem| {
                eprintln!("scifrun: {}", problem.text);
                problem.status
            }),
            Err(problem) => {
                eprintln!("scifrun: {problem}");
                eprintln!("`scifrun --help` says more");
                STATUS_USAGE
            }
        }
    }

    /// The reason for a failure, with its exit status.
    struct Problem {
        status: i32,
        text: String,
    }

    fn unreached(text: impl Into<String>) -> Problem {
        Problem {
            status: STATUS_UNREACHED,
            text: text.into(),
        }
    }

    fn local(what: &str, error: Error) -> Problem {
        Problem {
            status: STATUS_NO_FILE,
            text: format!("{what}: {error}"),
        }
    }

    fn run(options: &Options) -> Result<i32, Problem> {
        let node = options.node;
        let request = Request {
            uid: options.user,
            gid: options.user,
            directory: options.directory.clone(),
            arguments: options.arguments.clone(),
            environment: options.environment.clone(),
            fetch: options.get.iter().map(|get| get.name.clone()).collect(),
        };
        let request = request.encode().map_err(|length| Problem {
            status: STATUS_USAGE,
            text: format!(
                "arguments, variables and names of files take {length} bytes; at most \
                 {MAX_REQUEST} can be sent"
            ),
        })?;
        let connection = Arc::new(connect(node)?);
        let lost =
            |Failure(error)| unreached(format!("node {node}: the connection ended: {error}"));
        // The other side can still send its reason for a refusal after it has stopped receiving.
        let sent = send(&connection, options, &request)?;
        let credit = match (sent, options.no_input) {
            (Ok(()), false) => {
                Some(pass_input(&connection).map_err(|error| local("input", error))?)
            }
            _ => None,
        };
        let status = Client::new(options, credit)
            .listen(&connection)
            .map_err(lost)?;
        status.map_err(|text| Problem {
            text: format!("node {node}: {}", text.text),
            ..text
        })
    }

    /// Connects from a port that proves to the other side that root asks.
    fn connect(node: u16) -> Result<Connection, Problem> {
        let failed = |error: scif::Error| unreached(format!("node {node}: {error}"));
        let endpoint = Endpoint::open().map_err(failed)?;
        match endpoint.bind_as_root() {
            Ok(_) => {}
            Err(scif::Error::Scif(Errno::AccessDenied)) => {
                return Err(unreached("only root may run programs on other nodes"));
            }
            Err(scif::Error::Scif(Errno::NoSpace)) => {
                return Err(unreached("all ports that only root may bind are in use"));
            }
            Err(error) => return Err(failed(error)),
        }
        match endpoint.connect(PortId::new(node, PORT)) {
            Ok(_) => Ok(Connection::new(endpoint)),
            Err(scif::Error::Scif(Errno::NoDevice)) => Err(unreached(format!(
                "node {node} is not online (`scifctl nodes`; `scifctl wait {node}`)"
            ))),
            Err(scif::Error::Scif(Errno::ConnectionRefused)) => Err(unreached(format!(
                "node {node}: scifrund does not run there"
            ))),
            Err(error) => Err(failed(error)),
        }
    }

    /// Sends everything that the program needs: the encoded request, then the files. The inner
    /// error means that the other side has gone; it may have sent the reason first.
    fn send(
        connection: &Connection,
        options: &Options,
        request: &[u8],
    ) -> Result<Result<(), Error>, Problem> {
        if let Err(error) = connection.send(Kind::Request, request) {
            return Ok(Err(error));
        }
        for file in &options.send {
            // As the shell runs a script that it may only read.
            let is_program = options
                .arguments
                .first()
                .and_then(|name| name.strip_prefix("./"));
            let rights = match is_program == Some(file.name.as_str()) {
                true => 0o111,
                false => 0,
            };
            match connection.send_file(&file.path, &file.name, rights) {
                Ok(()) => {}
                Err(Unsent::Gone(error)) => return Ok(Err(error)),
                Err(unsent) => return Err(not_sent(&file.path, unsent)),
            }
        }
        Ok(connection.send(Kind::Start, &[]))
    }

    /// The problem of a file that was not sent.
    fn not_sent(path: &str, unsent: Unsent<Error>) -> Problem {
        let text = match unsent {
            Unsent::Irregular => format!("{path} is no regular file"),
            Unsent::Shrunk => format!("{path} has become shorter while it was sent"),
            Unsent::Unopened(error) | Unsent::Unread(error) | Unsent::Gone(error) => {
                return local(path, error);
            }
        };
        Problem {
            status: STATUS_NO_FILE,
            text,
        }
    }

    /// The bytes of standard input that the other side has taken, for the thread that passes them
    /// on.
    struct Credit {
        taken: AtomicUsize,
        /// Whether that thread waits for more, or is about to.
        is_awaited: AtomicBool,
        /// A pipe: a byte ends the wait.
        wake: Fd,
    }

    impl Credit {
        fn add(&self, count: u32) {
            self.taken.fetch_add(count as usize, Ordering::SeqCst);
            if self.is_awaited.swap(false, Ordering::SeqCst) {
                // Once the input has ended nothing waits any more.
                let _ = io::write_all(self.wake.raw(), &[0]);
            }
        }

        fn take(&self) -> usize {
            self.taken.swap(0, Ordering::SeqCst)
        }

        /// Waits until there is some, and takes it. `None`: the pipe has failed.
        fn wait(&self, wakes: &Fd) -> Option<usize> {
            loop {
                self.is_awaited.store(true, Ordering::SeqCst);
                let taken = self.take();
                if taken > 0 {
                    self.is_awaited.store(false, Ordering::SeqCst);
                    return Some(taken);
                }
                match wakes.read(&mut [0]) {
                    Ok(1) => {}
                    Err(error) if error.errno() == EINTR => {}
                    _ => return None,
                }
            }
        }
    }

    /// Starts a thread that passes on standard input, as far as the other side takes it.
    fn pass_input(connection: &Arc<Connection>) -> Result<Arc<Credit>, Error> {
        let wakes = Fd::open("/scheme/pipe", O_CLOEXEC, 0)?;
        let credit = Arc::new(Credit {
            taken: AtomicUsize::new(0),
            is_awaited: AtomicBool::new(false),
            wake: Fd::new(libredox::call::dup(wakes.raw(), b"write")?),
        });
        let (connection, given) = (connection.clone(), credit.clone());
        thread::spawn(move || input(&connection, &given, &wakes))?;
        Ok(credit)
    }

    fn input(connection: &Connection, credit: &Credit, wakes: &Fd) {
        let mut window = STDIN_WINDOW;
        let mut block = alloc::vec![0; STDIN_WINDOW];
        loop {
            window += credit.take();
            if window == 0 {
                let Some(taken) = credit.wait(wakes) else {
                    return;
                };
                window = taken;
            }
            match io::stdin().read(&mut block[..window]) {
                Ok(0) => break,
                Ok(count) => {
                    if connection.send(Kind::Stdin, &block[..count]).is_err() {
                        // The thread that receives learns of the end by itself.
                        return;
                    }
                    window -= count;
                }
                Err(error) if error.errno == EINTR => {}
                // The end of the input would be a lie. The end of the connection ends the program.
                Err(error) => fail("input", error),
            }
        }
        let _ = connection.send(Kind::StdinEnd, &[]);
    }

    /// The receiver of frames from the other side.
    struct Client<'a> {
        options: &'a Options,
        credit: Option<Arc<Credit>>,
        /// The file that is being received, and the names of those received so far.
        incoming: Option<Incoming>,
        came: Vec<String>,
        problem: Option<Problem>,
    }

    impl<'a> Client<'a> {
        fn new(options: &'a Options, credit: Option<Arc<Credit>>) -> Self {
            Client {
                options,
                credit,
                incoming: None,
                came: Vec::new(),
                problem: None,
            }
        }

        /// Handles frames until the program has ended. Returns its exit status, or why it did not
        /// run.
        fn listen(mut self, connection: &Connection) -> Result<Result<i32, Problem>, Failure> {
            let mut payload = Vec::new();
            loop {
                match connection.receive(&mut payload)? {
                    Kind::Started if self.options.no_input => {
                        // The program may have ended already; its output is still to come.
                        let _ = connection.send(Kind::StdinEnd, &[]);
                    }
                    Kind::Started => {}
                    Kind::Stdout => write(&mut io::stdout(), "output", &payload),
                    Kind::Stderr => write(&mut io::stderr(), "error output", &payload),
                    Kind::Taken => {
                        let count = protocol::decode_taken(&payload)?;
                        if let Some(credit) = &self.credit {
                            credit.add(count);
                        }
                    }
                    Kind::File => self.file(&FileHeader::decode(&payload)?)?,
                    Kind::Data => self.data(&payload),
                    Kind::Refused => return Ok(Err(refused(&payload)?)),
                    Kind::Exit => return Ok(self.end(protocol::decode_exit(&payload)?)),
                    _ => return Err(Malformed.into()),
                }
            }
        }

        fn file(&mut self, header: &FileHeader) -> Result<(), Failure> {
            let wanted = self.options.get.iter().find(|get| get.name == header.name);
            // Only files that were asked for are written.
            let wanted = wanted.ok_or(Malformed)?;
            self.came.push(header.name.clone());
            self.incoming = None;
            match Incoming::create(&wanted.path, header) {
                Ok(file) => self.incoming = Some(file),
                Err(error) => self.problem = Some(local(&wanted.path, error)),
            }
            Ok(())
        }

        fn data(&mut self, payload: &[u8]) {
            if let Some(file) = &mut self.incoming
                && let Err(error) = file.write(payload)
            {
                self.incoming = None;
                self.problem = Some(local("writing a file", error));
            }
        }

        fn end(self, status: i32) -> Result<i32, Problem> {
            if let Some(problem) = self.problem {
                return Err(problem);
            }
            let mut missing = self.options.get.iter().map(|get| &get.name);
            match missing.find(|name| !self.came.contains(name)) {
                Some(name) if status == 0 => Err(local(name, Error::new(ENOENT))),
                _ => Ok(status),
            }
        }
    }

    fn refused(payload: &[u8]) -> Result<Problem, Malformed> {
        let refusal = Refusal::decode(payload)?;
        Ok(Problem {
            status: match refusal.errno.cast_signed() {
                ENOENT => STATUS_NOT_FOUND,
                _ => STATUS_CANNOT_RUN,
            },
            text: refusal.text.to_string(),
        })
    }

    /// Writes output of the program. If it cannot be written, the run ends, without a message if
    /// its reader has gone.
    fn write(stream: &mut impl Write, what: &str, bytes: &[u8]) {
        match stream.write_all(bytes) {
            Ok(()) => {}
            Err(error) if error.errno == EPIPE => process::exit(STATUS_NO_FILE),
            Err(error) => fail(what, error),
        }
    }

    /// Ends the run because of an error of a stream of this program.
    fn fail(what: &str, error: Error) -> ! {
        let problem = local(what, error);
        eprintln!("scifrun: {}", problem.text);
        process::exit(problem.status)
    }
}

/// The program runs on Redox only; elsewhere the library is tested.
#[cfg(not(target_os = "redox"))]
fn main() {}
