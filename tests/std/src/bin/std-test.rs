//! Rust's standard library over the C library of the image: each part with its edges, in one node.
//! The status is the number of steps that failed; `std-test child WORD` is one of its children.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex, Once, RwLock, mpsc};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use scif::{PortId, RecvFlags, SendFlags};
use std_tests::{status, step};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some((first, rest)) = words.split_first() {
        assert_eq!(first, "child");
        child(rest);
    }
    let passed = [
        step("arguments and environment", environment),
        step("files", files),
        step("directories", directories),
        step("names and rights", attributes),
        step("devices by their names on Linux", devices),
        step("times", times),
        step("threads", threads),
        step("locks", locks),
        step("values of threads", thread_values),
        step("panics", panics),
        step("messages of panics", messages_of_panics),
        step("processes", processes),
        step("many threads start processes", processes_of_threads),
        step("sockets", sockets),
        step("sockets that do not wait", sockets_that_do_not_wait),
        step("sockets with a path", sockets_with_a_path),
        step("messages of SCIF", messages),
        step("streams of SCIF", streams),
        step("memory", memory),
    ];
    std::process::exit(status(&passed));
}

/// The work of the children of [`processes`].
fn child(words: &[String]) -> ! {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["echo"] => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).unwrap();
            print!("{text}{}", std::env::var("STD_TEST").unwrap_or_default());
            eprint!("aside");
            std::process::exit(7)
        }
        ["where"] => {
            println!("{}", std::env::current_dir().unwrap().display());
            std::process::exit(0)
        }
        ["abort"] => std::process::abort(),
        ["panic"] => panic!("{MESSAGE}"),
        ["panic", "named"] => {
            let thread = thread::Builder::new().name("named".into());
            let panicked = thread.spawn(|| panic!("{MESSAGE}")).unwrap().join();
            std::process::exit(if panicked.is_err() { 5 } else { 6 })
        }
        ["sleep"] => loop {
            thread::sleep(Duration::from_secs(60));
        },
        ["descriptors"] => {
            // The next free number says what came along besides the three streams.
            let next = File::open("/dev/null").unwrap();
            std::process::exit(next.as_raw_fd() - 3)
        }
        _ => std::process::exit(99),
    }
}

fn own_program() -> Command {
    let mut command = Command::new("std-test");
    command.arg("child");
    command
}

fn environment() {
    assert!(std::env::args().next().unwrap().ends_with("std-test"));
    let own = std::env::current_exe().unwrap();
    assert!(own.is_absolute() && own.ends_with("std-test"), "{own:?}");
    assert!(own.metadata().unwrap().is_file());
    assert!(std::env::var("PATH").is_ok());
    assert!(std::env::vars().any(|(name, _)| name == "PATH"));
}

fn files() {
    let path = "/tmp/std-file";
    let mut file = File::create(path).unwrap();
    file.write_all(b"0123456789\nsecond line\n").unwrap();
    file.sync_all().unwrap();
    assert_eq!(file.metadata().unwrap().len(), 23);
    drop(file);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    assert_eq!(file.seek(SeekFrom::Start(3)).unwrap(), 3);
    let mut two = [0; 2];
    file.read_exact(&mut two).unwrap();
    assert_eq!(&two, b"34");
    file.set_len(11).unwrap();
    assert_eq!(fs::read_to_string(path).unwrap(), "0123456789\n");
    let mut more = OpenOptions::new().append(true).open(path).unwrap();
    writeln!(more, "third").unwrap();
    let lines: Vec<String> = BufReader::new(File::open(path).unwrap())
        .lines()
        .map(Result::unwrap)
        .collect();
    assert_eq!(lines, ["0123456789", "third"]);
    assert_eq!(fs::copy(path, "/tmp/std-copy").unwrap(), 17);
    fs::rename("/tmp/std-copy", "/tmp/std-moved").unwrap();
    assert_eq!(fs::read("/tmp/std-moved").unwrap().len(), 17);
    fs::remove_file("/tmp/std-moved").unwrap();
    fs::remove_file(path).unwrap();
    assert_eq!(File::open(path).unwrap_err().kind(), ErrorKind::NotFound);
    File::create_new(path).unwrap();
    let again = File::create_new(path).unwrap_err().kind();
    assert_eq!(again, ErrorKind::AlreadyExists);
    fs::remove_file(path).unwrap();
}

