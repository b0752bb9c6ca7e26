//! The running machine: fabric, memories, the nodes' QEMUs and their consoles.
//!
//! Each node has a thread that reads its console and notices its end; everything arrives in one
//! queue of events. Dropping the machine ends all nodes.

use crate::base::config::Node;
use crate::base::report::{Context, Result};
use crate::base::run_directory::RunDirectory;
use crate::network::fabric::{self, Fabric};
use crate::network::shared_memory::new_memory;
use crate::node::freeze;
use crate::node::image::BootFiles;
use crate::node::keyboard::{Input, Keyboard};
use crate::node::launch::{self, Guest};
use crate::node::logs::Logs;
use crate::node::monitor::{Monitor, SCREEN_POLL};
use crate::node::page_table_audit::{self, Audit};
use crate::node::screen_text::Text;
use crate::node::trace;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a thread looks whether a QEMU that does not connect has ended.
const POLL: Duration = Duration::from_millis(5);
/// Console output kept for those who attach later.
const BACKLOG_BYTES: usize = 64 * 1024;

/// The parts of the machine.
#[derive(Debug)]
pub struct Plan {
    /// Name of the folder for logs below `target/run`.
    pub name: String,
    /// Description of every node.
    pub config: Node,
    /// Memory of each node in MiB.
    pub memory_mib: u64,
    /// Whether KVM executes the nodes.
    pub kvm: bool,
    /// Whether nodes are bound to cores.
    pub pin: bool,
    /// The image that each node boots.
    pub boot: Vec<BootFiles>,
    /// Nodes that `start_node` will start.
    pub late: Vec<usize>,
    /// Whether doorbells are relayed, so that some can be lost.
    pub relayed: bool,
}

/// Something that happened on a node.
#[derive(Debug)]
pub enum Event {
    /// Console output.
    Output {
        /// The node.
        node: usize,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The node's QEMU ended.
    Ended {
        /// The node.
        node: usize,
        /// How.
        end: End,
    },
}

/// How a QEMU ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The guest powered off.
    PowerOff,
    /// The guest wrote to the exit port: a kernel panic.
    ExitPort,
    /// A signal ended it (from us, or a crash of QEMU).
    Signal(i32),
    /// QEMU itself failed; its log says why.
    Failed(i32),
}

/// The value that a kernel that panics writes to the exit port (`kernel/src/arch/power.rs`).
const PANIC_CODE: i32 = 0x31;

fn end_of(status: std::process::ExitStatus) -> End {
    // isa-debug-exit turns the value v into the status 2v + 1. Other statuses are of QEMU, or of
    // the programs that start it, for example 127 if there is no QEMU.
    const PANIC: i32 = PANIC_CODE << 1 | 1;
    match (status.code(), status.signal()) {
        (Some(0), _) => End::PowerOff,
        (Some(PANIC), _) => End::ExitPort,
        (Some(code), _) => End::Failed(code),
        (None, signal) => End::Signal(signal.unwrap_or(0)),
    }
}

/// A node as seen by the threads that serve it.
#[derive(Debug, Default)]
struct Seat {
    child: Mutex<Option<Child>>,
    input: Arc<Mutex<Input>>,
    viewers: Mutex<Viewers>,
    /// Of a node with a screen.
    monitor: Mutex<Option<Monitor>>,
}

#[derive(Debug, Default)]
struct Viewers {
    streams: Vec<UnixStream>,
    backlog: Vec<u8>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// All nodes, running.
#[derive(Debug)]
pub struct Machine {
    plan: Plan,
    directory: RunDirectory,
    logs: Logs,
    /// RAM of the nodes; QEMU opens it through /proc, so it must stay open here.
    memories: Vec<File>,
    seats: Vec<Arc<Seat>>,
    threads: Vec<JoinHandle<()>>,
    sender: Sender<Event>,
    events: Receiver<Event>,
    fabric: Fabric,
}

impl Machine {
    /// Starts fabric and nodes.
    pub fn start(plan: Plan, directory: RunDirectory) -> Result<Self> {
        let nodes = plan.boot.len();
        let fabric = Fabric::start(&fabric::Options {
            directory: directory.path().to_path_buf(),
            nodes,
            link_bytes: plan.config.link_memory_kib * 1024,
            vectors: plan.config.doorbell_vectors,
            relayed: plan.relayed,
        })?;
        let memories = (0..nodes)
            .map(|node| new_memory(&format!("ram-{node}"), plan.memory_mib << 20))
            .collect::<Result<Vec<_>>>()?;
        let logs = Logs::take(&plan.name)?;
        let (sender, events) = channel();
        let mut machine = Self {
            directory,
            logs,
            memories,
            seats: (0..nodes).map(|_| Arc::default()).collect(),
            threads: Vec::new(),
            sender,
            events,
            fabric,
            plan,
        };
        for node in 0..nodes {
            if !machine.plan.late.contains(&node) {
                machine.start_node(node)?;
            }
        }
        Ok(machine)
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.seats.len()
    }

