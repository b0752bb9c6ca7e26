//! `serio`: raw bytes of the PS/2 controller, `0` from the keyboard and `1` from the mouse.
//!
//! The kernel only takes the bytes at the interrupt, because status and data must be read
//! together. The driver (`ps2d`) does everything else (set-up, meaning of the bytes).

use alloc::{collections::VecDeque, string::String};

use ::syscall::{
    EventFlags,
    data::GlobalSchemes,
    error::{EACCES, ENODEV, ENOENT, EPERM, Error, Result},
};
use spin::Mutex;

use super::{
    Caller, OpenResult, Scheme,
    handles::{Handles, ROOT},
    input,
};
use crate::{
    arch::{irq, port},
    mm::UserBuf,
    sched::WaitQueue,
};

const DATA: u16 = 0x60;
const STATUS: u16 = 0x64;
/// A byte waits in `DATA`.
const STATUS_FULL: u8 = 1;
/// The byte comes from the mouse.
const STATUS_MOUSE: u8 = 1 << 5;
/// The status where no controller is.
const NOTHING: u8 = 0xFF;
/// Interrupt numbers of the two devices.
const IRQS: [u8; 2] = [1, 12];

/// Unread bytes that are kept; more are dropped.
const MAX_INPUT: usize = 1024;
/// Most bytes taken at one interrupt; the controller holds one for each device.
const BURST: usize = 16;

/// One device's bytes.
struct Device {
    queue: Mutex<VecDeque<u8>>,
    readers: WaitQueue,
}

impl Device {
    const fn new() -> Self {
        Device {
            queue: Mutex::new(VecDeque::new()),
            readers: WaitQueue::new(),
        }
    }
}

static DEVICES: [Device; 2] = [Device::new(), Device::new()];

/// The device of each handle.
static HANDLES: Mutex<Handles<usize>> = Mutex::new(Handles::new());

pub struct SerioScheme;

/// The handler of both interrupts.
fn receive(_irq: u8) {
    let mut came = [false; 2];
    for _ in 0..BURST {
        let status = port::read8(STATUS);
        if status & STATUS_FULL == 0 || status == NOTHING {
            break;
        }
        let device = usize::from(status & STATUS_MOUSE != 0);
        let byte = port::read8(DATA);
        let mut queue = DEVICES[device].queue.lock();
        // Without memory the byte is lost, like bytes for a full queue.
        if queue.len() < MAX_INPUT && queue.try_reserve(1).is_ok() {
            queue.push_back(byte);
            came[device] = true;
        }
    }
    for (device, _) in came.iter().enumerate().filter(|(_, came)| **came) {
        DEVICES[device].readers.wake_all();
        let of_it = |(number, of): (usize, &usize)| (*of == device).then_some(number);
        let handles = HANDLES.lock();
        input::announce(GlobalSchemes::Serio, handles.iter().filter_map(of_it));
    }
}

fn device(number: usize) -> Result<usize> {
    HANDLES.lock().get(number).copied()
}

impl Scheme for SerioScheme {
    fn open(
        &self,
        number: usize,
        path: &str,
        _flags: usize,
        _fcntl_flags: u32,
        caller: Caller,
    ) -> Result<OpenResult> {
        let device = match path.trim_start_matches('/') {
            _ if number != ROOT => return Err(Error::new(EACCES)),
            _ if caller.uid != 0 => return Err(Error::new(EPERM)),
            "0" => 0,
            "1" => 1,
            _ => return Err(Error::new(ENOENT)),
        };
        if port::read8(STATUS) == NOTHING {
            return Err(Error::new(ENODEV));
        }
        let opened = OpenResult::plain(HANDLES.lock().insert(device));
        irq::register(IRQS[device], receive);
        irq::unmask(IRQS[device]);
        // A byte from before the interrupt was on would block the interrupt for ever.
        receive(IRQS[device]);
        opened
    }

    fn read(&self, number: usize, buf: UserBuf, flags: u32) -> Result<usize> {
        let device = &DEVICES[device(number)?];
        input::read(buf, flags, MAX_INPUT, &device.readers, |bytes| {
            let mut queue = device.queue.lock();
            let count = bytes.len().min(queue.len());
            for (slot, byte) in bytes.iter_mut().zip(queue.drain(..count)) {
                *slot = byte;
            }
            count
        })
    }

    fn path(&self, number: usize) -> Result<String> {
        device(number).map(|device| alloc::format!("serio:{device}"))
    }

    fn fevent(&self, number: usize, _flags: EventFlags) -> Result<EventFlags> {
        device(number).map(|_| EventFlags::empty())
    }

    fn fsync(&self, number: usize) -> Result<()> {
        device(number).map(|_| ())
    }

    fn close(&self, number: usize) {
        HANDLES.lock().remove(number);
    }
}