fn directories() {
    fs::create_dir_all("/tmp/std/a/b").unwrap();
    fs::write("/tmp/std/a/file", "text").unwrap();
    let mut names: Vec<(String, bool)> = fs::read_dir("/tmp/std/a")
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            (name, entry.file_type().unwrap().is_dir())
        })
        .collect();
    names.sort();
    assert_eq!(names, [("b".into(), true), ("file".into(), false)]);
    assert!(fs::remove_dir("/tmp/std/a").is_err());
    fs::remove_dir_all("/tmp/std").unwrap();
    assert!(!fs::exists("/tmp/std").unwrap());
    let here = std::env::current_dir().unwrap();
    std::env::set_current_dir("/tmp").unwrap();
    fs::write("std-relative", "").unwrap();
    assert!(fs::canonicalize("std-relative").unwrap().is_absolute());
    fs::remove_file("/tmp/std-relative").unwrap();
    std::env::set_current_dir(here).unwrap();
}

fn attributes() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let path = "/tmp/std-rights";
    fs::write(path, "").unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o640)).unwrap();
    let metadata = fs::metadata(path).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o640);
    assert_eq!((metadata.uid(), metadata.is_file()), (0, true));
    assert_eq!(
        fs::read_link(path).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    let links = [
        std::os::unix::fs::symlink(path, "/tmp/std-link"),
        fs::hard_link(path, "/tmp/std-link"),
    ];
    for link in links {
        assert_eq!(link.unwrap_err().kind(), ErrorKind::Unsupported);
    }
    fs::remove_file(path).unwrap();
}

fn devices() {
    let mut random = [[0; 32]; 2];
    for bytes in &mut random {
        File::open("/dev/urandom")
            .unwrap()
            .read_exact(bytes)
            .unwrap();
    }
    assert_ne!(random[0], random[1]);
    let mut zeros = [1; 32];
    File::open("/dev/zero")
        .unwrap()
        .read_exact(&mut zeros)
        .unwrap();
    assert_eq!(zeros, [0; 32]);
    let mut null = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")
        .unwrap();
    null.write_all(b"gone").unwrap();
    assert_eq!(null.read(&mut zeros).unwrap(), 0);
}

fn times() {
    let (start, wall) = (Instant::now(), SystemTime::now());
    thread::sleep(Duration::from_millis(20));
    assert!(start.elapsed() >= Duration::from_millis(20));
    assert!(wall.elapsed().unwrap() >= Duration::from_millis(19));
    // 2020.
    assert!(
        wall.duration_since(SystemTime::UNIX_EPOCH)
            .unwrap()
            .as_secs()
            > 1_577_836_800
    );
}

fn threads() {
    let (sender, receiver) = mpsc::channel();
    let threads: Vec<_> = (0..16_u64)
        .map(|number| {
            let sender = sender.clone();
            thread::spawn(move || {
                (0..1000).for_each(|step| sender.send(number * 1000 + step).unwrap())
            })
        })
        .collect();
    drop(sender);
    let sum: u64 = receiver.iter().sum();
    assert_eq!(sum, (0..16_000).sum());
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    let mut numbers = [0; 8];
    thread::scope(|scope| {
        for (index, number) in numbers.iter_mut().enumerate() {
            scope.spawn(move || *number = index * index);
        }
    });
    assert_eq!(numbers, [0, 1, 4, 9, 16, 25, 36, 49]);
    // A small stack and a large one, both usable.
    for size in [4096, 8 << 20] {
        let built = thread::Builder::new().name("sized".into()).stack_size(size);
        let name = built
            .spawn(|| thread::current().name().map(str::to_string))
            .unwrap();
        assert_eq!(name.join().unwrap().as_deref(), Some("sized"));
    }
}

