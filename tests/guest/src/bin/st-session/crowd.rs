//! Clients that name no session, clients that go before they are accepted, and a listener that goes
//! before its sessions.

use alloc::vec::Vec;

use runtime::println;
use runtime::time::Duration;
use scif::NodeId;
use st::{Deadline, Error, PortId, Session, SessionListener, connect};

use super::{Checked, Failure, Header, failed, options, order};

/// Where the server listens.
const PORT: u16 = 5311;
/// How many clients may wait.
const FEW: i32 = 2;
/// How long a client waits for its end: less than a client may take to name its session.
const SOON: u64 = 5_000;

/// Accepts one session, stops listening, and serves the session until its client has gone.
pub fn serve() -> Checked {
    let options = options().port(PORT).backlog(FEW);
    let listener = SessionListener::with_options(&options);
    let listener = listener.map_err(failed("listen"))?;
    let mut session = listener.accept().map_err(failed("accept"))?;
    drop(listener);
    loop {
        let header: Header = session.pull().map_err(failed("pull"))?;
        session.push(&header).map_err(failed("push"))?;
        if header.order == order::FINISH {
            let finished = session.finish(Deadline::Never);
            return finished.map_err(failed("finish"));
        }
    }
}

/// The clients.
pub fn run(node: NodeId) -> Checked {
    let to = PortId::new(node, PORT);
    let options = options().retry_for(Duration::from_secs(30));
    // As many as may wait, and one more, for which the first one has to go.
    let silent = options.channels(1);
    let silent: Result<Vec<_>, Error> = (0..=FEW).map(|_| connect(to, &silent)).collect();
    let silent = silent.map_err(failed("connect in silence"))?;
    let first = silent.first().ok_or(Failure::Setup)?;
    let (_, mut first) = first.channel(0).map_err(failed("attach"))?.split();
    let soon = Deadline::after_ms(SOON).map_err(failed("clock"))?;
    match first.pull_until::<Header>(soon) {
        Err(Error::Ended) => {}
        other => {
            println!("st-session: {other:?} for a client that says nothing");
            return Err(Failure::End);
        }
    }
    let mut session = Session::connect(to, &options).map_err(failed("connect"))?;
    answered(&mut session, order::NOTHING)?;
    // Nobody accepts any more: a new session is refused, and the other one is resumed.
    match Session::connect(to, &options).err() {
        Some(Error::Forgotten) => {}
        other => {
            println!("st-session: {other:?} for a session that nobody accepts");
            return Err(Failure::End);
        }
    }
    session.disconnect().map_err(failed("disconnect"))?;
    answered(&mut session, order::FINISH)?;
    println!("STEP st-session crowd: ok");
    Ok(())
}

fn answered(session: &mut Session, order: u32) -> Checked {
    let header = Header {
        order,
        ..Header::default()
    };
    session.push(&header).map_err(failed("push"))?;
    let answer: Header = session.pull().map_err(failed("pull"))?;
    match answer == header {
        true => Ok(()),
        false => Err(Failure::Data),
    }
}
