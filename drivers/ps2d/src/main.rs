//! ps2d: the driver of the PS/2 keyboard.
//!
//! Sets up the controller through its ports, reads the scan codes from the kernel's scheme `serio`
//! as Redox's driver of the same name does, and types on the console (`consoled`, handle
//! `keyboard`). Without a controller it logs that and exits; without a keyboard it waits for one.
#![cfg_attr(target_os = "redox", no_std, no_main)]

#[cfg(target_os = "redox")]
mod program {
    use hal::Result;
    use hal::port;
    use libredox::Fd;
    use libredox::flag::{O_CLOEXEC, O_RDONLY, O_RDWR};
    use ps2d::controller::{self, Keyboard, Ports, SelfTest};
    use ps2d::keys::Keys;
    use runtime::time::{Duration, sleep};
    use scheme::daemon;
    use syscall::error::{EINTR, Error};

    runtime::main!(main);

    fn main() -> i32 {
        let purpose = "types what is pressed on a PS/2 keyboard on the console";
        if let Some(status) = runtime::env::answer_people("", purpose, 0) {
            return status;
        }
        runtime::logging::init("ps2d");
        match run() {
            Ok(()) => 0,
            Err(error) => {
                log::error!("the keyboard is not served: {error}");
                1
            }
        }
    }

    struct Machine(port::Ports);

    impl Ports for Machine {
        fn read(&mut self, port: u16) -> u8 {
            self.0.read8(port)
        }

        fn write(&mut self, port: u16, value: u8) {
            self.0.write8(port, value);
        }

        fn wait_ms(&mut self) {
            sleep(Duration::from_millis(1));
        }
    }

    fn run() -> Result<()> {
        let state = match controller::set_up(&mut Machine(port::Ports::acquire()?)) {
            Ok(state) => state,
            Err(fault) => {
                log::warn!("no keyboard: {fault}");
                return Ok(());
            }
        };
        if state.self_test != SelfTest::Passed {
            log::warn!("{}; the keyboard is used all the same", state.self_test);
        }
        match state.keyboard {
            Keyboard::Works => log::info!("keyboard ready"),
            odd => log::warn!("no keyboard yet: {odd}; one that is plugged in later is used"),
        }
        let input = open("/scheme/serio/0", O_RDONLY)?;
        let console = open("/scheme/console", O_RDWR)?;
        let console = Fd::new(libredox::call::dup(console.raw(), b"keyboard")?);
        daemon::seal()?;
        serve(&input, &console)
    }

    fn open(path: &str, mode: i32) -> Result<Fd> {
        Fd::open(path, mode | O_CLOEXEC, 0).map_err(|error| {
            log::error!("{path} cannot be opened");
            Error::from(error)
        })
    }

    /// Reads scan codes and types them on the console, for ever.
    fn serve(input: &Fd, console: &Fd) -> Result<()> {
        let mut keys = Keys::default();
        let mut codes = [0; 64];
        loop {
            let count = match input.read(&mut codes) {
                Ok(count) => count,
                Err(error) if error.errno() == EINTR => continue,
                Err(error) => return Err(Error::from(error)),
            };
            for code in &codes[..count] {
                let bytes = keys.push(*code);
                if !bytes.as_slice().is_empty() {
                    runtime::io::write_all(console.raw(), bytes.as_slice())?;
                }
            }
        }
    }
}

/// The driver runs on Redox only; elsewhere its library is tested.
#[cfg(not(target_os = "redox"))]
fn main() {}
