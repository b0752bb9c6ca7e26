//! The receivers of long messages at one port: each reassembles the segments of one message.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::{
    LINGER_NS, MAX_MESSAGE, MESSAGE_TIMEOUT_NS, SEGMENT_BYTES, WINDOW, abort, answer, flag, kind,
    reason,
};
use crate::agents::AgentId;
use crate::mad::{MAD_BYTES, Mad, RMPP_HEADER_BYTES, class};

/// Most messages of all senders that are being reassembled.
const MAX_TRANSFERS: usize = 256;
/// Most messages of all senders that are remembered for their last ACK.
const MAX_COMPLETE: usize = 256;
/// Most bytes of all messages that are not complete.
const MAX_BYTES: usize = 32 << 20;

/// The key of a message that arrives in segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Transfer {
    /// The agent that it is for.
    pub agent: AgentId,
    /// The port that it comes from.
    pub lid: u16,
    /// The queue pair that it comes from.
    pub qpn: u32,
    /// The transaction.
    pub tid: u64,
    /// The class and its version.
    pub class: [u8; 2],
    /// The method.
    pub method: u8,
}

impl Transfer {
    /// The sender whose share of the memory the message takes: the upper half of the transaction
    /// names the program that sends requests.
    fn sender(&self) -> Sender {
        Sender {
            lid: self.lid,
            program: (self.tid >> 32) as u32,
            agent: self.agent,
        }
    }
}

/// A program on a port, and the agent that it sends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Sender {
    lid: u16,
    program: u32,
    agent: AgentId,
}

/// The result of a segment: an answer, a complete message, both or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentOutcome {
    /// A datagram for the sender.
    pub answer: Option<Mad>,
    /// Whether the message has one more segment without a gap before it.
    pub has_moved: bool,
    /// The message, if it is complete: the first datagram as it came, then the data of the others.
    pub message: Option<Vec<u8>>,
    /// Messages of other senders that were given up for this one, with the datagrams that tell
    /// them.
    pub given_up: Vec<(Transfer, Mad)>,
}

impl SegmentOutcome {
    fn answer(mad: Mad) -> SegmentOutcome {
        SegmentOutcome {
            answer: Some(mad),
            ..SegmentOutcome::default()
        }
    }
}

/// A message that is being reassembled.
#[derive(Clone, Debug)]
struct Receiver {
    /// The first segment, whose headers the answers repeat.
    first: Mad,
    /// The message so far, up to the segment `whole`.
    message: Vec<u8>,
    /// Segments after a gap.
    early: BTreeMap<u32, Mad>,
    /// The last segment without a gap before it.
    whole: u32,
    acknowledged: u32,
    window: u32,
    is_complete: bool,
    deadline: u64,
}

impl Receiver {
    fn new(first: Mad, now: u64) -> Receiver {
        Receiver {
            first,
            message: Vec::new(),
            early: BTreeMap::new(),
            whole: 0,
            acknowledged: 0,
            window: 1,
            is_complete: false,
            deadline: now.saturating_add(MESSAGE_TIMEOUT_NS),
        }
    }

    fn header_bytes(&self) -> usize {
        class::header_bytes(self.first.header.class)
    }

    fn ack(&mut self) -> Mad {
        self.acknowledged = self.whole;
        let (whole, window) = (self.whole, self.window);
        answer(
            &self.first,
            self.header_bytes(),
            kind::ACK,
            0,
            whole,
            window,
        )
    }

    /// The datagram that ends the message.
    fn refusal(&self, reason: u8) -> Mad {
        abort(&self.first, self.header_bytes(), reason)
    }

    /// Whether segments are missing.
    fn is_open(&self) -> bool {
        !self.is_complete
    }

    /// Bytes of memory that it takes.
    fn bytes(&self) -> usize {
        self.message.len() + self.early.len() * MAD_BYTES
    }

