//! The peers: two Linux guests with busybox under the same QEMU settings as our nodes, joined by
//! virtio-net and a piece of shared memory. With Debian's cloud kernel they measure TCP. With the
//! general kernel, the only one that has the module, they measure RDMA verbs by `rdma_rxe`.
//!
//! Kernels, busybox and the programs of rdma-core come from Debian packages that are downloaded
//! and unpacked below `target/bench`, not installed: the machine needs no second kernel.

use crate::cpio::Archive;
use crate::native;
use harness::base::config::Node;
use harness::base::packages;
use harness::base::report::{Context, Result, TimedStep};
use harness::base::run_directory::RunDirectory;
use harness::base::workspace::{self, Place};
use harness::network::shared_memory::new_memory;
use harness::node::launch;
use harness::suite::console_protocol::Splitter;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// What Linux guests measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// TCP.
    Tcp,
    /// RDMA verbs over UDP in software.
    Rdma,
}

impl Kind {
    /// Returns the package that depends on the newest kernel of this kind.
    fn kernel_package(self) -> &'static str {
        match self {
            Self::Tcp => "linux-image-cloud-amd64",
            Self::Rdma => "linux-image-amd64",
        }
    }

    /// Returns the name of the measurement for the guests' program.
    fn subject(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Rdma => "rdma",
        }
    }

    /// Returns the packages besides kernel and busybox.
    fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Tcp => &[],
            Self::Rdma => RDMA_PACKAGES,
        }
    }

    /// Returns the modules, in the order in which they are loaded.
    fn modules(self) -> Vec<&'static str> {
        match self {
            Self::Tcp => MODULES.to_vec(),
            Self::Rdma => [MODULES, RDMA_MODULES].concat(),
        }
    }
}

const BUSYBOX_PACKAGE: &str = "busybox-static";
/// Packages with the programs and libraries of the RDMA guests, and with the C library they are
/// linked to.
const RDMA_PACKAGES: &[&str] = &[
    "ibverbs-utils",
    "libibverbs1",
    "ibverbs-providers",
    "libnl-3-200",
    "libnl-route-3-200",
    "libc6",
    "iproute2",
    "libmnl0",
    "libbsd0",
    "libmd0",
    "libcap2",
    "perftest",
    "librdmacm1",
    "libpci3",
    "libudev1",
    "zlib1g",
];
/// Files of these packages: the program that makes the device, the pingpong and the bandwidth
/// test, the driver in user space, and the libraries of all of them.
const RDMA_FILES: &[&str] = &[
    "usr/bin/rdma",
    "usr/bin/ibv_rc_pingpong",
    "usr/bin/ib_write_bw",
    "etc/libibverbs.d/rxe.driver",
    "usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so",
    "usr/lib/x86_64-linux-gnu/libibverbs.so.1",
    "lib/x86_64-linux-gnu/libnl-3.so.200",
    "usr/lib/x86_64-linux-gnu/libnl-route-3.so.200",
    "usr/lib/x86_64-linux-gnu/libmnl.so.0",
    "usr/lib/x86_64-linux-gnu/libbsd.so.0",
    "usr/lib/x86_64-linux-gnu/libmd.so.0",
    "lib/x86_64-linux-gnu/libcap.so.2",
    "lib/x86_64-linux-gnu/libc.so.6",
    "lib/x86_64-linux-gnu/libm.so.6",
    "usr/lib/x86_64-linux-gnu/libudev.so.1",
    "lib/x86_64-linux-gnu/libz.so.1",
    "usr/lib/x86_64-linux-gnu/libefa.so.1",
    "usr/lib/x86_64-linux-gnu/libmlx5.so.1",
    "usr/lib/x86_64-linux-gnu/libpci.so.3",
    "usr/lib/x86_64-linux-gnu/librdmacm.so.1",
];
/// The dynamic linker: its file, and the path where programs look for it.
const LINKER: (&str, &str) = (
    "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
    "lib64/ld-linux-x86-64.so.2",
);
/// `rdma_rxe` and the modules that it needs in addition.
const RDMA_MODULES: &[&str] = &[
    "udp_tunnel.ko",
    "ip6_udp_tunnel.ko",
    "crc32_generic.ko",
    "ib_core.ko",
    "ib_uverbs.ko",
    "rdma_rxe.ko",
];
/// Modules that virtio-net needs, in the order in which they are loaded.
const MODULES: &[&str] = &[
    "failover.ko",
    "net_failover.ko",
    "virtio_ring.ko",
    "virtio.ko",
    "virtio_pci_legacy_dev.ko",
    "virtio_pci_modern_dev.ko",
    "virtio_pci.ko",
    "virtio_net.ko",
];
/// The line that the first process prints before anything else.
const FIRST_PROCESS: &str = "BENCH first process";
/// The line that a guest prints when its program has ended, with the program's status.
const PROGRAM_ENDED: &str = "BENCH program ended with status ";
/// The guests' program. It is static, because the guests have no libraries.
const PROGRAM: &str = "bench-linux";
/// Size of the memory that the two guests share, in MiB.
const WINDOW_MIB: u64 = 128;
/// A guest that prints nothing for this time is stuck.
const SILENCE: Duration = Duration::from_secs(60);
/// Longest time that the first QEMU may take to offer the network's socket.
const SOCKET: Duration = Duration::from_secs(10);

