//! Queue pairs of one context that are connected to each other, or to themselves.

use guest_tests::{Suite, text};
use runtime::thread;
use runtime::time::{Duration, sleep};
use verbs::{Context, QpType, Segment, WcStatus};

use super::end::{self, Checked, End, settings, wait};

/// All checks; the exit status.
pub fn check() -> i32 {
    let mut suite = Suite::new("verbs-test");
    let context = match end::open() {
        Ok(context) => context,
        Err(error) => {
            suite.check("open", Err(error));
            return suite.finish();
        }
    };
    suite.check("a queue pair with itself", itself(&context));
    suite.check("two queue pairs of a domain and another", two(&context));
    suite.check("a channel in place of a former one", channels(&context));
    suite.finish()
}

/// Each channel gets the descriptor of the one before. The event is told by a thread that does not
/// wait, and nothing arrives from a peer: the waiting thread must know this channel.
fn channels(context: &Context) -> Checked {
    for round in 0..3 {
        let channel = context.completion_channel().map_err(text("channel"))?;
        let sends = context.completion_queue_with(64, &channel, round);
        let sends = sends.map_err(text("queue"))?;
        let receives = context.completion_queue(64).map_err(text("queue"))?;
        let end = End::with_queues(context, QpType::Rc, None, (sends, receives))?;
        let settings = settings(end::all());
        end.pair.init(&settings).map_err(text("init"))?;
        let address = end.pair.address();
        end.pair
            .connect_to(address, &settings)
            .map_err(text("connect"))?;
        let armed = end.sends.request_notification(false);
        armed.map_err(text("arm"))?;
        let bad = Segment {
            key: !0,
            ..end.segment(0, 8)?
        };
        let pair = end.pair;
        let poster = thread::spawn(move || {
            // The other thread falls asleep meanwhile.
            sleep(Duration::from_millis(50));
            let posted = pair.send(1, &[bad]);
            (pair, posted)
        });
        let poster = poster.map_err(text("thread"))?;
        let name = channel.next().map_err(text("next"))?;
        let (_pair, posted) = poster.join().map_err(text("join"))?;
        posted.map_err(text("send"))?;
        let found = wait(&end.sends, 1)?.remove(0);
        if (name, found.status) != (round, WcStatus::LocProtErr) {
            return Err(alloc::format!("event of {name}, {found:?}"));
        }
    }
    Ok(())
}

fn traffic(from: &End, to: &End) -> Checked {
    from.fill(5, 0, 3000)?;
    to.receive(1, 8192, 3000)?;
    let segment = from.segment(0, 3000)?;
    from.pair.send(1, &[segment]).map_err(text("send"))?;
    let sent = wait(&from.sends, 1)?.remove(0);
    let received = wait(&to.receives, 1)?.remove(0);
    let is_good = sent.status == WcStatus::Success && received.byte_len == 3000;
    if !is_good || !to.is_right(5, 8192, 3000)? {
        return Err(alloc::format!("sent: {sent:?}, received: {received:?}"));
    }
    let segment = from.segment(0, 64)?;
    let place = to.region.remote(16384);
    from.pair
        .write(2, &[segment], place)
        .map_err(text("write"))?;
    let written = wait(&from.sends, 1)?.remove(0);
    if written.status != WcStatus::Success || !to.is_right(5, 16384, 64)? {
        return Err(alloc::format!("written: {written:?}"));
    }
    let (before, at) = (from.segment(0, 8)?, to.region.remote(24576));
    for number in 0..10 {
        let added = from.pair.fetch_and_add(number, before, at, 1);
        added.map_err(text("add"))?;
        wait(&from.sends, 1)?;
    }
    match to.region.read::<u64>(24576).map_err(text("look"))? {
        10 => Ok(()),
        found => Err(alloc::format!("counted {found}")),
    }
}

fn itself(context: &Context) -> Checked {
    let end = End::new(context, QpType::Rc, None)?;
    let settings = settings(end::all());
    end.pair.init(&settings).map_err(text("init"))?;
    let address = end.pair.address();
    end.pair
        .connect_to(address, &settings)
        .map_err(text("connect"))?;
    traffic(&end, &end)
}

fn two(context: &Context) -> Checked {
    let one = End::new(context, QpType::Rc, None)?;
    let other = End::new(context, QpType::Rc, None)?;
    let settings = settings(end::all());
    for (end, peer) in [(&one, &other), (&other, &one)] {
        end.pair.init(&settings).map_err(text("init"))?;
        let address = peer.pair.address();
        end.pair
            .connect_to(address, &settings)
            .map_err(text("connect"))?;
    }
    traffic(&one, &other)?;
    traffic(&other, &one)
}