    /// Appends the next segment to the message. Returns whether it is the last one.
    ///
    /// # Errors
    /// Why it cannot be appended.
    fn append(&mut self, mad: &Mad, now: u64) -> Result<bool, u8> {
        let header_bytes = self.header_bytes();
        let rmpp = mad.rmpp();
        let is_last = rmpp.flags & flag::LAST != 0;
        let of_class = (header_bytes - RMPP_HEADER_BYTES) as u32;
        let length = match is_last {
            true => rmpp.length.get(),
            false => SEGMENT_BYTES,
        };
        if length < of_class || length > SEGMENT_BYTES {
            return Err(reason::BAD_LENGTH);
        }
        let end = RMPP_HEADER_BYTES + length as usize;
        let start = if self.whole == 0 { 0 } else { header_bytes };
        let piece = &mad.bytes()[start..end];
        if self.message.len() + piece.len() > MAX_MESSAGE {
            return Err(reason::NO_RESOURCES);
        }
        self.message.extend_from_slice(piece);
        self.whole += 1;
        self.deadline = now.saturating_add(MESSAGE_TIMEOUT_NS);
        Ok(is_last)
    }

    /// Handles a segment.
    fn take(&mut self, mad: Mad, now: u64) -> Result<SegmentOutcome, u8> {
        let number = mad.rmpp().segment.get();
        if number > self.window && !self.is_complete {
            return Ok(SegmentOutcome::default());
        }
        if number <= self.acknowledged || self.is_complete {
            return Ok(SegmentOutcome::answer(self.ack()));
        }
        if number != self.whole + 1 {
            // A second copy replaces nothing.
            if number > self.whole {
                self.early.entry(number).or_insert(mad);
            }
            return Ok(SegmentOutcome::default());
        }
        let mut next = Some(mad);
        while let Some(mad) = next {
            if self.append(&mad, now)? {
                self.is_complete = true;
                self.early.clear();
                self.deadline = now.saturating_add(LINGER_NS);
                return Ok(SegmentOutcome {
                    answer: Some(self.ack()),
                    message: Some(core::mem::take(&mut self.message)),
                    ..SegmentOutcome::default()
                });
            }
            next = self.early.remove(&(self.whole + 1));
        }
        if self.whole == self.window {
            self.window = self.window.saturating_add(WINDOW);
            return Ok(SegmentOutcome::answer(self.ack()));
        }
        Ok(SegmentOutcome::default())
    }
}

/// The messages that arrive at a port in segments.
#[derive(Clone, Debug, Default)]
pub struct Incoming {
    receivers: BTreeMap<Transfer, Receiver>,
    /// How many of them are complete.
    complete: usize,
    /// Bytes of memory that they take.
    bytes: usize,
}

/// What is kept, for tests and tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Messages that are not complete.
    pub open: usize,
    /// Messages of which only the last ACK is remembered.
    pub complete: usize,
    /// Bytes of messages that are not complete.
    pub bytes: usize,
}

impl Incoming {
    /// Handles a segment with data. `now`: nanoseconds.
    pub fn data(&mut self, transfer: Transfer, mad: &Mad, now: u64) -> SegmentOutcome {
        let header_bytes = class::header_bytes(mad.header.class);
        let rmpp = mad.rmpp();
        let refuse = |reason| SegmentOutcome::answer(abort(mad, header_bytes, reason));
        let number = rmpp.segment.get();
        let wrong = if rmpp.status != 0 {
            Some(reason::BAD_STATUS)
        } else if (number == 1) != (rmpp.flags & flag::FIRST != 0) {
            Some(reason::BAD_FIRST)
        } else {
            None
        };
        if let Some(reason) = wrong {
            // A message that has come whole stays, so that its repetitions are known.
            if self.receivers.get(&transfer).is_some_and(Receiver::is_open) {
                self.forget(&transfer);
            }
            return refuse(reason);
        }
        let is_known = self.knows(&transfer);
        if !is_known && number != 1 {
            return SegmentOutcome::default();
        }
        let mut given_up = Vec::new();
        if !is_known && !self.make_room(&transfer, 1, &mut given_up) {
            return refuse(reason::NO_RESOURCES);
        }
        let receiver = self
            .receivers
            .entry(transfer)
            .or_insert_with(|| Receiver::new(*mad, now));
        let (before, whole, was_open) = (receiver.bytes(), receiver.whole, receiver.is_open());
        let taken = receiver.take(*mad, now);
        let has_moved = receiver.whole > whole;
        self.bytes = self.bytes - before + receiver.bytes();
        self.complete += usize::from(was_open && receiver.is_complete);
        let taken = match taken {
            Ok(_) if !self.make_room(&transfer, 0, &mut given_up) => Err(reason::NO_RESOURCES),
            taken => taken,
        };
        let step = taken.map(|step| SegmentOutcome { has_moved, ..step });
        let step = step.unwrap_or_else(|reason| {
            self.forget(&transfer);
            refuse(reason)
        });
        SegmentOutcome { given_up, ..step }
    }