    /// Where logs of this machine are.
    pub fn logs(&self) -> &Logs {
        &self.logs
    }

    /// The private directory of this run.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Boots a node that is not running.
    pub fn start_node(&mut self, node: usize) -> Result<()> {
        let Some(seat) = self.seats.get(node).cloned() else {
            return Err(format!("there is no node {node} among {}", self.seats.len()).into());
        };
        if lock(&seat.child).is_some() {
            return Err(format!("node {node} runs already").into());
        }
        clear(&self.memories[node])?;
        let console = self.directory.path().join(format!("serial-{node}"));
        // A node that boots again finds the socket of its earlier life.
        let _ = std::fs::remove_file(&console);
        let listener = UnixListener::bind(&console)
            .context(|| format!("listen on the socket {}", console.display()))?;
        listener
            .set_nonblocking(true)
            .context(|| "set up the console's socket".to_string())?;
        let mut log = File::create(self.logs.path().join(format!("node{node}.log")))
            .context(|| format!("create a log in {}", self.logs.path().display()))?;
        let guest = self.guest(node, console);
        if guest.config.parts.screen {
            // As above.
            let _ = std::fs::remove_file(&guest.monitor);
            let picture = self.logs.path().join(format!("node{node}.ppm"));
            *lock(&seat.monitor) = Some(Monitor::listen(&guest.monitor, picture)?);
        }
        let by_screen = guest.config.parts.no_serial;
        let child = guest.spawn(&self.logs.path().join(format!("node{node}-qemu.log")))?;
        *lock(&seat.child) = Some(child);
        *lock(&seat.input) = Input::Waiting(Vec::new());
        let sender = self.sender.clone();
        self.threads.push(std::thread::spawn(move || {
            if by_screen {
                attend_screen(node, &seat, &mut log, &sender);
            }
            let end = attend(node, &seat, &listener, log, &sender);
            *lock(&seat.input) = Input::Nowhere;
            *lock(&seat.child) = None;
            let _ = sender.send(Event::Ended { node, end });
        }));
        Ok(())
    }

    fn guest(&self, node: usize, console: PathBuf) -> Guest {
        let process = std::process::id();
        // The processors of one node are to run side by side.
        let binds = self.plan.pin && self.plan.config.smp.starts_with("1,");
        let name = |memory: &File| format!("/proc/{process}/fd/{}", memory.as_raw_fd()).into();
        let directory = self.directory.path();
        Guest {
            node,
            config: self.plan.config.clone(),
            memory_mib: self.plan.memory_mib,
            kvm: self.plan.kvm,
            core: binds.then(|| launch::core_of(node)).flatten(),
            boot: self.plan.boot[node].clone(),
            memories: self.memories.iter().map(name).collect(),
            links: (0..self.nodes())
                .map(|p| fabric::socket_path(directory, node, p))
                .collect(),
            console,
            monitor: directory.join(format!("monitor-{node}")),
        }
    }

    /// Types a line on a node's keyboard.
    pub fn type_line(&self, node: usize, text: &str) -> Result<()> {
        self.with_monitor(node, |monitor| monitor.type_line(text))
    }

    /// Looks for a row that begins with a text on a node's screen.
    pub fn find_on_screen(&self, node: usize, text: &str) -> Result<()> {
        self.with_monitor(node, |monitor| monitor.find(text))
    }

    fn with_monitor<T>(
        &self,
        node: usize,
        work: impl FnOnce(&mut Monitor) -> Result<T>,
    ) -> Result<T> {
        let seat = self.seats.get(node);
        let seat = seat.ok_or_else(|| format!("there is no node {node}"))?;
        let mut monitor = lock(&seat.monitor);
        let monitor = monitor
            .as_mut()
            .ok_or_else(|| format!("node {node} has no screen: its suite needs parts.screen"))?;
        work(monitor)
    }

