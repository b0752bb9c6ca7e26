//! The machine's own screen, which shows what is sent to the debug port.

use alloc::vec::Vec;

use consoled::screen::Screen;
use libredox::Fd;

/// The kernel's file that gives the output for the screen and takes its cells.
const SCREEN: &str = "/scheme/debug/screen";
/// Bytes to send to the port at a time: fewer than the kernel keeps for the screen.
pub const SHOWN_AT_ONCE: usize = 4096;

/// The machine's own screen.
pub struct ScreenPort {
    /// The kernel's file.
    pub port: Fd,
    screen: Screen,
}

impl ScreenPort {
    /// Opens the screen; `None` if there is none, or the kernel shows text itself.
    pub fn open() -> Option<Self> {
        let flags = libredox::flag::O_RDWR | libredox::flag::O_NONBLOCK | libredox::flag::O_CLOEXEC;
        let port = Fd::open(SCREEN, flags, 0).ok()?;
        let size = Fd::new(port.dup(b"winsize").ok()?);
        let mut bytes = [[0; 2]; 2];
        size.read(bytes.as_flattened_mut()).ok()?;
        let [rows, columns] = bytes.map(|bytes| usize::from(u16::from_ne_bytes(bytes)));
        (rows > 0 && columns > 0).then(|| ScreenPort {
            port,
            screen: Screen::new(columns, rows),
        })
    }

    /// Shows the bytes that any program or the kernel has sent to the port since the last call.
    pub fn refresh(&mut self) {
        let mut block = [0; SHOWN_AT_ONCE];
        // The loop ends when nothing more is there.
        while let Ok(count @ 1..) = self.port.read(&mut block) {
            self.screen.write(&block[..count]);
        }
        let mut cells = Vec::new();
        self.screen
            .paint(|column, row, cell| cells.extend(cell.encode(column, row)));
        if !cells.is_empty() {
            // A screen that accepts no cells cannot show the error either.
            let _ = runtime::io::write_all(self.port.raw(), &cells);
        }
    }
}