    /// Whether a message has begun to arrive, or is remembered for its last ACK.
    pub fn knows(&self, transfer: &Transfer) -> bool {
        self.receivers.contains_key(transfer)
    }

    /// Makes room for the message `to`; `more`: 1 if it is about to begin, otherwise 0. Returns
    /// whether there is room.
    fn make_room(
        &mut self,
        to: &Transfer,
        more: usize,
        given_up: &mut Vec<(Transfer, Mad)>,
    ) -> bool {
        while self.receivers.len() - self.complete + more > MAX_TRANSFERS {
            if !self.give_way(to, more, |of| of.is_open().into(), given_up) {
                return false;
            }
        }
        while self.complete > MAX_COMPLETE {
            if !self.give_way(to, 0, |of| of.is_complete.into(), given_up) {
                return false;
            }
        }
        while self.bytes > MAX_BYTES {
            if !self.give_way(to, 0, Receiver::bytes, given_up) {
                return false;
            }
        }
        true
    }

    /// Ends a message to make room for the message `to`: one of the sender with the largest share
    /// on the port with the largest share. A sender never loses one to a sender or port with a
    /// larger share, so each has a fair share whatever the others send. Returns whether one was
    /// ended.
    fn give_way(
        &mut self,
        to: &Transfer,
        more: usize,
        size: fn(&Receiver) -> usize,
        given_up: &mut Vec<(Transfer, Mad)>,
    ) -> bool {
        let sender = to.sender();
        let mut of_ports = BTreeMap::from([(sender.lid, more)]);
        let mut of_senders = BTreeMap::from([(sender, more)]);
        for (transfer, receiver) in &self.receivers {
            let of = transfer.sender();
            *of_ports.entry(of.lid).or_insert(0) += size(receiver);
            *of_senders.entry(of).or_insert(0) += size(receiver);
        }
        let port = heaviest(&of_ports, sender.lid);
        of_senders.retain(|of, _| of.lid == port);
        let most = heaviest(&of_senders, sender);
        // The one that has had no new segment for the longest time.
        let candidates = self.receivers.iter().filter(|(transfer, receiver)| {
            let may_go = most != sender || receiver.is_complete;
            transfer.sender() == most && size(receiver) > 0 && may_go
        });
        let oldest = candidates.min_by_key(|(_, of)| of.deadline);
        let Some((transfer, receiver)) = oldest else {
            return false;
        };
        let transfer = *transfer;
        if !receiver.is_complete {
            given_up.push((transfer, receiver.refusal(reason::NO_RESOURCES)));
        }
        self.forget(&transfer);
        true
    }

    fn forget(&mut self, transfer: &Transfer) {
        if let Some(receiver) = self.receivers.remove(transfer) {
            self.bytes -= receiver.bytes();
            self.complete -= usize::from(receiver.is_complete);
        }
    }

    /// Drops the messages of an agent that has gone.
    pub fn forget_agent(&mut self, agent: AgentId) {
        let of_agent = self.receivers.keys().filter(|of| of.agent == agent);
        let transfers: Vec<Transfer> = of_agent.copied().collect();
        for transfer in transfers {
            self.forget(&transfer);
        }
    }

