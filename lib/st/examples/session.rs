//! Level 2: a session outlives its connections, and each header arrives once and in order.
#![no_std]
#![no_main]

use st::{Deadline, Error, Level, Port, PortId, Session, SessionListener};
use st_examples::{Result, ensure, patient, play};

runtime::main!(main);

const COUNT: u64 = 300;

fn main() -> i32 {
    play(5404, server, client)
}

fn server(port: Port) -> Result {
    let mut session = SessionListener::bind(port)?.accept()?;
    let mut next = 0_u64;
    loop {
        match session.pull::<u64>() {
            Ok(number) => ensure(number == next, "not the next one")?,
            // The client has finished.
            Err(Error::Ended) => break,
            Err(error) => return Err(error.into()),
        }
        next += 1;
    }
    runtime::println!("{next} headers, each once");
    ensure(next == COUNT, "not all came")
}

fn client(server: PortId) -> Result {
    let mut session = Session::connect(server, &patient())?;
    for number in 0..COUNT {
        let token = session.push(&number)?;
        if number % 100 == 50 {
            // As if the driver had died: the next calls make another connection.
            session.disconnect()?;
            session.wait(&token, Level::Taken, Deadline::after_ms(20_000)?)?;
        }
    }
    // Before the session is dropped: what has not been taken would be lost.
    session.finish(Deadline::after_ms(20_000)?)?;
    Ok(())
}