fn locks() {
    let shared = Arc::new((
        Mutex::new(0),
        Condvar::new(),
        RwLock::new(0),
        Barrier::new(8),
    ));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (count, changed, numbers, barrier) = &*shared;
                barrier.wait();
                for _ in 0..500 {
                    *count.lock().unwrap() += 1;
                    changed.notify_all();
                    *numbers.write().unwrap() += 1;
                    assert!(*numbers.read().unwrap() > 0);
                }
            })
        })
        .collect();
    let (count, changed, numbers, _) = &*shared;
    let full = changed
        .wait_while(count.lock().unwrap(), |count| *count < 4000)
        .unwrap();
    drop(full);
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    assert_eq!(
        (*count.lock().unwrap(), *numbers.read().unwrap()),
        (4000, 4000)
    );
    let (lock, timeout) = changed
        .wait_timeout(count.lock().unwrap(), Duration::from_millis(5))
        .unwrap();
    assert!(timeout.timed_out());
    drop(lock);
    static ONCE: Once = Once::new();
    static RAN: AtomicUsize = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| ONCE.call_once(|| drop(RAN.fetch_add(1, Ordering::Relaxed))));
        }
    });
    assert_eq!(RAN.load(Ordering::Relaxed), 1);
}

fn thread_values() {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    struct Value(usize);
    impl Drop for Value {
        fn drop(&mut self) {
            DROPPED.fetch_add(self.0, Ordering::Relaxed);
        }
    }
    thread_local!(static VALUE: Value = const { Value(1) });
    let threads: Vec<_> = (0..10)
        .map(|_| thread::spawn(|| VALUE.with(|value| value.0)))
        .collect();
    let sum: usize = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .sum();
    assert_eq!((sum, DROPPED.load(Ordering::Relaxed)), (10, 10));
}

fn panics() {
    struct Noted<'a>(&'a AtomicUsize);
    impl Drop for Noted<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let dropped = AtomicUsize::new(0);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _noted = Noted(&dropped);
        std::panic::resume_unwind(Box::new(17));
    }));
    assert_eq!(result.unwrap_err().downcast_ref(), Some(&17));
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
    let poisoned = Arc::new(Mutex::new(()));
    let taken = Arc::clone(&poisoned);
    let thread = thread::spawn(move || {
        let _lock = taken.lock().unwrap();
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(thread.join().is_err() && poisoned.is_poisoned());
}

/// What children say when they panic; `std-abort` says the same.
const MESSAGE: &str = "no more of it";

/// The message is on the standard error output, and the status says how the child ended.
fn messages_of_panics() {
    let said = |command: &mut Command, thread: &str, file: &str| {
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        let mut lines = text.lines().skip_while(|line| line.is_empty());
        // The number of the thread is between its name and the place.
        let first = lines.next().unwrap_or_default();
        assert!(first.starts_with(&format!("thread '{thread}' ")), "{text}");
        assert!(first.contains(&format!(" panicked at {file}:")), "{text}");
        assert_eq!(lines.next(), Some(MESSAGE), "{text}");
        let rest: Vec<String> = lines.map(str::to_string).collect();
        (output.status, rest.join("\n"))
    };
    let own = "src/bin/std-test.rs";
    let (status, rest) = said(own_program().arg("panic"), "main", own);
    assert_eq!(status.code(), Some(101));
    assert!(
        rest.starts_with("note: run with `RUST_BACKTRACE=1`"),
        "{rest}"
    );
    let mut traced = own_program();
    let (status, rest) = said(
        traced.arg("panic").env("RUST_BACKTRACE", "full"),
        "main",
        own,
    );
    assert_eq!(status.code(), Some(101));
    // Frames without names, which are stripped.
    assert!(rest.starts_with("stack backtrace:\n   0: "), "{rest}");
    assert!(rest.contains("\n   5: "), "{rest}");
    let (status, _) = said(own_program().args(["panic", "named"]), "named", own);
    assert_eq!(status.code(), Some(5));
    // A program whose panics abort.
    use std::os::unix::process::ExitStatusExt;
    let other = "src/bin/std-abort.rs";
    let (status, _) = said(&mut Command::new("std-abort"), "main", other);
    assert_eq!((status.signal(), status.code()), (Some(6), None));
}

fn processes() {
    let mut child = own_program()
        .arg("echo")
        .env("STD_TEST", " and env")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"input").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"input and env");
    assert_eq!(output.stderr, b"aside");
    assert_eq!(output.status.code(), Some(7));
    let output = own_program()
        .arg("where")
        .current_dir("/tmp")
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"/tmp\n");
    let missing = Command::new("/no/such/program").spawn();
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(
        own_program().arg("abort").status().unwrap().signal(),
        Some(6)
    );
    let mut sleeper = own_program().arg("sleep").spawn().unwrap();
    assert!(sleeper.try_wait().unwrap().is_none());
    sleeper.kill().unwrap();
    assert_eq!(sleeper.wait().unwrap().signal(), Some(9));
    let _open = File::open("/scheme/initfs/bin/sh").unwrap();
    assert_eq!(
        own_program().arg("descriptors").status().unwrap().code(),
        Some(0)
    );
}

