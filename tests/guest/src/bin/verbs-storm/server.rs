//! Servers: take messages in order, look at the data that they tell of, and answer each.

use alloc::string::String;

use runtime::time::{Duration, sleep};
use scif::{Endpoint, Listener, RecvFlags, SendFlags};

use super::client::{DATA, LEAVE, PLAIN};
use super::end::{End, SLOT, SLOTS, byte};
use super::{Deadline, Step, Tally, Trouble, wrong};

/// Serves one client after the other until it is killed.
pub fn run(seed: u64, port: u16) -> Result<(), String> {
    let mut tally = Tally::new(seed);
    loop {
        // The port may still belong to one that was killed, and the driver may have gone.
        let Ok(listener) = Listener::bind(port) else {
            sleep(Duration::from_millis(5));
            continue;
        };
        while let Ok((endpoint, _)) = listener.accept() {
            match session(&endpoint) {
                Ok(was_lost) => tally.add(was_lost),
                Err(Trouble::Gone) => {}
                Err(Trouble::Wrong(what)) => return Err(what),
            }
        }
    }
}

/// One session; whether the client was lost.
fn session(endpoint: &Endpoint) -> Step<bool> {
    let mut end = End::new(endpoint)?;
    let place = end.region.remote(0);
    let mut words = place.address.to_le_bytes().to_vec();
    words.extend(place.key.to_le_bytes());
    let told = endpoint.send(&words, SendFlags::BLOCK);
    told.map_err(|_| Trouble::Gone)?;
    let was_lost = !serve(&mut end, endpoint)?;
    end.close()?;
    Ok(was_lost)
}

/// Answers messages until the client leaves. `false`: it was lost.
fn serve(end: &mut End, endpoint: &Endpoint) -> Step<bool> {
    let mut next = 0;
    let mut since_end = None;
    loop {
        let goes_on = end.finish_sends()?;
        let Some(messages) = end.messages()? else {
            return lost(end);
        };
        if !goes_on {
            return lost(end);
        }
        let is_idle = messages.is_empty();
        for [kind, number, length, check] in messages {
            if number != next {
                return wrong(alloc::format!("message {number}, not {next}"));
            }
            match kind {
                LEAVE => return leave(end),
                PLAIN | DATA if check == !number => look(end, kind, number, length as usize)?,
                _ => return wrong(alloc::format!("message {number} of kind {kind}")),
            }
            next += 1;
            end.send([PLAIN, number, 0, 0])?;
        }
        if !is_idle {
            continue;
        }
        sleep(Duration::from_millis(1));
        // A client that dies before it is connected leaves a receiver that waits for ever, as on
        // InfiniBand.
        let has_ended = endpoint.recv(&mut [0], RecvFlags::empty()).is_err();
        let since = since_end.get_or_insert_with(Deadline::from_now);
        match (has_ended, since.has_passed()) {
            (false, _) => since_end = None,
            (true, _) if end.arrived == 0 => return Err(Trouble::Gone),
            (true, true) => return wrong("nothing tells of a client's death"),
            (true, false) => {}
        }
    }
}

fn look(end: &End, kind: u32, number: u32, length: usize) -> Step {
    if kind != DATA {
        return Ok(());
    }
    let found = end.load((number % SLOTS) as usize * SLOT, length)?;
    let wanted = (0..length).map(|at| byte(number, at));
    match found.into_iter().eq(wanted) {
        true => Ok(()),
        false => wrong(alloc::format!("the data of message {number}")),
    }
}

fn lost(end: &mut End) -> Step<bool> {
    let had_traffic = end.arrived > 0;
    end.is_lost(had_traffic)?;
    Ok(false)
}

/// The client has all answers; it leaves in order, and that tells nothing.
fn leave(end: &mut End) -> Step<bool> {
    let deadline = Deadline::from_now();
    while end.outstanding() > 0 {
        // It may have gone before the acknowledgement of what it had taken.
        if !end.finish_sends()? {
            return Ok(true);
        }
        if deadline.has_passed() {
            return wrong("an answer hangs");
        }
    }
    Ok(true)
}