    /// Writes the trace of a node's SCIF driver next to its log: how many events, and where.
    pub fn save_trace(&self, node: usize) -> Result<Option<(usize, PathBuf)>> {
        let Some(memory) = self.memories.get(node) else {
            return Ok(None);
        };
        let path = self.logs.path().join(format!("node{node}.trace"));
        // One of an earlier run would be taken for this one's.
        let _ = std::fs::remove_file(&path);
        let events = trace::save(memory, &path)?;
        Ok((events > 0).then_some((events, path)))
    }

    /// The next event; `None` when the time is up.
    pub fn next(&self, deadline: Instant) -> Option<Event> {
        let left = deadline.saturating_duration_since(Instant::now());
        self.events.recv_timeout(left).ok()
    }

    /// Cuts a node's power. Its end arrives as an event.
    pub fn kill(&self, node: usize) -> Result<()> {
        let Some(seat) = self.seats.get(node) else {
            return Err(format!("there is no node {node} among {}", self.seats.len()).into());
        };
        if let Some(child) = lock(&seat.child).as_mut() {
            // A node that ended by itself in this moment cannot be killed, nor need it be.
            let _ = child.kill();
        }
        Ok(())
    }

    /// Walks all page tables of a running node, which stands still meanwhile.
    pub fn audit(&self, node: usize) -> Result<Audit> {
        let (Some(seat), Some(memory)) = (self.seats.get(node), self.memories.get(node)) else {
            return Err(format!("there is no node {node} among {}", self.seats.len()).into());
        };
        // Held all the while, so that the process is not reaped and keeps its number.
        let child = lock(&seat.child);
        let child = child
            .as_ref()
            .ok_or_else(|| format!("node {node} does not run"))?;
        freeze::during(child, || page_table_audit::audit(memory))
    }

    /// Stops a node's machine in the middle of whatever it does, or lets it go on.
    pub fn freeze(&self, node: usize, freezes: bool) -> Result<()> {
        let seat = self.seats.get(node);
        let seat = seat.ok_or_else(|| format!("there is no node {node}"))?;
        let child = lock(&seat.child);
        let process = child.as_ref().map(rustix::process::Pid::from_child);
        let process = process.ok_or_else(|| format!("node {node} does not run"))?;
        let signal = match freezes {
            true => rustix::process::Signal::STOP,
            false => rustix::process::Signal::CONT,
        };
        rustix::process::kill_process(process, signal)
            .context(|| format!("stop or continue node {node}"))
    }

    /// Does something to the link between two nodes.
    pub fn inject(&self, nodes: [usize; 2], fault: fabric::Fault) -> Result<fabric::Heard> {
        self.fabric.inject(nodes, fault)
    }

    /// A way to type on a node's console.
    pub fn keyboard(&self, node: usize) -> Keyboard {
        Keyboard::new(&self.seats[node].input)
    }