/// The heap and the tables of the libraries are in use by other threads at every moment.
fn processes_of_threads() {
    thread::scope(|scope| {
        for number in 0..4_usize {
            scope.spawn(move || {
                for round in 0..3 {
                    let text: Vec<String> = (0..200).map(|n| (n * number).to_string()).collect();
                    let mut command = Command::new("echo");
                    let output = command.arg(&text[round]).output().unwrap();
                    assert_eq!(output.stdout, format!("{}\n", round * number).as_bytes());
                }
            });
        }
    });
}

fn sockets() {
    let listener = TcpListener::bind("127.0.0.1:3000").unwrap();
    assert_eq!(listener.local_addr().unwrap().port(), 3000);
    let server = thread::spawn(move || {
        for stream in listener.incoming().take(3) {
            let mut stream = stream.unwrap();
            let mut copy = stream.try_clone().unwrap();
            thread::spawn(move || io::copy(&mut stream, &mut copy).unwrap());
        }
    });
    let clients: Vec<_> = (0..3_usize)
        .map(|number| {
            thread::spawn(move || {
                let sent: Vec<u8> = (0..200_000).map(|at| (at * 7 + number) as u8).collect();
                let mut stream = TcpStream::connect("localhost:3000").unwrap();
                let mut receiver = stream.try_clone().unwrap();
                let received = thread::spawn(move || {
                    let mut received = Vec::new();
                    receiver.read_to_end(&mut received).unwrap();
                    received
                });
                stream.write_all(&sent).unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
                assert!(received.join().unwrap() == sent);
            })
        })
        .collect();
    clients
        .into_iter()
        .for_each(|client| client.join().unwrap());
    server.join().unwrap();
    let refused = TcpStream::connect("127.0.0.1:3999").unwrap_err().kind();
    assert_eq!(refused, ErrorKind::ConnectionRefused);
}

fn sockets_that_do_not_wait() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(false).unwrap();
    let client = thread::spawn(move || TcpStream::connect(address).unwrap());
    let (mut served, _) = listener.accept().unwrap();
    let _client = client.join().unwrap();
    served
        .set_read_timeout(Some(Duration::from_millis(10)))
        .unwrap();
    let late = served.read(&mut [0]).unwrap_err().kind();
    assert!(matches!(late, ErrorKind::WouldBlock | ErrorKind::TimedOut));
}

