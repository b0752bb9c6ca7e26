//! scifpin: pins programs' memory where it is, for the SCIF daemon.
#![cfg_attr(target_os = "redox", no_std, no_main)]

#[cfg(target_os = "redox")]
extern crate alloc;

#[cfg(target_os = "redox")]
mod pages;

#[cfg(target_os = "redox")]
mod program {
    use alloc::rc::Rc;

    use libredox::Fd;
    use libredox::flag::{O_CLOEXEC, O_DIRECTORY};
    use platform::borrow::Borrower;
    use platform::daemon::{self, NOTIFY_VARIABLE};
    use platform::scheme::SchemeLoop;
    use platform::{Result, pin};
    use redox_scheme::Socket;
    use scifpin::scheme::PinScheme;

    use crate::pages::KernelPages;

    runtime::main!(main);

    fn main() -> i32 {
        runtime::logging::init(pin::SCHEME);
        match run() {
            Ok(()) => 0,
            Err(error) => {
                log::error!("cannot serve scheme `{}`: {error}", pin::SCHEME);
                1
            }
        }
    }

    fn run() -> Result<()> {
        let scif = Fd::open("/scheme/scif", O_DIRECTORY | O_CLOEXEC, 0)?;
        let socket = Rc::new(Socket::create()?);
        let pages = KernelPages::new(Rc::clone(&socket), Borrower::new()?, scif);
        let mut scheme = PinScheme::new(pages);
        let notify = runtime::env::var(NOTIFY_VARIABLE);
        daemon::announce(&socket, pin::SCHEME, notify.as_deref(), &mut scheme)?;
        daemon::seal()?;
        SchemeLoop::new(socket, true).run(&mut scheme)
    }
}

/// The daemon runs on Redox only; elsewhere its library is tested.
#[cfg(not(target_os = "redox"))]
fn main() {}