    /// Lets others attach to the consoles, on the sockets `console_path` names.
    pub fn offer_consoles(&self) -> Result<()> {
        for (node, seat) in self.seats.iter().enumerate() {
            let path = console_path(self.directory.path(), node);
            let listener = UnixListener::bind(&path)
                .context(|| format!("listen on the socket {}", path.display()))?;
            let seat = seat.clone();
            // These threads end with the process: they only wait.
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let seat = seat.clone();
                    std::thread::spawn(move || view(node, &seat, stream));
                }
            });
        }
        Ok(())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for node in 0..self.nodes() {
            // The node is there.
            let _ = self.kill(node);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The socket on which one can attach to a node's console.
pub fn console_path(directory: &Path, node: usize) -> PathBuf {
    directory.join(format!("console-{node}"))
}

/// Forgets what an earlier life of the node left in its memory. Peers have it mapped, so the size
/// must not change.
fn clear(memory: &File) -> Result<()> {
    let bytes = memory
        .metadata()
        .context(|| "look at a memory".to_string())?
        .len();
    let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(memory, flags, 0, bytes).context(|| "clear a memory".to_string())
}

/// Reads a node's screen until its QEMU has ended, in place of a serial port that it does not have.
/// Each different row counts as a line once, as soon as the cursor is below it.
fn attend_screen(node: usize, seat: &Seat, log: &mut File, sender: &Sender<Event>) {
    let mut seen = BTreeSet::new();
    while ended(seat).is_none() {
        std::thread::sleep(SCREEN_POLL);
        let picture = lock(&seat.monitor).as_mut().map(Monitor::screen);
        // A node that ends, or changes its mode, has none.
        let Some(Ok(Text {
            mut rows,
            cursor: Some(cursor),
        })) = picture
        else {
            continue;
        };
        rows.truncate(cursor);
        for row in rows.into_iter().filter(|row| !row.is_empty()) {
            if seen.insert(row.clone()) {
                let bytes = format!("{row}\n").into_bytes();
                let _ = log.write_all(&bytes);
                let _ = sender.send(Event::Output { node, bytes });
            }
        }
    }
}

/// Reads a node's console until its QEMU has ended.
fn attend(
    node: usize,
    seat: &Seat,
    listener: &UnixListener,
    mut log: File,
    sender: &Sender<Event>,
) -> End {
    if let Some(mut stream) = connected(seat, listener) {
        lock(&seat.input).connect(stream.try_clone().ok());
        let mut buffer = [0; 4096];
        while let Ok(count) = stream.read(&mut buffer) {
            if count == 0 {
                break;
            }
            let bytes = &buffer[..count];
            let _ = log.write_all(bytes);
            show(seat, bytes);
            let _ = sender.send(Event::Output {
                node,
                bytes: bytes.to_vec(),
            });
        }
    }
    loop {
        if let Some(end) = ended(seat) {
            return end;
        }
        std::thread::sleep(POLL);
    }
}

/// Waits until QEMU connects its console; `None` when it ends before.
fn connected(seat: &Seat, listener: &UnixListener) -> Option<UnixStream> {
    loop {
        if let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(false).ok()?;
            return Some(stream);
        }
        if ended(seat).is_some() {
            return None;
        }
        std::thread::sleep(POLL);
    }
}

/// How the node's QEMU ended, if it did.
fn ended(seat: &Seat) -> Option<End> {
    match lock(&seat.child).as_mut()?.try_wait() {
        Ok(status) => status.map(end_of),
        Err(_) => Some(End::Failed(-1)),
    }
}

/// Gives output to those who are attached, and keeps some for those who come later.
fn show(seat: &Seat, bytes: &[u8]) {
    let mut viewers = lock(&seat.viewers);
    viewers
        .streams
        .retain_mut(|stream| stream.write_all(bytes).is_ok());
    viewers.backlog.extend_from_slice(bytes);
    let excess = viewers.backlog.len().saturating_sub(BACKLOG_BYTES);
    viewers.backlog.drain(..excess);
}

/// Serves one who attached: earlier output first, then what comes; his keys go to the console.
fn view(node: usize, seat: &Arc<Seat>, mut stream: UnixStream) {
    {
        let mut viewers = lock(&seat.viewers);
        // A viewer that does not read must not delay the console.
        let limit = stream.set_write_timeout(Some(Duration::from_secs(1)));
        if limit.is_err() || stream.write_all(&viewers.backlog).is_err() {
            return;
        }
        let Ok(copy) = stream.try_clone() else {
            return;
        };
        viewers.streams.push(copy);
        if lock(&seat.child).is_none() {
            // One who watches a node that is off would wait for its words for ever.
            let _ = stream.write_all(
                format!("\r\n[node {node} is off; make start NODE={node}]\r\n").as_bytes(),
            );
        }
    }
    let keyboard = Keyboard::new(&seat.input);
    let mut buffer = [0; 256];
    while let Ok(count) = stream.read(&mut buffer) {
        if count == 0 {
            return;
        }
        keyboard.send(&buffer[..count]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::workspace;

    #[test]
    fn ends() {
        let status = |code: i32| std::process::ExitStatus::from_raw(code << 8);
        assert_eq!(end_of(status(0)), End::PowerOff);
        assert_eq!(end_of(status(1)), End::Failed(1));
        assert_eq!(end_of(status(2)), End::Failed(2));
        assert_eq!(end_of(status(127)), End::Failed(127));
        let kernel = workspace::root().join("kernel/src/arch/power.rs");
        let line = format!("const PANIC_CODE: u8 = {PANIC_CODE:#x};");
        assert!(std::fs::read_to_string(kernel).unwrap().contains(&line));
        assert_eq!(end_of(status(0x63)), End::ExitPort);
        assert_eq!(
            end_of(std::process::ExitStatus::from_raw(9)),
            End::Signal(9)
        );
    }
}
