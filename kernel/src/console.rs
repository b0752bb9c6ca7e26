//! The console: the serial port (COM1) and the screen, the input queue, and the kernel's log.
//! Output goes to both; a machine that lacks one or both of them continues without.
//!
//! The kernel shows plain text on the screen until a terminal takes the screen over
//! ([`take_screen`]). From then on the terminal reads all output ([`read_output`]) and sends
//! cells. The kernel continues when the terminal gives the screen back, or at a panic.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, Ordering};

use kernel_core::bootinfo::ScreenInfo;
use kernel_core::history::History;
use kernel_core::screen::{Cell, Grid, Layout};
use log::{Level, LevelFilter, Log, Metadata, Record};
use spin::{Mutex, Once};

use crate::arch::{framebuffer, irq, port};
use crate::mm;
use crate::sched::WaitQueue;

const COM1: u16 = 0x3F8;
const INTERRUPT_ENABLE: u16 = COM1 + 1;
const FIFO_CONTROL: u16 = COM1 + 2;
const LINE_CONTROL: u16 = COM1 + 3;
const MODEM_CONTROL: u16 = COM1 + 4;
const LINE_STATUS: u16 = COM1 + 5;
const SCRATCH: u16 = COM1 + 7;
const DATA_READY: u8 = 1;
const TRANSMITTER_EMPTY: u8 = 0x20;
/// Interrupt number of COM1.
const IRQ: u8 = 4;
/// Polls after which the transmitter counts as absent.
const MAX_POLLS: u32 = 1_000_000;
/// Bytes that an empty transmitter takes at once.
const FIFO: usize = 16;

/// Most bytes of input that are kept from before the port is set up.
const MAX_EARLY: usize = 256;
/// Polls of the port after which a burst counts as over: about a millisecond.
const BURST_POLLS: u32 = 1000;
/// Most bytes of unread input that are kept; more are dropped.
const MAX_INPUT: usize = 4096;
/// Bytes of output kept for a terminal: more than the largest screen holds.
const MAX_HISTORY: usize = 16 * 1024;
/// Most bytes of the log that are kept.
const MAX_LOG: usize = 64 * 1024;

/// Woken when input arrives; wait with `read_input` as condition.
pub static INPUT: WaitQueue = WaitQueue::new();

static QUEUE: Mutex<VecDeque<u8>> = Mutex::new(VecDeque::new());
/// Input that the port held before it was set up. (Setting it up clears its FIFO, and there is no
/// heap yet.)
static EARLY: Mutex<([u8; MAX_EARLY], usize)> = Mutex::new(([0; MAX_EARLY], 0));
static OUTPUT: Mutex<Output> = Mutex::new(Output {
    line_open: false,
    serial: Serial,
    screen: Grid::new(),
    screen_is_taken: false,
    history: History::new(),
});
/// Whether there is output of which the terminal's readers have not been notified.
static NEW_OUTPUT: AtomicBool = AtomicBool::new(false);
/// Whether there is a serial port with a working transmitter.
static SERIAL_WORKS: AtomicBool = AtomicBool::new(false);
static LOG: Mutex<VecDeque<u8>> = Mutex::new(VecDeque::new());
static HOOK: Once<fn()> = Once::new();

/// Writes to the port. The lock of `OUTPUT` lets one writer in at a time.
struct Serial;

impl Serial {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(FIFO) {
            if !SERIAL_WORKS.load(Ordering::Relaxed) {
                return;
            }
            let mut polls = 0;
            while port::read8(LINE_STATUS) & TRANSMITTER_EMPTY == 0 {
                polls += 1;
                if polls == MAX_POLLS {
                    SERIAL_WORKS.store(false, Ordering::Relaxed);
                    return;
                }
                core::hint::spin_loop();
            }
            for &byte in chunk {
                port::write8(COM1, byte);
            }
        }
    }
}

struct Output {
    /// Whether the last written byte was no line end.
    line_open: bool,
    serial: Serial,
    /// Has no room until there is a screen.
    screen: Grid,
    /// Whether a terminal draws on the screen.
    screen_is_taken: bool,
    history: History<MAX_HISTORY>,
}

