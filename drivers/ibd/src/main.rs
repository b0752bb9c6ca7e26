//! ibd: serves the device of RDMA verbs, the scheme `infiniband`.
#![cfg_attr(target_os = "redox", no_std, no_main)]

#[cfg(target_os = "redox")]
mod program {
    use alloc::rc::Rc;
    use alloc::vec::Vec;
    use core::time::Duration;

    use client_memory::borrow_thread;
    use hal::event::{Queue, Ready};
    use ibd::SCHEME;
    use ibd::device::Device;
    use ibd::identity::PortState;
    use ibd::mad::Mads;
    use ibd::relay::Relay;
    use ibd::scheme::InfinibandScheme;
    use ibd::wire::Wire;
    use libredox::Fd;
    use libredox::flag::{O_CLOEXEC, O_NONBLOCK, O_RDONLY};
    use redox_scheme::Socket;
    use runtime::time::Instant;
    use scheme::Status;
    use scheme::daemon::{self, Mode, NOTIFY_VARIABLE};
    use syscall::error::{EAGAIN, Error, Result};
    use syscall::flag::EventFlags;

    runtime::main!(main);

    /// Pause between two attempts to open the SCIF driver's files while the driver is gone.
    const PAUSE: Duration = Duration::from_millis(100);

    /// Pause between two checks whether the SCIF driver still runs, on a kernel that sends no
    /// event when it dies.
    const LOOK: Duration = Duration::from_secs(1);

    #[derive(Clone, Copy, Debug, Eq, PartialEq)]
    enum Source {
        Requests,
        /// The driver's file `peers`, which names the nodes that come and go, and whose reads fail
        /// once the driver has ended.
        Nodes,
        /// Connections to the daemons of other nodes.
        Wire,
        /// Connections of programs, and of other nodes' daemons, that send to multicast groups.
        Relay,
        /// Connections of the queue pairs that commands post to.
        Lanes,
        /// The borrowing of a program's pages has ended, with or without success.
        Pages,
    }

    fn main() -> i32 {
        let purpose = "serves the device of RDMA verbs: the scheme `infiniband`";
        if let Some(status) = runtime::env::answer_people("", purpose, 0) {
            return status;
        }
        runtime::logging::init("ibd");
        match run() {
            Ok(()) => 0,
            Err(error) => {
                log::error!("stopped: {error}");
                1
            }
        }
    }

    fn run() -> Result<()> {
        let mut scheme = InfinibandScheme::new(Device::unplaced(), system_time);
        let mut queue = Queue::new()?;
        let mut port = Port::new();
        // If the SCIF driver runs already, the device can be opened as soon as the scheme exists.
        let state = port.look(&mut queue, scheme.device(), system_time())?;
        scheme.device().set_port(state);
        let notify = runtime::env::var(NOTIFY_VARIABLE);
        let mode = Mode::EventDriven;
        let mut requests = daemon::start(SCHEME, mode, notify.as_deref(), &mut scheme)?;
        queue.subscribe(requests.fd(), EventFlags::EVENT_READ, Source::Requests)?;
        let borrowed = start_borrowing(&mut scheme, requests.socket().clone())?;
        queue.subscribe(borrowed.raw(), EventFlags::EVENT_READ, Source::Pages)?;
        let mut wire = Wire::default();
        let mut relay = Relay::default();
        let mut traffic = Traffic::default();
        // Whether other nodes' daemons, or the relay's connections, may have more to read.
        let (mut has_come, mut has_relayed) = (true, true);
        let mut ready: Vec<Ready<Source>> = Vec::new();
        loop {
            let now = system_time();
            let state = port.look(&mut queue, scheme.device(), now)?;
            let device = scheme.device();
            device.set_port(state);
            traffic.look(device, &wire, now);
            device.mads.set_up(state == PortState::Active, now);
            let has_event = ready.iter().any(|of| of.source == Source::Lanes);
            if has_event || device.next_look().is_some_and(|time| time <= now) {
                device.serve(now, |fd, flags| queue.subscribe(fd, flags, Source::Lanes));
            }
            device.progress(now);
            device.mads.progress(now);
            if state == PortState::Down {
                wire.clear();
                relay.clear();
                (has_come, has_relayed) = (true, true);
            } else {
                if has_come || wire.deadline().is_some_and(|until| until <= now) {
                    has_come = wire.take(&mut device.mads, &mut queue, Source::Wire, now);
                }
                if has_relayed || relay.deadline().is_some_and(|until| until <= now) {
                    let own = device.shared.node;
                    has_relayed = relay.serve(own, &mut queue, Source::Relay, now);
                }
            }
            device.pass_mad_events();
            // Bytes beyond these 64 stay in the pipe and wake the loop again.
            if borrowed.read(&mut [0; 64]).is_ok() {
                scheme.take_borrowed();
                requests.retry_parked(&mut scheme)?;
            }
            let status = requests.poll(&mut scheme)?;
            let device = scheme.device();
            if state == PortState::Active {
                wire.give(&mut device.mads, &mut queue, Source::Wire, now);
            }
            let deadlines = [
                port.deadline(now),
                device.deadline(),
                device.next_look(),
                device.mads.deadline(),
                wire.deadline().filter(|_| state == PortState::Active),
                relay.deadline().filter(|_| state == PortState::Active),
                (has_come || has_relayed)
                    .then_some(now)
                    .filter(|_| state == PortState::Active),
            ];
            let deadline = match status {
                Status::Closed => return Ok(()),
                Status::More => Some(now),
                Status::Idle => deadlines.into_iter().flatten().min(),
            };
            queue.wait_until(deadline, now, &mut ready)?;
            has_come |= ready.iter().any(|of| of.source == Source::Wire);
            has_relayed |= ready.iter().any(|of| of.source == Source::Relay);
        }
    }