/// The commands that make the device of RDMA verbs in a guest.
const RDMA_START: &str = "$b mount -t devtmpfs dev /dev || exit 1\n\
     /usr/bin/rdma link add rxe0 type rxe netdev eth0 || exit 1\n";

/// The files from which Linux guests are started.
#[derive(Debug)]
pub struct Linux {
    /// The kernel's version.
    pub version: String,
    kernel: PathBuf,
    /// The first file system with only what starts the first process.
    boot_files: PathBuf,
    /// The first file system with network modules and the measuring program as well.
    pair_files: PathBuf,
}

/// Returns the script that is the first process of a guest. `job`, `role`, and `effort` come from
/// the kernel's command line.
fn init_script(kind: Kind) -> String {
    let modules: Vec<_> = kind
        .modules()
        .iter()
        .map(|module| format!("$b insmod /modules/{module} || exit 1\n"))
        .collect();
    format!(
        "#!/bin/busybox sh\n\
         echo {FIRST_PROCESS}\n\
         b=/bin/busybox\n\
         [ \"$job\" = boot ] && $b poweroff -f\n\
         $b mount -t proc proc /proc && $b mount -t sysfs sys /sys || exit 1\n\
         {}\
         $b ip link set dev lo up\n\
         $b ip addr add 10.0.0.1$role/24 dev eth0 && $b ip link set dev eth0 up || exit 1\n\
         {}\
         if [ \"$role\" = 0 ]; then\n\
         \x20   /bin/bench-linux client 10.0.0.11 {} $effort\n\
         else\n\
         \x20   /bin/bench-linux server\n\
         fi\n\
         echo {PROGRAM_ENDED}$?\n\
         $b poweroff -f\n",
        modules.concat(),
        match kind {
            Kind::Tcp => "",
            Kind::Rdma => RDMA_START,
        },
        kind.subject()
    )
}

impl Linux {
    /// Fetches and builds what is missing for guests of a kind.
    pub fn prepare(kind: Kind) -> Result<Self> {
        let directory = Place::Bench.path().join(match kind {
            Kind::Tcp => "linux",
            Kind::Rdma => "linux-rdma",
        });
        std::fs::create_dir_all(&directory)
            .context(|| format!("create {}", directory.display()))?;
        let root = directory.join("root");
        if kernel_in(&root).is_none() || !root.join("bin/busybox").is_file() {
            whole(&root, |fresh| download(kind, &directory, fresh))?;
        }
        let (kernel, version) =
            kernel_in(&root).ok_or("the Linux package holds no kernel: remove target/bench")?;
        let program = read(&native::build(PROGRAM)?)?;
        let busybox = read(&root.join("bin/busybox"))?;

        let boot_files = directory.join("boot.cpio");
        write(&boot_files, base(kind, &busybox).finish())?;
        let mut archive = base(kind, &busybox);
        archive.file("bin/bench-linux", &program);
        archive.directory("modules");
        for module in kind.modules() {
            let modules = root.join("lib/modules").join(&version).join("kernel");
            let path = find(&modules, module)
                .ok_or_else(|| format!("the Linux package {version} has no module {module}"))?;
            archive.file(&format!("modules/{module}"), &read(&path)?);
        }
        if kind == Kind::Rdma {
            add_rdma(&mut archive, &root)?;
        }
        let pair_files = directory.join("pair.cpio");
        write(&pair_files, archive.finish())?;
        Ok(Self {
            version,
            kernel,
            boot_files,
            pair_files,
        })
    }