impl Output {
    fn write(&mut self, bytes: &[u8]) {
        let Some(&last) = bytes.last() else { return };
        self.line_open = last != b'\n';
        self.serial.write(bytes);
        self.screen.write(bytes);
        self.history.write(bytes);
        if self.screen_is_taken {
            NEW_OUTPUT.store(true, Ordering::Relaxed);
        } else {
            self.paint();
        }
    }

    /// Shows new output, if the screen can be written yet.
    fn paint(&mut self) {
        if let Some(screen) = framebuffer::get() {
            self.screen
                .paint(|column, row, cell| screen.put(column, row, cell));
            screen.flush();
        }
    }

    /// Shows everything again where a terminal has drawn.
    fn take_screen_back(&mut self) {
        self.screen_is_taken = false;
        if let Some(screen) = framebuffer::get() {
            self.screen
                .paint_all(|column, row, cell| screen.put(column, row, cell));
            screen.flush();
        }
    }

    /// Ends a line that a program left open, so that the next output starts its own line.
    fn fresh_line(&mut self) {
        if self.line_open {
            self.write(b"\n");
        }
    }
}

/// Sets up the port: 115200 baud, 8 bits, no parity, FIFO on. Output works from here on, if there
/// is a port.
pub fn init() {
    // A port that exists keeps a byte; a missing one reads as all ones.
    let keeps = |byte| {
        port::write8(SCRATCH, byte);
        port::read8(SCRATCH) == byte
    };
    SERIAL_WORKS.store(keeps(0x5A) && keeps(0xA5), Ordering::Relaxed);
    port::write8(INTERRUPT_ENABLE, 0);
    keep_early_input();
    port::write8(LINE_CONTROL, 0x80);
    port::write8(COM1, 1);
    port::write8(INTERRUPT_ENABLE, 0);
    port::write8(LINE_CONTROL, 0x03);
    port::write8(FIFO_CONTROL, 0x07);
    // DTR, RTS, and OUT2, which lets the interrupt through.
    port::write8(MODEM_CONTROL, 0x0B);
    // Setting the logger fails only when one is set already.
    let _ = log::set_logger(&LOGGER);
    log::set_max_level(LevelFilter::Info);
}

/// Takes the input from before the port is set up. An emulator delivers the next byte a moment
/// after the last one was read.
fn keep_early_input() {
    if !SERIAL_WORKS.load(Ordering::Relaxed) {
        return;
    }
    let comes = || port::read8(LINE_STATUS) & DATA_READY != 0;
    let mut early = EARLY.lock();
    let (bytes, count) = &mut *early;
    // Without a first byte, do not wait for more.
    let mut polls = 1;
    while let Some(slot) = bytes.get_mut(*count)
        && (0..polls).any(|_| comes())
    {
        *slot = port::read8(COM1);
        *count += 1;
        polls = BURST_POLLS;
    }
}

/// Shows the console on the screen that the loader set up, through the boot page tables. The
/// layout is kept until `map_screen`.
pub fn find_screen(screen: Option<ScreenInfo>) {
    let usable = screen.and_then(|info| Some((info, framebuffer::layout(&info).ok()?)));
    let Some((info, layout)) = usable else {
        return;
    };
    OUTPUT.lock().screen.resize(layout);
    framebuffer::init_early(info, layout);
}

/// Maps the screen on the kernel's own page tables, and logs which consoles exist. Call it before
/// the first address space.
pub fn map_screen(screen: Option<ScreenInfo>) {
    match screen.map(|info| (info, framebuffer::layout(&info))) {
        None => log::info!("no screen: the loader set none up; messages go to the serial port"),
        Some((info, Err(why))) => {
            log::warn!(
                "the screen cannot be used: {why} ({} x {}, {} bits, {} bytes a row, at {:#x}); \
                 see docs/hardware.md",
                info.width,
                info.height,
                info.bits,
                info.pitch,
                info.address
            );
        }
        Some((info, Ok(layout))) if framebuffer::init_mapped(info, layout) => {
            OUTPUT.lock().paint();
            log::info!(
                "screen: {} x {}, {} bits, {} x {} letters, at {:#x}",
                info.width,
                info.height,
                info.bits,
                layout.columns,
                layout.rows,
                info.address
            );
        }
        Some((info, Ok(_))) => {
            log::warn!(
                "the screen at {:#x} cannot be mapped: no memory",
                info.address
            );
        }
    }
    if !SERIAL_WORKS.load(Ordering::Relaxed) {
        log::info!("no serial port at {COM1:#x}: messages go to the screen only");
    }
}

