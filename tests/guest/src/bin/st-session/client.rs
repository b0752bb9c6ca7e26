//! The client: numbered headers both ways, what happens meanwhile, and how sessions end.

use runtime::println;
use runtime::time::Duration;
use scif::{Memory, NodeId};
use st::{Deadline, Error, Level, PortId, Session};

use super::{COUNT, Checked, Failure, Header, PLACE, PLACES, PORT, check, failed, kill_driver};
use super::{numbered, options, order};

/// Headers between two disturbances.
const EVERY: u64 = 250;
/// How long the client waits for a header: far longer than a driver takes to come back.
const LONG: u64 = 120_000;

/// All checks.
pub fn run(node: NodeId) -> Checked {
    exactly_once(node)?;
    println!("STEP st-session exactly once, in order: ok");
    levels(node)?;
    println!("STEP st-session levels: ok");
    ends(node)?;
    println!("STEP st-session ends: ok");
    Ok(())
}

fn begin(node: NodeId, reconnect_timeout: Duration) -> Checked<Session> {
    let options = options().retry_for(Duration::from_secs(30));
    let options = options.reconnect_timeout(reconnect_timeout);
    let session = Session::connect(PortId::new(node, PORT), &options);
    let mut session = session.map_err(failed("connect"))?;
    let memory = Memory::new(PLACES * PLACE).map_err(|_| Failure::Setup)?;
    session.map(memory).map_err(failed("map"))?;
    Ok(session)
}

/// Both ends push and pull, while one thing after the other goes wrong.
fn exactly_once(node: NodeId) -> Checked {
    let mut session = begin(node, Duration::from_secs(30))?;
    let (mut sent, mut received) = (0, 0);
    while received < COUNT {
        while sent < COUNT {
            let (mut header, data) = numbered(0, sent);
            header.order = match (sent % EVERY, sent / EVERY % 4) {
                (100, 1) => order::CUT,
                (100, 3) => order::KILL,
                _ if sent + 1 == COUNT => order::FINISH,
                _ => order::NOTHING,
            };
            // Until the server's memory is known there is no room, and no answer to come either.
            let deadline = match sent == received {
                true => Deadline::after_ms(LONG).map_err(failed("clock"))?,
                false => Deadline::Now,
            };
            let pushed = session.put_with_until(&data, header.at, &header, deadline);
            match pushed {
                Ok(_) => sent += 1,
                Err(Error::WouldBlock) => break,
                Err(error) => return Err(failed("put")(error)),
            }
            match (sent % EVERY, sent / EVERY % 4) {
                (200, 0) => session.disconnect().map_err(failed("disconnect"))?,
                (200, 2) => kill_driver()?,
                _ => {}
            }
        }
        let deadline = Deadline::after_ms(LONG).map_err(failed("clock"))?;
        let header = session.pull_until::<Header>(deadline);
        check(
            1,
            received,
            &header.map_err(failed("pull"))?,
            session.memory(),
        )?;
        received += 1;
    }
    // The server waits for the same, and both have taken headers since they looked for more.
    let deadline = Deadline::after_ms(LONG).map_err(failed("clock"))?;
    session.finish(deadline).map_err(failed("finish"))?;
    match session.pull::<Header>() {
        Err(Error::Ended) => Ok(()),
        Ok(header) => {
            println!("st-session: {} came after the last one", header.number);
            Err(Failure::Doubled)
        }
        Err(error) => {
            println!("st-session: ended with {error}");
            Err(Failure::End)
        }
    }
}

/// Transfers reach their levels across the loss of connections.
fn levels(node: NodeId) -> Checked {
    let mut session = begin(node, Duration::from_secs(30))?;
    for number in 0..40 {
        let (header, data) = numbered(0, number);
        let token = session.put_with(&data, header.at, &header);
        let token = token.map_err(failed("put"))?;
        if number % 4 == 1 {
            session.disconnect().map_err(failed("disconnect"))?;
        }
        let level = match number % 2 {
            0 => Level::Delivered,
            _ => Level::Taken,
        };
        let deadline = Deadline::after_ms(LONG).map_err(failed("clock"))?;
        let waited = session.wait(&token, level, deadline);
        waited.map_err(failed("wait"))?;
        if session.status(&token) < level {
            return Err(Failure::Level);
        }
        let answer: Header = session.pull().map_err(failed("pull"))?;
        check(1, number, &answer, session.memory())?;
    }
    session.finish(Deadline::Never).map_err(failed("finish"))?;
    match session.unfinished() {
        0 => Ok(()),
        _ => Err(Failure::Level),
    }
}

/// Sessions end with the errors that are documented.
fn ends(node: NodeId) -> Checked {
    // The server goes on without the session.
    let mut session = begin(node, Duration::from_secs(30))?;
    ordered(&mut session, order::FORGET)?;
    ended(&mut session, Error::Forgotten)?;
    // A full session does not wait when it must not.
    let refused = session.push_until(&Header::default(), Deadline::Now).err();
    if refused != Some(Error::Forgotten) {
        return Err(Failure::End);
    }
    // The server goes.
    let mut session = begin(node, Duration::from_millis(1500))?;
    ordered(&mut session, order::EXIT)?;
    ended(&mut session, Error::Expired)
}

fn ordered(session: &mut Session, order: u32) -> Checked {
    let (mut header, data) = numbered(0, 0);
    header.order = order;
    let pushed = session.put_with(&data, header.at, &header);
    pushed.map_err(failed("put"))?;
    let answer: Header = session.pull().map_err(failed("pull"))?;
    check(1, 0, &answer, session.memory())
}

fn ended(session: &mut Session, end: Error) -> Checked {
    match session.pull::<Header>() {
        Err(error) if error == end => Ok(()),
        other => {
            println!("st-session: {other:?} instead of {end:?}");
            Err(Failure::End)
        }
    }
}
