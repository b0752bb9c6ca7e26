//! The steps of the boot: managers, the scheme `initfs`, init.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use bootstrap::image::Image;
use libredox::Fd;
use redox_scheme::Socket;
use runtime::boot::{self, Attributes, KernelContext};
use runtime::spawn::{self, Launch};
use runtime::{Result, abi, elf, fd, first, path, state};
use scheme::SchemeLoop;
use syscall::data::GlobalSchemes;
use syscall::flag::{O_DIRECTORY, O_RDWR};

use crate::scheme::InitfsScheme;

/// Runs the first program. It returns only after a failure.
pub fn main() -> i32 {
    // After this the runtime stops the machine.
    match run() {
        Ok(()) => runtime::io::emergency("bootstrap: the scheme initfs was closed\n"),
        Err((step, error)) => {
            runtime::io::emergency(&format!("bootstrap: cannot {step}: {error}\n"));
        }
    }
    1
}

/// Adds the name of the step to an error.
trait Step<T> {
    fn step(self, step: &'static str) -> Result<T, (&'static str, syscall::error::Error)>;
}

impl<T> Step<T> for Result<T> {
    fn step(self, step: &'static str) -> Result<T, (&'static str, syscall::error::Error)> {
        self.map_err(|error| (step, error))
    }
}

fn run() -> Result<(), (&'static str, syscall::error::Error)> {
    let image = boot::image()
        .and_then(Image::read)
        .step("read the boot image")?;

    let namespace = start_namespace_manager(&image).step("start the namespace manager")?;
    state::set_namespace_fd(namespace);
    let process_root = start_process_manager(&image).step("start the process manager")?;
    abi::register_scheme(namespace, "proc", process_root).step("register the scheme proc")?;

    // The socket belongs to the thread that makes it, so this one makes it: it will answer the
    // requests.
    let socket = Socket::create_inner(first::scheme_creation_capability(), false)
        .map(Rc::new)
        .step("create the scheme initfs")?;
    let init = image
        .file("bin/init")
        .step("find bin/init in the boot image")?;
    let mut scheme = InitfsScheme::new(image);
    scheme::daemon::announce(&socket, "initfs", None, &mut scheme)
        .step("register the scheme initfs")?;
    // From here on init waits for answers, so only the loop may follow.
    start_init(init).step("start init")?;
    SchemeLoop::new(socket, true)
        .run(&mut scheme)
        .step("serve the scheme initfs")
}

/// Makes a pipe: the end to read from and the end to write to.
fn pipe() -> Result<(Fd, Fd)> {
    let read = Fd::new(fd::openat_upper(
        first::root(GlobalSchemes::Pipe)?,
        b"",
        O_RDWR,
        0,
    )?);
    let write = Fd::new(fd::dup_upper(read.raw(), b"write")?);
    Ok((read, write))
}

/// A daemon that runs without the process manager.
struct Daemon<'a> {
    name: &'a str,
    env: Vec<String>,
    fds: Vec<(usize, usize)>,
    namespace: Option<usize>,
}

/// First descriptor number for descriptors besides the standard streams.
const FIRST_FD: usize = 3;

/// Starts a daemon and returns the descriptor that it sends when it is ready.
fn start_daemon(image: &Image<'_>, mut daemon: Daemon<'_>) -> Result<usize> {
    let proc = first::root(GlobalSchemes::Proc)?;
    let program = image.file(&format!("bin/{}", daemon.name))?;
    let (read, write) = pipe()?;
    let notify = FIRST_FD + daemon.fds.len();
    daemon.fds.push((notify, write.raw()));
    daemon.env.push(format!("INIT_NOTIFY={notify}"));
    let debug = first::debug_fd();
    if debug != runtime::sys::NO_FD {
        daemon.fds.extend((0..3).map(|number| (number, debug)));
    }

    let context = KernelContext::new(proc)?;
    let launch = Launch {
        program: "",
        args: alloc::vec![daemon.name.as_bytes()],
        env: daemon.env.iter().map(|entry| entry.as_bytes()).collect(),
        cwd: "/",
        fds: daemon.fds,
        process: None,
        namespace: daemon.namespace,
    };
    let parsed = elf::read(&mut &program[..])?;
    spawn::load(context.thread.raw(), &parsed, &mut &program[..], &launch)?;
    context.set_attributes(
        proc,
        &Attributes {
            pid: 0,
            euid: 0,
            egid: 0,
            name: daemon.name,
        },
    )?;
    spawn::start(context.thread.raw())?;
    // Only the daemon may hold the write end now, so that its death ends the wait.
    drop(write);
    fd::receive_fd_upper(read.raw(), &[])
}

/// Starts the namespace manager with the roots of all kernel schemes but that of processes, which
/// would give it control of every process. Returns the first namespace.
fn start_namespace_manager(image: &Image<'_>) -> Result<usize> {
    let mut roots = Vec::new();
    let mut fds = Vec::new();
    for root in first::roots() {
        let Some(name) = root.name() else { continue };
        // Some kernels list schemes that the machine does not have.
        let usable = fd::openat_upper(root.fd, b"", O_DIRECTORY, 0);
        if let Ok(fd) = usable {
            let _ = fd::close(fd);
        }
        let dead = matches!(usable, Err(error) if error.errno == syscall::error::ENODEV);
        if dead || root.id == GlobalSchemes::Proc as u8 {
            continue;
        }
        let number = FIRST_FD + fds.len();
        roots.push(format!("{name}={number}"));
        fds.push((number, root.fd));
    }
    let capability = FIRST_FD + fds.len();
    fds.push((capability, first::scheme_creation_capability()));
    start_daemon(
        image,
        Daemon {
            name: "nsmgr",
            env: alloc::vec![
                format!("ROOTS={}", roots.join(",")),
                format!("CAPABILITY={capability}"),
            ],
            fds,
            namespace: None,
        },
    )
}

/// Starts the process manager, the only daemon with the root of the kernel's process scheme.
/// Returns the root of the scheme `proc`.
fn start_process_manager(image: &Image<'_>) -> Result<usize> {
    start_daemon(
        image,
        Daemon {
            name: "procmgr",
            env: alloc::vec![format!("KERNEL_PROC={FIRST_FD}")],
            fds: alloc::vec![(FIRST_FD, first::root(GlobalSchemes::Proc)?)],
            namespace: Some(state::namespace_fd()),
        },
    )
}

/// Starts init as process 1.
fn start_init(program: &[u8]) -> Result<()> {
    let proc = first::root(GlobalSchemes::Proc)?;
    let process = Fd::new(path::open_upper("/scheme/proc/init", O_RDWR)?);
    let context = KernelContext::new(proc)?;
    fd::send_fd(process.raw(), context.thread.raw(), true, &[])?;
    drop(context);
    let thread = Fd::new(fd::dup_upper(process.raw(), b"thread-0")?);
    let debug = first::debug_fd();
    let fds = match debug {
        runtime::sys::NO_FD => Vec::new(),
        _ => (0..3).map(|number| (number, debug)).collect(),
    };
    let launch = Launch {
        program: "",
        args: alloc::vec![b"init"],
        env: alloc::vec![b"PATH=/scheme/initfs/bin"],
        cwd: "/scheme/initfs",
        fds,
        process: Some(process.raw()),
        namespace: Some(state::namespace_fd()),
    };
    let parsed = elf::read(&mut &program[..])?;
    spawn::load(thread.raw(), &parsed, &mut &program[..], &launch)?;
    runtime::process::rename(process.raw(), "init")?;
    spawn::start(thread.raw())
}