    /// Gives up messages that take too long. Returns the datagrams that tell the senders.
    pub fn expire(&mut self, now: u64) -> Vec<(Transfer, Mad)> {
        let due = self.receivers.iter().filter(|(_, of)| of.deadline <= now);
        let due: Vec<Transfer> = due.map(|(transfer, _)| *transfer).collect();
        let mut answers = Vec::new();
        for transfer in due {
            if let Some(receiver) = self.receivers.get(&transfer)
                && !receiver.is_complete
            {
                answers.push((transfer, receiver.refusal(reason::TOTAL_TIME)));
            }
            self.forget(&transfer);
        }
        answers
    }

    /// When [`expire`](Self::expire) has something to do, in nanoseconds.
    pub fn deadline(&self) -> Option<u64> {
        self.receivers.values().map(|of| of.deadline).min()
    }

    /// What is kept.
    pub fn kept(&self) -> Kept {
        Kept {
            open: self.receivers.len() - self.complete,
            complete: self.complete,
            bytes: self.bytes,
        }
    }
}

/// The owner of the largest share; `own` if no share is larger than that of `own`.
fn heaviest<T: Copy + Ord>(shares: &BTreeMap<T, usize>, own: T) -> T {
    let size = shares.get(&own).copied().unwrap_or(0);
    let larger = shares.iter().filter(|(_, of)| **of > size);
    let most = larger.max_by_key(|(_, of)| **of);
    most.map_or(own, |(whose, _)| *whose)
}

#[cfg(test)]
mod tests {
    use super::{Incoming, MAX_BYTES, MAX_COMPLETE, MAX_TRANSFERS, Transfer};
    use crate::agents::AgentId;
    use crate::mad::Mad;
    use crate::rmpp::{Outgoing, WINDOW, flag, kind, reason};
    use alloc::vec::Vec;

    fn transfer(tid: u64) -> Transfer {
        Transfer {
            agent: AgentId(1),
            lid: 2,
            qpn: 1,
            tid,
            class: [3, 2],
            method: 0x92,
        }
    }

    fn message(data: usize) -> Vec<u8> {
        let mut message = Vec::from([1, 3, 2, 0x92]);
        message.resize(56, 9);
        message.extend((0..data).map(|at| (at / 7) as u8));
        message
    }

    /// All segments of a message.
    fn segments(data: usize) -> Vec<Mad> {
        let mut outgoing = Outgoing::new(message(data));
        outgoing.acknowledge(0, u32::MAX);
        core::iter::from_fn(|| outgoing.next_segment()).collect()
    }

    /// Kind, status, segment and length of an answer.
    fn says(mad: &Mad) -> (u8, u8, u32, u32) {
        let rmpp = mad.rmpp();
        assert_eq!(mad.header.method, 0x12);
        (
            rmpp.kind,
            rmpp.status,
            rmpp.segment.get(),
            rmpp.length.get(),
        )
    }

    #[test]
    fn a_message_of_one_segment_is_whole_at_once() {
        for data in [0, 1, 199, 200] {
            let mut incoming = Incoming::default();
            let step = incoming.data(transfer(1), &segments(data)[0], 0);
            assert_eq!(says(&step.answer.unwrap()), (kind::ACK, 0, 1, 1));
            let whole = step.message.unwrap();
            assert_eq!(whole.len(), 56 + data);
            assert_eq!(whole[56..], message(data)[56..]);
            assert_eq!(incoming.kept().complete, 1);
        }
    }

