//! Streams of messages whose sender is ahead of its peer's receives: the calls and records that
//! they need beside the messages.

mod pair;

use pair::{End, Setup, pair, settle};
use verbs_core::context::Taken;
use verbs_core::types::{Error, SendFlags, WcStatus};
use verbs_core::work::{ReceiveRequest, ShortData, ShortSend};

/// Messages of a stream.
const MESSAGES: u64 = 1000;
/// Sends between two completions.
const BATCH: u64 = 16;

/// One end of a stream, and the work that it needed.
struct Side {
    end: End,
    /// Messages that were posted, or received.
    count: u64,
    /// Calls of `progress`.
    turns: u64,
}

impl Side {
    fn new(end: End) -> Self {
        Self {
            end,
            count: 0,
            turns: 0,
        }
    }

    fn turn(&mut self) {
        self.turns += 1;
        self.end.progress();
    }

    /// Looks for records, as a program does whose poll has found no completion.
    fn look(&mut self) {
        let taken = self.end.context.take_messages(&mut self.end.program);
        let owes = taken == Taken::Nothing && self.end.context.owes();
        if taken == Taken::More || owes {
            self.turn();
        }
    }

    /// Posts sends as long as there is a place for them.
    fn pour(&mut self) {
        while self.count < MESSAGES {
            let bytes = self.count.to_le_bytes();
            let mut send = ShortSend::message(self.count, ShortData::Inline(&bytes));
            let is_signaled = (self.count + 1).is_multiple_of(BATCH);
            send.flags.set(SendFlags::SIGNALED, is_signaled);
            let (context, program) = (&mut self.end.context, &mut self.end.program);
            match context.post_short_now(program, self.end.qp, &send) {
                Ok(is_whole) => {
                    self.count += 1;
                    if !is_whole {
                        self.turn();
                    }
                }
                Err(Error::NoMemory) => return,
                Err(error) => panic!("{error:?}"),
            }
        }
    }

    /// Polls the completions of sends.
    fn reap(&mut self) {
        while let Some(wc) = self.end.context.poll_cq(self.end.send_cq).unwrap() {
            assert_eq!(wc.status, WcStatus::Success);
        }
        self.look();
    }

    /// Polls the next message, if there is one, and posts its receive again.
    fn take(&mut self, receives: u64) {
        let cq = self.end.recv_cq;
        let mut found = self.end.context.poll_cq(cq).unwrap();
        if found.is_none() {
            self.look();
            found = self.end.context.poll_cq(cq).unwrap();
        }
        let Some(wc) = found else {
            return;
        };
        assert_eq!(
            (wc.id, wc.status),
            (self.count % receives, WcStatus::Success)
        );
        assert_eq!(self.end.bytes(8 * wc.id, 8), self.count.to_le_bytes());
        self.count += 1;
        let segments = vec![self.end.segment(8 * wc.id, 8)].into();
        let request = ReceiveRequest {
            id: wc.id,
            segments,
        };
        let (context, program) = (&mut self.end.context, &mut self.end.program);
        if !context
            .post_recv_now(program, self.end.qp, request)
            .unwrap()
        {
            self.turn();
        }
    }
}

/// Sends a stream to a peer with `receives` receives, which polls `ahead` messages for each look
/// of the sender. Returns the sender and the peer.
fn stream(receives: u64, ahead: u64) -> [Side; 2] {
    let (left, mut right) = pair(&Setup::default());
    for id in 0..receives {
        right.receive(id, 8 * id, 8);
    }
    let mut ends = (left, right);
    settle(&mut ends.0, &mut ends.1);
    let (mut from, mut to) = (Side::new(ends.0), Side::new(ends.1));
    let before = to.end.program.sent_records;
    for _ in 0..100 * MESSAGES {
        from.pour();
        from.reap();
        (0..ahead).for_each(|_| to.take(receives));
        if to.count == MESSAGES {
            to.end.program.sent_records -= before;
            return [from, to];
        }
    }
    panic!("{} of {} messages arrive", to.count, from.count);
}

#[test]
fn a_stream_takes_no_turns_and_few_acknowledgements() {
    for (receives, ahead) in [(64, 1), (64, 8), (32, 1), (32, 64), (16, 1), (16, 3)] {
        let [from, to] = stream(receives, ahead);
        let acks = to.end.program.sent_records as u64;
        let about = format!("{receives} receives, {ahead} ahead: {acks} acknowledgements");
        assert_eq!([from.turns, to.turns], [0, 0], "{about}");
        // All receives are used up between two looks of a peer. Then it reports new ones: the
        // first at once, the next when they are a quarter of those that are posted, and so on.
        assert!(acks <= 10 * MESSAGES / receives, "{about}");
    }
}

#[test]
fn a_receive_lets_a_message_go_without_a_clock() {
    for retries in [6, 7] {
        let mut setup = Setup::default();
        setup.attributes.rnr_retry = retries;
        let (mut left, mut right) = pair(&setup);
        for id in 0..3 {
            left.send(id, 8 * id, 8);
        }
        settle(&mut left, &mut right);
        for id in 0..3 {
            right.receive(id, 8 * id, 8);
        }
        right.progress();
        let (context, program) = (&mut left.context, &mut left.program);
        assert_ne!(context.take_messages(program), Taken::Nothing);
        let (context, program) = (&mut right.context, &mut right.program);
        assert_ne!(context.take_messages(program), Taken::Nothing);
        let all = [0, 1, 2].map(|id| (id, WcStatus::Success));
        assert_eq!(right.receive_results(), all, "{retries} retries");
    }
}