fn sockets_with_a_path() {
    let path = std::path::Path::new("/tmp/std-test-socket");
    let _ = fs::remove_file(path);
    let absent = UnixStream::connect(path).unwrap_err().kind();
    assert_eq!(absent, ErrorKind::NotFound);
    let listener = UnixListener::bind(path).unwrap();
    assert!(fs::metadata(path).unwrap().file_type().is_socket());
    let used = UnixListener::bind(path).unwrap_err().kind();
    assert_eq!(used, ErrorKind::AddrInUse);
    assert_eq!(listener.local_addr().unwrap().as_pathname().unwrap(), path);
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    listener.set_nonblocking(false).unwrap();
    let server = thread::spawn(move || {
        let (mut stream, address) = listener.accept().unwrap();
        assert!(address.is_unnamed());
        assert_eq!(stream.local_addr().unwrap().as_pathname().unwrap(), path);
        let mut copy = stream.try_clone().unwrap();
        io::copy(&mut stream, &mut copy).unwrap()
    });
    let mut stream = UnixStream::connect(path).unwrap();
    assert!(stream.local_addr().unwrap().is_unnamed());
    assert_eq!(stream.peer_addr().unwrap().as_pathname().unwrap(), path);
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    stream.write_all(b"there and back").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut received = String::new();
    stream.read_to_string(&mut received).unwrap();
    assert_eq!(received, "there and back");
    assert_eq!(server.join().unwrap(), 14);
    assert!(stream.take_error().unwrap().is_none());
    // The listener has gone, its file has not.
    let refused = UnixStream::connect(path).unwrap_err().kind();
    assert_eq!(refused, ErrorKind::ConnectionRefused);
    fs::remove_file(path).unwrap();
    let (mut one, mut other) = UnixStream::pair().unwrap();
    assert!(one.peer_addr().unwrap().is_unnamed());
    one.write_all(b"pair").unwrap();
    drop(one);
    let mut received = Vec::new();
    other.read_to_end(&mut received).unwrap();
    assert_eq!(received, b"pair");
}

/// The library of SCIF in a program with the standard library.
fn messages() {
    let listener = scif::Listener::bind(4100).unwrap();
    let server = thread::spawn(move || {
        let (peer, _) = listener.accept().unwrap();
        let mut bytes = [0; 5];
        peer.recv(&mut bytes, RecvFlags::BLOCK).unwrap();
        peer.send(&bytes, SendFlags::BLOCK).unwrap();
        // The peer takes it before it closes.
        let _ = peer.recv(&mut bytes, RecvFlags::BLOCK);
    });
    let own = scif::nodes().unwrap().own;
    let peer = scif::connect(PortId::new(own, 4100)).unwrap();
    peer.send(b"hello", SendFlags::BLOCK).unwrap();
    let mut bytes = [0; 5];
    peer.recv(&mut bytes, RecvFlags::BLOCK).unwrap();
    assert_eq!(&bytes, b"hello");
    drop(peer);
    server.join().unwrap();
}

/// A connection of SCIF as a stream of the standard library.
fn streams() {
    let listener = scif::Listener::bind(4101).unwrap();
    assert!(listener.as_fd().as_raw_fd() >= 0);
    let server = thread::spawn(move || {
        let (peer, _) = listener.accept().unwrap();
        // Each line back, in capitals; the end of the stream is the end of the lines.
        for line in BufReader::new(&peer).lines() {
            writeln!(&peer, "{}", line.unwrap().to_uppercase()).unwrap();
        }
    });
    let own = scif::nodes().unwrap().own;
    let mut peer = scif::connect(PortId::new(own, 4101)).unwrap();
    assert_eq!(peer.as_fd().as_raw_fd(), peer.as_raw_fd());
    let lines: String = (0..1000).map(|number| format!("line {number}\n")).collect();
    peer.write_all(lines.as_bytes()).unwrap();
    let mut back = vec![0; lines.len()];
    peer.read_exact(&mut back).unwrap();
    assert_eq!(String::from_utf8(back).unwrap(), lines.to_uppercase());
    drop(peer);
    server.join().unwrap();
    let refused = scif::connect(PortId::new(own, 4101)).map(drop);
    let refused = io::Error::from(refused.unwrap_err());
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

fn memory() {
    let mut map = HashMap::new();
    for number in 0..20_000_u64 {
        map.insert(number.wrapping_mul(0x9e37_79b9_7f4a_7c15), vec![number; 3]);
    }
    assert_eq!(map.len(), 20_000);
    let sum: u64 = map.values().map(|values| values[2]).sum();
    assert_eq!(sum, (0..20_000).sum());
    let big: Vec<u8> = vec![1; 16 << 20];
    assert_eq!(
        big.iter().map(|byte| u64::from(*byte)).sum::<u64>(),
        16 << 20
    );
}