    #[test]
    fn segments_are_put_together_in_any_order() {
        let all = segments(200 * 5 + 3);
        assert_eq!(all.len(), 6);
        let mut incoming = Incoming::default();
        let first = incoming.data(transfer(1), &all[0], 0);
        assert_eq!(says(&first.answer.unwrap()), (kind::ACK, 0, 1, 1 + WINDOW));
        for at in [3, 5, 1, 1, 4] {
            let step = incoming.data(transfer(1), &all[at], 0);
            assert_eq!((step.answer, step.message), (None, None), "{at}");
        }
        assert_eq!(incoming.kept().open, 1);
        let last = incoming.data(transfer(1), &all[2], 0);
        assert_eq!(says(&last.answer.unwrap()), (kind::ACK, 0, 6, 1 + WINDOW));
        let whole = last.message.unwrap();
        assert_eq!(whole[56..], message(200 * 5 + 3)[56..]);
        assert_eq!(incoming.kept().bytes, 0);
        // Copies that come later are answered with the same.
        let copy = incoming.data(transfer(1), &all[0], 0);
        assert_eq!(says(&copy.answer.unwrap()), (kind::ACK, 0, 6, 1 + WINDOW));
        assert_eq!(copy.message, None);
    }

    #[test]
    fn the_last_segment_of_a_window_is_acknowledged() {
        let all = segments(200 * 200);
        let mut incoming = Incoming::default();
        let mut acks = Vec::new();
        for mad in &all {
            let step = incoming.data(transfer(1), mad, 0);
            acks.extend(step.answer.map(|mad| (says(&mad).2, says(&mad).3)));
        }
        assert_eq!(
            acks,
            [(1, 65), (65, 129), (129, 193), (193, 257), (200, 257)]
        );
    }

    #[test]
    fn segments_beyond_the_window_are_dropped() {
        let all = segments(200 * 200);
        let mut incoming = Incoming::default();
        incoming.data(transfer(1), &all[0], 0);
        for mad in &all[65..] {
            assert_eq!(
                incoming.data(transfer(1), mad, 0),
                super::SegmentOutcome::default()
            );
        }
        assert_eq!(incoming.kept().bytes, 256);
    }

    #[test]
    fn wrong_segments_are_refused() {
        let good = segments(500);
        let changed = |mad: &Mad, change: fn(&mut crate::mad::RmppHeader)| {
            let (mut mad, mut rmpp) = (*mad, mad.rmpp());
            change(&mut rmpp);
            mad.set_rmpp(rmpp);
            mad
        };
        let says_of = |incoming: &mut Incoming, mad: &Mad| {
            let step = incoming.data(transfer(1), mad, 0);
            says(&step.answer.unwrap())
        };
        let mut incoming = Incoming::default();
        let bad = changed(&good[0], |rmpp| rmpp.status = 1);
        assert_eq!(says_of(&mut incoming, &bad), (4, reason::BAD_STATUS, 0, 0));
        let bad = changed(&good[0], |rmpp| rmpp.flags &= !flag::FIRST);
        assert_eq!(says_of(&mut incoming, &bad), (4, reason::BAD_FIRST, 0, 0));
        let bad = changed(&good[1], |rmpp| rmpp.flags |= flag::FIRST);
        assert_eq!(says_of(&mut incoming, &bad), (4, reason::BAD_FIRST, 0, 0));
        assert_eq!(incoming.kept().open, 0);
        for length in [0, 19, 221, u32::MAX] {
            incoming.data(transfer(1), &good[0], 0);
            incoming.data(transfer(1), &good[1], 0);
            let (mut bad, mut rmpp) = (good[2], good[2].rmpp());
            rmpp.length = length.into();
            bad.set_rmpp(rmpp);
            assert_eq!(says_of(&mut incoming, &bad), (4, reason::BAD_LENGTH, 0, 0));
            assert_eq!((incoming.kept().open, incoming.kept().bytes), (0, 0));
        }
        // In the middle of nothing.
        assert_eq!(
            incoming.data(transfer(1), &good[1], 0),
            super::SegmentOutcome::default()
        );
    }

