//! The server: answers each header with one of its own, and does what the client orders.

use scif::Memory;
use st::{Deadline, Error, Session, SessionListener};

use super::{Checked, Failure, Header, PLACE, PLACES, PORT, check, failed, kill_driver, numbered};
use super::{options, order};

/// Serves until a client says that it is the last.
pub fn serve() -> Checked {
    let listener = SessionListener::with_options(&options().port(PORT));
    let listener = listener.map_err(failed("listen"))?;
    loop {
        let mut session = listener.accept().map_err(failed("accept"))?;
        if talk(&mut session)? {
            return Ok(());
        }
    }
}

/// Serves one session; whether it was the last.
fn talk(session: &mut Session) -> Checked<bool> {
    let memory = Memory::new(PLACES * PLACE).map_err(|_| Failure::Setup)?;
    session.map(memory).map_err(failed("map"))?;
    let mut next = 0;
    loop {
        let header: Header = match session.pull() {
            Ok(header) => header,
            Err(Error::Ended) => return Ok(false),
            Err(error) => return Err(failed("pull")(error)),
        };
        check(0, next, &header, session.memory())?;
        let (answer, data) = numbered(1, next);
        let pushed = session.put_with(&data, answer.at, &answer);
        pushed.map_err(failed("put"))?;
        next += 1;
        match header.order {
            order::CUT => session.disconnect().map_err(failed("disconnect"))?,
            order::KILL => kill_driver()?,
            order::FINISH => {
                let finished = session.finish(Deadline::Never);
                finished.map_err(failed("finish"))?;
                return Ok(false);
            }
            order::FORGET | order::EXIT => {
                let finished = session.finish(Deadline::Never);
                finished.map_err(failed("finish"))?;
                session.disconnect().map_err(failed("disconnect"))?;
                return Ok(header.order == order::EXIT);
            }
            _ => {}
        }
    }
}