    /// Starts the thread that borrows pages of programs. The descriptor that is returned gives a
    /// byte for each borrowing that has ended.
    fn start_borrowing(scheme: &mut InfinibandScheme, socket: Rc<Socket>) -> Result<Fd> {
        let (orders, work, ended) = borrow_thread::prepare()?;
        runtime::thread::spawn(move || {
            if let Err(error) = work.run() {
                log::error!("no memory of programs can be had any more: {error}");
            }
        })?;
        scheme.borrow_by(orders, socket);
        Ok(ended)
    }

    /// Reads the SCIF driver's counters of the bytes that pass between nodes.
    #[derive(Default)]
    struct Traffic {
        /// When to read them again, in nanoseconds.
        next: u64,
    }

    impl Traffic {
        /// Reads the counters, at most once in [`PAUSE`].
        fn look(&mut self, device: &mut Device, wire: &Wire, now: u64) {
            if now < self.next {
                return;
            }
            self.next = now + PAUSE.as_nanos() as u64;
            // While no driver runs, nothing passes.
            if let Ok(table) = runtime::fs::read_to_string("/scheme/scif/traffic") {
                device.note_scif(&table, wire.carried());
            }
        }
    }

    /// The monotonic clock, in nanoseconds.
    fn system_time() -> u64 {
        Instant::now().as_nanos()
    }

    /// Passes on which nodes have come and gone. Each line names one: `added 1`.
    fn note_nodes(lines: &[u8], mads: &mut Mads, now: u64) {
        let lines = core::str::from_utf8(lines).unwrap_or_default().lines();
        // The port comes up before the first node does.
        mads.set_up(true, now);
        for line in lines {
            if let Some((what, node)) = line.split_once(' ')
                && let Ok(node) = node.parse()
            {
                mads.set_online(node, what == "added", now);
            }
        }
    }

    /// The port, which is active as long as the SCIF driver runs.
    struct Port {
        nodes: Option<Fd>,
    }

    impl Port {
        fn new() -> Port {
            Port { nodes: None }
        }

        /// Finds out the state of the port: opens the driver's file `peers` if it is not open, and
        /// reads which nodes have come and gone.
        fn look(
            &mut self,
            queue: &mut Queue<Source>,
            device: &mut Device,
            now: u64,
        ) -> Result<PortState> {
            if self.nodes.is_none() {
                let flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
                let nodes = Fd::open("/scheme/scif/peers", flags, 0);
                if let (Ok(nodes), Ok(all)) = (nodes, scif::nodes()) {
                    if device.set_node(all.own) {
                        log::info!("device of node {}", all.own);
                    }
                    queue.subscribe(nodes.raw(), EventFlags::EVENT_READ, Source::Nodes)?;
                    self.nodes = Some(nodes);
                }
            }
            let mut lines = [0; 512];
            while let Some(nodes) = &self.nodes {
                match nodes.read(&mut lines).map_err(Error::from) {
                    Ok(length) => note_nodes(&lines[..length], &mut device.mads, now),
                    Err(Error { errno: EAGAIN }) => return Ok(PortState::Active),
                    Err(_) => self.nodes = None,
                }
            }
            Ok(PortState::Down)
        }

        /// When to look again if no event comes, in nanoseconds.
        fn deadline(&self, now: u64) -> Option<u64> {
            let pause = match self.nodes {
                None => PAUSE,
                Some(_) if hal::kernel::ends_abandoned_requests() => return None,
                Some(_) => LOOK,
            };
            Some(now + pause.as_nanos() as u64)
        }
    }
}

#[cfg(target_os = "redox")]
extern crate alloc;

/// The daemon runs on Redox only; elsewhere its library is tested.
#[cfg(not(target_os = "redox"))]
fn main() {}