    #[test]
    fn what_takes_too_long_is_given_up() {
        let all = segments(500);
        let mut incoming = Incoming::default();
        incoming.data(transfer(1), &all[0], 5);
        incoming.data(transfer(1), &all[2], 7);
        let until = incoming.deadline().unwrap();
        assert_eq!(until, 5 + super::MESSAGE_TIMEOUT_NS);
        // Each segment that moves the message on gives it more time.
        incoming.data(transfer(1), &all[1], 9);
        assert_eq!(incoming.kept().open, 0);
        incoming = Incoming::default();
        incoming.data(transfer(1), &all[0], 4);
        incoming.data(transfer(1), &all[1], 5);
        assert!(incoming.expire(until - 1).is_empty());
        let given_up = incoming.expire(until);
        assert_eq!(says(&given_up[0].1), (4, reason::TOTAL_TIME, 0, 0));
        assert_eq!((incoming.kept().open, incoming.deadline()), (0, None));
        // One that is whole is forgotten without a word.
        incoming.data(transfer(2), &segments(1)[0], 0);
        assert!(incoming.expire(super::LINGER_NS).is_empty());
        assert_eq!(incoming.kept().complete, 0);
    }

    #[test]
    fn memory_is_bounded() {
        let (short, long) = (segments(1), segments(500));
        let mut incoming = Incoming::default();
        for tid in 0..2 * MAX_TRANSFERS as u64 {
            let step = incoming.data(transfer(tid), &short[0], tid);
            assert!(step.message.is_some());
        }
        for tid in 1000..1000 + MAX_TRANSFERS as u64 {
            let step = incoming.data(transfer(tid), &long[0], 0);
            assert_eq!(says(&step.answer.unwrap()).0, kind::ACK);
        }
        let step = incoming.data(transfer(1), &short[0], 0);
        let refusal = (kind::STOP, reason::NO_RESOURCES, 0, 0);
        assert_eq!(says(&step.answer.unwrap()), refusal);
        assert_eq!(incoming.kept().open, MAX_TRANSFERS);
        incoming.forget_agent(AgentId(1));
        assert_eq!((incoming.kept().open, incoming.kept().bytes), (0, 0));
    }

    #[test]
    fn messages_that_are_whole_take_no_room_of_others() {
        let (mut incoming, whole, long) = (Incoming::default(), segments(1), segments(500));
        assert!(incoming.data(transfer(0), &whole[0], 0).message.is_some());
        for tid in 1..=MAX_TRANSFERS as u64 {
            let step = incoming.data(transfer(tid), &long[0], 0);
            assert_eq!(says(&step.answer.unwrap()).0, kind::ACK);
        }
        let kept = incoming.kept();
        assert_eq!((kept.open, kept.complete), (MAX_TRANSFERS, 1));
        assert!(incoming.data(transfer(0), &whole[0], 0).message.is_none());
        // One more that becomes whole makes the oldest of these go.
        incoming.forget_agent(AgentId(1));
        for tid in 0..=MAX_COMPLETE as u64 {
            incoming.data(transfer(tid), &whole[0], tid);
        }
        assert_eq!(incoming.kept().complete, MAX_COMPLETE);
        assert!(!incoming.knows(&transfer(0)) && incoming.knows(&transfer(1)));
    }

    #[test]
    fn a_message_ends_with_a_segment_that_is_refused() {
        let good = segments(500);
        let changes: [fn(&mut crate::mad::RmppHeader); 2] =
            [|rmpp| rmpp.status = 1, |rmpp| rmpp.flags |= flag::FIRST];
        for change in changes {
            let mut incoming = Incoming::default();
            incoming.data(transfer(1), &good[0], 0);
            incoming.data(transfer(2), &segments(1)[0], 0);
            let (mut bad, mut rmpp) = (good[1], good[1].rmpp());
            change(&mut rmpp);
            bad.set_rmpp(rmpp);
            for tid in [1, 2] {
                let step = incoming.data(transfer(tid), &bad, 0);
                assert_eq!(says(&step.answer.unwrap()).0, kind::ABORT);
            }
            let kept = incoming.kept();
            // The one that has come whole stays known.
            assert_eq!((kept.open, kept.complete, kept.bytes), (0, 1, 0));
        }
    }

