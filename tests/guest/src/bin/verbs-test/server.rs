//! The server: does what its client says, one connection after the other.

use alloc::string::String;

use guest_tests::text;
use runtime::println;
use runtime::process::exit;
use runtime::time::{Duration, sleep};
use scif::{Endpoint, Errno, Listener, RecvFlags, SendFlags};
use verbs::{Access, Context, QpType, WcStatus};
use zerocopy::IntoBytes;

use super::end::{self, Checked, End, settings};
use super::{Message, kind};

/// Exit statuses.
const FAILED: i32 = 2;
/// A victim's death.
const DEATH: i32 = 9;

/// Serves until a client says that it was the last; a victim serves one.
pub fn serve(port: u16, is_victim: bool) -> i32 {
    let serve = || -> Checked {
        let listener = Listener::bind(port).map_err(text("listen"))?;
        let context = end::open()?;
        loop {
            let (endpoint, _) = listener.accept().map_err(text("accept"))?;
            match talk(&context, &endpoint) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => println!("verbs-test: a client is done: {error}"),
            }
            if is_victim {
                return Ok(());
            }
        }
    };
    match serve() {
        Ok(()) => 0,
        Err(error) => {
            println!("verbs-test: {error}");
            FAILED
        }
    }
}

/// Receives a message; `None` at the end.
pub fn hear(endpoint: &Endpoint) -> Checked<Option<Message>> {
    let mut message = Message::default();
    match endpoint.recv(message.as_mut_bytes(), RecvFlags::BLOCK) {
        Ok(count) if count == size_of::<Message>() => Ok(Some(message)),
        Ok(_) | Err(scif::Error::Scif(Errno::ConnectionReset)) => Ok(None),
        Err(error) => Err(alloc::format!("receive: {error}")),
    }
}

/// Sends a message.
pub fn say(endpoint: &Endpoint, message: Message) -> Checked {
    let sent = endpoint.send(message.as_bytes(), SendFlags::BLOCK);
    sent.map(drop).map_err(text("send"))
}

/// The type of a queue pair by its number.
pub fn kind_of(number: u64) -> Checked<QpType> {
    let mut all = QpType::ALL.into_iter();
    all.find(|kind| *kind as u64 == number)
        .ok_or_else(|| String::from("a type that is not known"))
}

/// Serves one connection; whether it was the last one.
fn talk(context: &Context, endpoint: &Endpoint) -> Checked<bool> {
    let mut end: Option<End> = None;
    while let Some(message) = hear(endpoint)? {
        let mut answer = message;
        let (at, length) = (message.at as usize, message.length as usize);
        match message.kind {
            kind::PAIR => {
                let limit = message.at.checked_sub(1).map(|limit| limit as u32);
                let new = End::new(context, kind_of(message.number)?, limit)?;
                let access = Access::from_bits_retain(message.seed);
                let settings = settings(access);
                new.pair.init(&settings).map_err(text("init"))?;
                new.pair.meet(endpoint, &settings).map_err(text("meet"))?;
                let place = new.region.remote(0);
                (answer.at, answer.seed) = (place.address, place.key);
                end = Some(new);
            }
            kind::SLEEP => sleep(Duration::from_millis(message.number)),
            kind::DIE => exit(DEATH),
            kind::CLOSE => return Ok(false),
            kind::QUIT => return Ok(true),
            kind::DESTROY => drop(end.take()),
            kind::EVENT => {
                let event = context.next_event().map_err(text("event"))?;
                answer.number = event.kind as u64;
            }
            _ => {
                let end = end.as_mut().ok_or("there is no queue pair")?;
                match message.kind {
                    kind::RECEIVE => end.receive(message.number, at, length)?,
                    kind::EXPECT => expect(end, &message, &mut answer)?,
                    kind::FILL => end.fill(message.seed, at, length)?,
                    kind::CHECK => {
                        answer.number = u64::from(end.is_right(message.seed, at, length)?);
                    }
                    kind::SEND => answer.number = send(end, &message)?,
                    kind::STATE => {
                        let view = end.pair.query().map_err(text("query"))?;
                        answer.number = view.state as u64;
                    }
                    kind::RENEW => {
                        let memory = scif::Memory::new(end::BYTES).map_err(text("memory"))?;
                        let region = end.domain.register(memory, end::all());
                        end.region = region.map_err(text("register"))?;
                        let place = end.region.remote(0);
                        (answer.at, answer.seed) = (place.address, place.key);
                    }
                    kind::WORD => {
                        answer.number = end.region.read(at).map_err(text("word"))?;
                    }
                    _ => return Err("a message that is not known".into()),
                }
            }
        }
        say(endpoint, answer)?;
    }
    Ok(false)
}

fn expect(end: &End, message: &Message, answer: &mut Message) -> Checked {
    let found = end::wait(&end.receives, message.number as usize)?;
    let mut good = found.iter().filter(|of| of.status == WcStatus::Success);
    let bad = found.iter().find(|of| of.status != WcStatus::Success);
    answer.number = good.clone().count() as u64;
    answer.length = good.clone().map(|of| u64::from(of.byte_len)).sum();
    answer.at = good.next_back().map_or(0, |of| u64::from(of.immediate));
    answer.seed = bad.map_or(0, |of| of.status as u32);
    Ok(())
}

fn send(end: &End, message: &Message) -> Checked<u64> {
    let segment = end.segment(message.at as usize, message.length as usize)?;
    for number in 0..message.number {
        end.pair.send(number, &[segment]).map_err(text("post"))?;
    }
    let found = end::wait(&end.sends, message.number as usize)?;
    let good = found.iter().filter(|of| of.status == WcStatus::Success);
    Ok(good.count() as u64)
}