    /// Boots one guest alone. Returns the nanoseconds from the start of QEMU to the first process.
    pub fn boot(&self, node: &Node, pin: bool) -> Result<f64> {
        let (sender, lines) = channel();
        let words = self.arguments(node, &self.boot_files, "job=boot");
        let start = Instant::now();
        let _guest = Guest::start(0, pin, &words, "linux-boot", sender)?;
        loop {
            match next(&lines)? {
                Said::Line { at, text, .. } if text.contains(FIRST_PROCESS) => {
                    return Ok(at.duration_since(start).as_nanos() as f64);
                }
                Said::Line { .. } => {}
                Said::End { .. } => return Err("the guest ended before its first process".into()),
            }
        }
    }

    /// Boots two guests that measure with this `effort` (a word of the program). Passes the lines
    /// of the guest that reports to `line`.
    pub fn pair(
        &self,
        node: &Node,
        pin: bool,
        effort: &str,
        line: &mut dyn FnMut(&str),
    ) -> Result<()> {
        let directory = RunDirectory::new()?;
        let window = new_memory("window", WINDOW_MIB << 20)?;
        let network = directory.path().join("network");
        let (sender, lines) = channel();
        let mut guests = Vec::new();
        // The server starts first: its QEMU opens the network's socket for the other one.
        for role in [1, 0] {
            let job = format!("job=pair role={role} effort={effort}");
            let mut words = self.arguments(node, &self.pair_files, &job);
            words.extend(devices(role, &network, &window));
            let name = format!("linux-{role}");
            guests.push(Guest::start(role, pin, &words, &name, sender.clone())?);
            if role == 1 {
                wait_for(&network)?;
            }
        }
        drop(sender);
        // The server ends when the client tells it to; both must end with status 0. A guest whose
        // program has ended powers off, before or after the other guest's program ends.
        let mut ended = [false; 2];
        while ended != [true; 2] {
            match next(&lines)? {
                Said::Line { guest, text, .. } => {
                    if guest == 0 {
                        line(&text);
                    }
                    match text.strip_prefix(PROGRAM_ENDED).map(str::trim) {
                        Some("0") => ended[guest] = true,
                        Some(status) => {
                            return Err(format!(
                                "the program of Linux guest {guest} ended with status {status}; \
                                 its console is in {}",
                                log_name(&format!("linux-{guest}"))?
                            )
                            .into());
                        }
                        None => {}
                    }
                }
                Said::End { guest } if !ended[guest] => {
                    return Err(format!(
                        "Linux guest {guest} ended early; its console is in {}",
                        log_name(&format!("linux-{guest}"))?
                    )
                    .into());
                }
                Said::End { .. } => {}
            }
        }
        Ok(())
    }

    /// Returns QEMU's arguments for any guest: the settings of our nodes.
    fn arguments(&self, node: &Node, files: &Path, job: &str) -> Vec<String> {
        let memory = node.memory_mib;
        let machine = format!("{},memory-backend=ram", node.machine);
        let object = format!("memory-backend-memfd,id=ram,size={memory}M,share=on");
        let append =
            format!("console=ttyS0 quiet panic=-1 tsc=reliable mitigations=off rdinit=/init {job}");
        let size = format!("{memory}M");
        let kernel = self.kernel.display().to_string();
        let files = files.display().to_string();
        let options: [(&str, &str); 14] = [
            ("-nodefaults", ""),
            ("-no-user-config", ""),
            ("-no-reboot", ""),
            ("-display", "none"),
            ("-accel", "tcg"),
            ("-cpu", &node.cpu),
            ("-smp", &node.smp),
            ("-m", &size),
            ("-machine", &machine),
            ("-object", &object),
            ("-serial", "stdio"),
            ("-kernel", &kernel),
            ("-initrd", &files),
            ("-append", &append),
        ];
        std::iter::once("qemu-system-x86_64")
            .chain(options.iter().flat_map(|(option, value)| [*option, *value]))
            .filter(|word| !word.is_empty())
            .map(str::to_string)
            .collect()
    }
}

/// Returns QEMU's arguments for the network card and the shared memory of one of the two guests.
fn devices(role: usize, network: &Path, window: &File) -> Vec<String> {
    let server = if role == 1 { "on" } else { "off" };
    let network = network.display();
    let (process, descriptor) = (std::process::id(), window.as_raw_fd());
    [
        "-netdev".to_string(),
        format!("stream,id=n0,server={server},addr.type=unix,addr.path={network}"),
        "-device".to_string(),
        format!("virtio-net-pci,netdev=n0,mac=52:54:00:77:00:0{role},romfile="),
        "-object".to_string(),
        format!(
            "memory-backend-file,id=window,size={WINDOW_MIB}M,share=on,\
             mem-path=/proc/{process}/fd/{descriptor}"
        ),
        "-device".to_string(),
        "ivshmem-plain,memdev=window".to_string(),
    ]
    .into()
}