/// Enables the input interrupt. The interrupt controllers must be set up.
pub fn enable_input() {
    if !SERIAL_WORKS.load(Ordering::Relaxed) {
        return;
    }
    {
        let (bytes, count) = *EARLY.lock();
        QUEUE.lock().extend(&bytes[..count]);
    }
    irq::register(IRQ, |_| receive());
    port::write8(INTERRUPT_ENABLE, 1);
    irq::unmask(IRQ);
    // Input from before the interrupt was on would block the interrupt for ever.
    receive();
}

fn receive() {
    let mut any = false;
    let mut is_empty = false;
    {
        let mut queue = QUEUE.lock();
        // An emulator may refill the FIFO as fast as it is read, and other work waits.
        for _ in 0..FIFO * 4 {
            let status = port::read8(LINE_STATUS);
            // A missing port reads as all ones.
            if status & DATA_READY == 0 || status == 0xFF {
                is_empty = true;
                break;
            }
            let byte = port::read8(COM1);
            // Without memory the byte is lost, as when the queue is full.
            if queue.len() < MAX_INPUT && queue.try_reserve(1).is_ok() {
                queue.push_back(byte);
                any = true;
            }
        }
    }
    if !is_empty {
        // The interrupt comes when its line rises, and with more input there the line never fell.
        port::write8(INTERRUPT_ENABLE, 0);
        port::write8(INTERRUPT_ENABLE, 1);
    }
    if any {
        INPUT.wake_all();
        if let Some(hook) = HOOK.get() {
            hook();
        }
    }
}

/// Writes bytes as they are.
pub fn write(bytes: &[u8]) {
    OUTPUT.lock().write(bytes);
}

/// Writes text that begins on a line of its own.
pub fn write_report(text: &str) {
    let mut output = OUTPUT.lock();
    output.fresh_line();
    output.write(text.as_bytes());
}

/// The layout of text on the screen; `None` without one.
pub fn screen_layout() -> Option<Layout> {
    framebuffer::get().map(|screen| screen.layout())
}

/// Lets a terminal draw on the screen.
pub fn take_screen() {
    OUTPUT.lock().screen_is_taken = true;
}

/// Draws on the screen again after the terminal is gone.
pub fn take_screen_back() {
    OUTPUT.lock().take_screen_back();
}

/// Shows a terminal's cells.
pub fn show_cells(cells: impl Iterator<Item = (usize, usize, Cell)>) {
    if let Some(screen) = framebuffer::get() {
        cells.for_each(|(column, row, cell)| screen.put(column, row, cell));
        screen.flush();
    }
}

/// Copies the output that is kept from the byte `from` on, counted since the boot. Advances `from`
/// and returns the number of bytes copied.
pub fn read_output(from: &mut u64, bytes: &mut [u8]) -> usize {
    OUTPUT.lock().history.read(from, bytes)
}

/// Whether there is output after the byte `from`, counted since the boot.
pub fn has_output(from: u64) -> bool {
    OUTPUT.lock().history.written() > from
}

/// Whether there has been output since the last call, while a terminal has the screen.
pub fn take_new_output() -> bool {
    NEW_OUTPUT.load(Ordering::Relaxed) && NEW_OUTPUT.swap(false, Ordering::Relaxed)
}

/// Takes up to `bytes.len()` bytes of input. Returns 0 when there is none.
pub fn read_input(bytes: &mut [u8]) -> usize {
    let mut queue = QUEUE.lock();
    let count = bytes.len().min(queue.len());
    for (slot, byte) in bytes.iter_mut().zip(queue.drain(..count)) {
        *slot = byte;
    }
    count
}