    /// Sends the first segments of `count` messages of a program on a port. How many are taken and
    /// refused, and how many others are given up for them.
    fn begin(incoming: &mut Incoming, lid: u16, program: u64, count: u64) -> [usize; 3] {
        let first = segments(500)[0];
        let mut came = [0; 3];
        for number in 0..count {
            let transfer = Transfer {
                lid,
                ..transfer(program << 32 | number)
            };
            let step = incoming.data(transfer, &first, number);
            let kind = says(&step.answer.unwrap()).0;
            came[usize::from(kind != kind::ACK)] += 1;
            came[2] += step.given_up.len();
            for (_, mad) in &step.given_up {
                assert_eq!(says(mad), (kind::STOP, reason::NO_RESOURCES, 0, 0));
            }
        }
        came
    }

    #[test]
    fn senders_share_the_room() {
        let mut incoming = Incoming::default();
        assert_eq!(begin(&mut incoming, 2, 7, 300), [256, 44, 0]);
        // Another program of that port gets half, a program of another port as well.
        assert_eq!(begin(&mut incoming, 2, 8, 300), [128, 172, 128]);
        assert_eq!(begin(&mut incoming, 3, 7, 300), [128, 172, 128]);
        assert_eq!(incoming.kept().open, MAX_TRANSFERS);
        let of = |lid, program| {
            let of = |of: &&Transfer| (of.lid, of.tid >> 32) == (lid, program);
            incoming.receivers.keys().filter(of).count()
        };
        assert_eq!([of(2, 7), of(2, 8), of(3, 7)], [64, 64, 128]);
    }

    #[test]
    fn what_others_have_whole_stays_for_its_copies() {
        let (mut incoming, whole) = (Incoming::default(), segments(1));
        let own = Transfer {
            lid: 3,
            ..transfer(1)
        };
        assert!(incoming.data(own, &whole[0], 0).message.is_some());
        for tid in 0..2 * MAX_TRANSFERS as u64 {
            incoming.data(transfer(tid), &whole[0], tid);
        }
        assert!(incoming.data(own, &whole[0], 0).message.is_none());
    }

    #[test]
    fn senders_share_the_bytes() {
        let all = segments(super::MAX_MESSAGE - 56);
        let mut incoming = Incoming::default();
        // Four messages that lack their last segment, and a fifth that has no room.
        for tid in 0..5 {
            for mad in &all[..all.len() - 1] {
                let step = incoming.data(transfer(tid), mad, tid);
                assert!(step.given_up.is_empty());
            }
        }
        let kept = incoming.kept();
        assert!(kept.bytes <= MAX_BYTES && kept.bytes > MAX_BYTES - super::MAX_MESSAGE / 2);
        let other = Transfer {
            lid: 3,
            ..transfer(9)
        };
        let steps: Vec<_> = all.iter().map(|mad| incoming.data(other, mad, 9)).collect();
        assert!(steps.last().is_some_and(|step| step.message.is_some()));
        let given_up = steps.iter().flat_map(|step| &step.given_up);
        let given_up: Vec<u64> = given_up.map(|(transfer, _)| transfer.tid).collect();
        assert_eq!(
            given_up,
            [0],
            "the one that has not moved for the longest time"
        );
        assert!(incoming.kept().bytes <= MAX_BYTES);
    }

    #[test]
    fn a_message_without_end_is_stopped() {
        let mut incoming = Incoming::default();
        let mut outgoing = Outgoing::new(message(super::MAX_MESSAGE));
        outgoing.acknowledge(0, u32::MAX);
        let refused = core::iter::from_fn(|| outgoing.next_segment()).find_map(|mad| {
            let answer = incoming.data(transfer(1), &mad, 0).answer?;
            (answer.rmpp().kind != kind::ACK).then_some(answer)
        });
        let refusal = (kind::STOP, reason::NO_RESOURCES, 0, 0);
        assert_eq!(says(&refused.unwrap()), refusal);
        assert_eq!(incoming.kept().bytes, 0);
    }
}