/// An event of a guest.
enum Said {
    /// The guest printed a line at this time.
    Line {
        guest: usize,
        at: Instant,
        text: String,
    },
    /// The guest's QEMU ended.
    End { guest: usize },
}

fn next(lines: &Receiver<Said>) -> Result<Said> {
    let nothing = format!("no Linux guest said anything for {} s", SILENCE.as_secs());
    lines.recv_timeout(SILENCE).map_err(|_| nothing.into())
}

/// A running QEMU, which ends when this is dropped.
struct Guest(Child);

impl Guest {
    fn start(
        guest: usize,
        pin: bool,
        arguments: &[String],
        name: &str,
        sender: Sender<Said>,
    ) -> Result<Self> {
        let log = log_name(name)?;
        let errors = File::create(workspace::root().join(&log))
            .context(|| format!("create the log {log}"))?;
        let core = pin.then(|| launch::core_of(guest)).flatten();
        let mut copy = errors
            .try_clone()
            .context(|| format!("share the log {log}"))?;
        let mut child = launch::start(arguments, core, Stdio::piped(), errors)?;
        let Some(mut output) = child.stdout.take() else {
            return Err("a started program has no output".into());
        };
        std::thread::spawn(move || {
            let mut splitter = Splitter::default();
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                let at = Instant::now();
                let bytes = &buffer[..count];
                // The log is for people who look for a fault; the results do not depend on it.
                let _ = std::io::Write::write_all(&mut copy, bytes);
                for text in splitter.push(bytes) {
                    if sender.send(Said::Line { guest, at, text }).is_err() {
                        return;
                    }
                }
            }
            let _ = sender.send(Said::End { guest });
        });
        Ok(Self(child))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // A guest that ended by itself cannot be killed and need not be.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the log for a guest's console and QEMU's own output, for messages.
fn log_name(name: &str) -> Result<String> {
    let path = workspace::make(Place::Run)?.join("bench");
    std::fs::create_dir_all(&path).context(|| format!("create {}", path.display()))?;
    Ok(workspace::display(&path.join(format!("{name}.log"))))
}

/// Waits until a program listens on a socket.
fn wait_for(socket: &Path) -> Result<()> {
    let start = Instant::now();
    let list = Path::new("/proc/net/unix");
    while !listens(&String::from_utf8_lossy(&read(list)?), socket) {
        if start.elapsed() > SOCKET {
            return Err("the first QEMU did not open the network's socket".into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Returns whether the kernel's list of UNIX sockets has this one as a listening one. The socket's
/// file exists earlier than that.
fn listens(list: &str, socket: &Path) -> bool {
    /// `__SO_ACCEPTCON`, as the column "Flags" shows it.
    const LISTENS: &str = "00010000";
    let path = socket.display().to_string();
    list.lines().any(|line| {
        let mut columns = line.split_whitespace();
        columns.nth(3) == Some(LISTENS) && columns.last() == Some(&path)
    })
}

/// Adds the files of the RDMA guests, each at the path it has in its package.
fn add_rdma(archive: &mut Archive, root: &Path) -> Result<()> {
    let same = RDMA_FILES.iter().map(|name| (*name, *name));
    let files: Vec<_> = same.chain([LINKER]).collect();
    let above = |name| Path::new(name).ancestors().skip(1);
    let directories: BTreeSet<_> = files.iter().flat_map(|(_, name)| above(*name)).collect();
    for directory in directories
        .iter()
        .filter(|path| !path.as_os_str().is_empty())
    {
        archive.directory(&directory.display().to_string());
    }
    for (file, name) in files {
        archive.file(name, &read(&root.join(file))?);
    }
    Ok(())
}

fn base(kind: Kind, busybox: &[u8]) -> Archive {
    let mut archive = Archive::default();
    for name in ["bin", "dev", "proc", "sys", "tmp"] {
        archive.directory(name);
    }
    archive.file("bin/busybox", busybox);
    archive.file("init", init_script(kind).as_bytes());
    archive
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).context(|| format!("read {}", path.display()))
}

fn write(path: &Path, bytes: Vec<u8>) -> Result<()> {
    std::fs::write(path, bytes).context(|| format!("write {}", path.display()))
}

/// Returns the kernel of an unpacked package, and its version.
fn kernel_in(root: &Path) -> Option<(PathBuf, String)> {
    let items = std::fs::read_dir(root.join("boot")).ok()?.flatten();
    items
        .filter_map(|item| {
            let name = item.file_name().into_string().ok()?;
            Some((item.path(), name.strip_prefix("vmlinuz-")?.to_string()))
        })
        .max()
}

/// Finds the file of this name somewhere below a directory.
fn find(directory: &Path, name: &str) -> Option<PathBuf> {
    for item in std::fs::read_dir(directory).ok()?.flatten() {
        let path = item.path();
        if path.is_dir() {
            if let Some(found) = find(&path, name) {
                return Some(found);
            }
        } else if item.file_name() == name {
            return Some(path);
        }
    }
    None
}

/// Makes a directory that is there with all its contents or not at all, also if this is
/// interrupted: `fill` gets another one, which takes its place afterwards.
fn whole(directory: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let fresh = directory.with_extension("new");
    for old in [&fresh, directory] {
        if old.exists() {
            std::fs::remove_dir_all(old).context(|| format!("remove {}", old.display()))?;
        }
    }
    std::fs::create_dir_all(&fresh).context(|| format!("create {}", fresh.display()))?;
    fill(&fresh)?;
    std::fs::rename(&fresh, directory).context(|| format!("put {} in place", directory.display()))
}

/// Downloads the packages of a kind and unpacks them into `root`.
fn download(kind: Kind, directory: &Path, root: &Path) -> Result<()> {
    let step = TimedStep::start(match kind {
        Kind::Tcp => "fetching Debian's cloud kernel and busybox for the Linux guests",
        Kind::Rdma => "fetching Debian's kernel and RDMA programs for the Linux guests",
    });
    let kernel = packages::dependency(kind.kernel_package(), "linux-image-")?;
    for package in [kernel.as_str(), BUSYBOX_PACKAGE]
        .iter()
        .chain(kind.packages())
    {
        let file = packages::download(package, directory)?;
        packages::unpack(&file, root)?;
    }
    step.done();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use harness::base::config;

    fn linux() -> Linux {
        Linux {
            version: "6".to_string(),
            kernel: "/vmlinuz".into(),
            boot_files: "/boot.cpio".into(),
            pair_files: "/pair.cpio".into(),
        }
    }

    /// The comparison holds only if both run under the same settings.
    #[test]
    fn linux_guests_have_the_settings_of_our_nodes() {
        let node = config::node().unwrap();
        let words = linux().arguments(&node, Path::new("/files"), "job=x");
        let value = |option: &str| {
            let at = words.iter().position(|word| word == option).expect(option);
            words[at + 1].clone()
        };
        assert_eq!(value("-cpu"), node.cpu);
        assert_eq!(value("-smp"), node.smp);
        assert_eq!(value("-m"), format!("{}M", node.memory_mib));
        assert_eq!(value("-accel"), "tcg");
        assert!(value("-append").ends_with("job=x"));
        assert!(!words.iter().any(String::is_empty));
    }

    #[test]
    fn a_socket_that_listens_is_noticed() {
        let directory = RunDirectory::new().unwrap();
        let path = directory.path().join("socket");
        let list = || std::fs::read_to_string("/proc/net/unix").unwrap();
        assert!(!listens(&list(), &path));
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(listens(&list(), &path));
        assert!(wait_for(&path).is_ok());
        let client = std::os::unix::net::UnixStream::connect(&path).unwrap();
        drop(listener);
        assert!(!listens(&list(), &path), "only a connection is left");
        drop(client);
    }

    #[test]
    fn an_interrupted_unpacking_leaves_nothing_behind_that_looks_whole() {
        let place = RunDirectory::new().unwrap();
        let root = place.path().join("root");
        let unpack = |name: &str, result: Result<()>| {
            whole(&root, |fresh| {
                std::fs::write(fresh.join(name), "").unwrap();
                result
            })
        };
        assert!(unpack("first", Err("interrupted".into())).is_err());
        assert!(!root.exists());
        unpack("second", Ok(())).unwrap();
        assert!(root.join("second").is_file() && !root.join("first").exists());
    }

    #[test]
    fn one_guest_offers_the_network_and_the_other_joins() {
        let window = File::open("/dev/null").unwrap();
        let server = devices(1, Path::new("/n"), &window);
        let client = devices(0, Path::new("/n"), &window);
        assert!(server[1].contains("server=on") && client[1].contains("server=off"));
        assert_ne!(
            server[3], client[3],
            "the cards need addresses of their own"
        );
        assert_eq!(server[5], client[5]);
    }

    #[test]
    fn the_first_process_reports_itself_first() {
        for kind in [Kind::Tcp, Kind::Rdma] {
            let script = init_script(kind);
            let second = script.lines().nth(1).unwrap();
            assert_eq!(second, format!("echo {FIRST_PROCESS}"));
            assert!(kind.modules().iter().all(|module| script.contains(module)));
        }
    }
}