/// Whether there is input.
pub fn has_input() -> bool {
    !QUEUE.lock().is_empty()
}

/// Sets the function that is called after input has arrived (from the interrupt; it must not
/// block). Set once.
pub fn on_input(hook: fn()) {
    HOOK.call_once(|| hook);
}

/// The kernel's log so far (`sys/log`), without the oldest lines beyond 64 KiB. Empty when memory
/// has no room for a copy.
pub fn log_text() -> Vec<u8> {
    let log = LOG.lock();
    let mut text = mm::list_for(log.len()).unwrap_or_default();
    text.extend(log.iter().copied());
    text
}

/// Sets how much the kernel logs: `off`, `error`, `warn`, `info`, `debug` or `trace`. Any other
/// name changes nothing and returns false.
pub fn set_log_level(name: &str) -> bool {
    match name.parse() {
        Ok(level) => {
            log::set_max_level(level);
            true
        }
        Err(_) => false,
    }
}

struct Logger;

static LOGGER: Logger = Logger;

/// A line on the stack, so that logging needs no heap and outputs a line in one piece.
struct Line {
    bytes: [u8; 256],
    len: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // The last byte is reserved for the line end; text that does not fit is cut off.
        let room = self.bytes.len() - 1 - self.len;
        let text = &text.as_bytes()[..text.len().min(room)];
        self.bytes[self.len..self.len + text.len()].copy_from_slice(text);
        self.len += text.len();
        Ok(())
    }
}

impl Log for Logger {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let mut line = Line {
            bytes: [0; 256],
            len: 0,
        };
        // Writing to a line does not fail.
        let _ = match record.level() {
            Level::Error => write!(line, "kernel: error: {}", record.args()),
            Level::Warn => write!(line, "kernel: warning: {}", record.args()),
            _ => write!(line, "kernel: {}", record.args()),
        };
        line.bytes[line.len] = b'\n';
        let line = &line.bytes[..line.len + 1];
        {
            let mut output = OUTPUT.lock();
            output.fresh_line();
            output.write(line);
        }
        keep(line);
    }

    fn flush(&self) {}
}

/// Adds a line to the log of `log_text`. Without memory (also before there is a heap) the line is
/// only printed.
fn keep(line: &[u8]) {
    if !crate::mm::heap_works() {
        return;
    }
    let mut log = LOG.lock();
    while log.len() + line.len() > MAX_LOG {
        match log.iter().position(|&b| b == b'\n') {
            Some(end) => drop(log.drain(..=end)),
            None => log.clear(),
        }
    }
    if log.try_reserve(line.len()).is_ok() {
        log.extend(line);
    }
}

/// Output for a panic. It waits for no lock, because the panicking code may hold it. On the screen
/// it begins at the top, over the former content.
pub struct Emergency {
    column: usize,
    row: usize,
}

impl Emergency {
    /// Begins in the upper left corner. If the lock is free, first shows the output that the
    /// terminal has not shown yet.
    pub fn new() -> Self {
        if let Some(mut output) = OUTPUT.try_lock()
            && output.screen_is_taken
        {
            output.take_screen_back();
        }
        Emergency { column: 0, row: 0 }
    }

    fn show(&mut self, byte: u8) {
        const BRIGHT_RED: u8 = 9;
        let Some(screen) = framebuffer::get() else {
            return;
        };
        let end_of_line = byte == b'\n';
        let letter = if end_of_line { b' ' } else { byte };
        let cell = Cell {
            letter,
            color: BRIGHT_RED,
            reversed: true,
        };
        // Clear the rest of the row, too, so that no older text stands beside the report.
        let columns = screen.layout().columns;
        let end = if end_of_line {
            columns
        } else {
            self.column + 1
        };
        (self.column..end).for_each(|column| screen.put(column, self.row, cell));
        self.column = end;
        if self.column >= columns {
            self.column = 0;
            self.row += 1;
        }
    }
}

impl Write for Emergency {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        Serial.write(text.as_bytes());
        text.bytes().for_each(|byte| self.show(byte));
        if let Some(screen) = framebuffer::get() {
            screen.flush();
        }
        Ok(())
    }
}
