//! Checks of the client in which its thread sleeps at a completion channel, or lets completions
//! lie.

use guest_tests::text;
use runtime::time::Duration;
use scif::{Endpoint, NodeId, Options, PortId};
use verbs::{CompletionQueue, Context, EventType, QpState, QpType, WcStatus};

use super::client::{of, part, part_of, same};
use super::end::{self, Checked, End, settings, wait};
use super::server::{hear, say};
use super::{Message, PORT, kind};

/// The names of completion queues.
const RECEIVED: u64 = 4711;
const SENT: u64 = 4712;

/// A connection with the server, and a queue pair that completes into these queues.
struct Sleeper {
    endpoint: Endpoint,
    own: End,
}

impl Sleeper {
    fn new(
        context: &Context,
        node: NodeId,
        queues: (CompletionQueue, CompletionQueue),
    ) -> Checked<Self> {
        let patient = Options::new().retry_for(Duration::from_secs(30));
        let to = PortId::new(node, PORT);
        let endpoint = patient.connect(to).map_err(text("connect"))?;
        let own = End::with_queues(context, QpType::Rc, None, queues)?;
        let message = Message {
            kind: kind::PAIR,
            seed: end::all().bits(),
            number: QpType::Rc as u64,
            ..Message::default()
        };
        say(&endpoint, message)?;
        let settings = settings(end::all());
        own.pair.init(&settings).map_err(text("init"))?;
        own.pair.meet(&endpoint, &settings).map_err(text("meet"))?;
        hear(&endpoint)?;
        Ok(Self { endpoint, own })
    }

    fn ask(&self, message: Message) -> Checked<Message> {
        say(&self.endpoint, message)?;
        self.answer()
    }

    fn answer(&self) -> Checked<Message> {
        hear(&self.endpoint)?.ok_or_else(|| "no answer".into())
    }
}

fn arm(queue: &CompletionQueue) -> Checked {
    queue.request_notification(false).map_err(text("arm"))
}

/// Messages arrive before the thread sleeps, and afterwards.
pub fn sleeper(context: &Context, node: NodeId) -> Checked {
    let channel = context.completion_channel().map_err(text("channel"))?;
    let receives = context.completion_queue_with(64, &channel, RECEIVED);
    let receives = receives.map_err(text("queue"))?;
    let sends = context.completion_queue(64).map_err(text("queue"))?;
    let peer = Sleeper::new(context, node, (sends, receives))?;
    let own = &peer.own;
    for round in 0..20 {
        own.receive(1, 0, 100)?;
        arm(&own.receives)?;
        peer.ask(of(kind::SLEEP, round % 3 * 10))?;
        say(&peer.endpoint, part_of(kind::SEND, 1, 0, 100))?;
        same("name", channel.next().map_err(text("next"))?, RECEIVED)?;
        let mut found = alloc::vec![];
        let count = own.receives.poll(4, &mut found).map_err(text("poll"))?;
        same("completions", count, 1)?;
        same("sent", peer.answer()?.number, 1)?;
    }
    Ok(())
}

/// A message that is longer than the ring of its lane goes, and comes, while the thread sleeps that
/// waits for its completion.
pub fn long_message(context: &Context, node: NodeId) -> Checked {
    const LENGTH: usize = end::BYTES;
    let channel = context.completion_channel().map_err(text("channel"))?;
    let queue = |name| {
        let made = context.completion_queue_with(64, &channel, name);
        made.map_err(text("queue"))
    };
    let peer = Sleeper::new(context, node, (queue(SENT)?, queue(RECEIVED)?))?;
    let own = &peer.own;
    let next = |name: u64, queue: &CompletionQueue| {
        same("name", channel.next().map_err(text("next"))?, name)?;
        let found = wait(queue, 1)?.remove(0);
        same("status", found.status, WcStatus::Success)
    };
    own.fill(3, 0, LENGTH)?;
    arm(&own.sends)?;
    let sent = own.pair.send(1, &[own.segment(0, LENGTH)?]);
    sent.map_err(text("send"))?;
    // The receive is posted when the thread sleeps, so that it has wanted no room before.
    let receive = part_of(kind::RECEIVE, 1, 0, LENGTH);
    for message in [of(kind::SLEEP, 50), receive, of(kind::EXPECT, 1)] {
        say(&peer.endpoint, message)?;
    }
    next(SENT, &own.sends)?;
    peer.answer()?;
    peer.answer()?;
    same("bytes", peer.answer()?.length, LENGTH as u64)?;
    let right = peer.ask(part(kind::CHECK, 0, LENGTH, 3))?;
    same("content", right.number, 1)?;
    // The other way.
    own.fill(4, 0, LENGTH)?;
    own.receive(1, 0, LENGTH)?;
    arm(&own.receives)?;
    say(&peer.endpoint, part_of(kind::SEND, 1, 0, LENGTH))?;
    next(RECEIVED, &own.receives)?;
    same("sent", peer.answer()?.number, 1)?;
    same("content", own.is_right(3, 0, LENGTH)?, true)
}

/// A completion queue that is too small: it is lost, its queue pair fails, and the peer is told
/// that nothing is answered any more.
pub fn overrun(context: &Context, node: NodeId) -> Checked {
    let queue = |size| context.completion_queue(size).map_err(text("queue"));
    let peer = Sleeper::new(context, node, (queue(64)?, queue(1)?))?;
    let own = &peer.own;
    own.receive(4, 0, 100)?;
    peer.ask(part_of(kind::SEND, 2, 0, 100))?;
    let event = context.next_event().map_err(text("event"))?;
    same("event", event.kind, EventType::CqErr)?;
    let state = || own.pair.query().map(|now| now.state).map_err(text("query"));
    same("state", state()?, QpState::Err)?;
    let answer = peer.ask(part_of(kind::SEND, 1, 0, 100))?;
    same("sent to nobody", answer.number, 0)?;
    let answer = peer.ask(of(kind::STATE, 0))?;
    same("state of the peer", answer.number, QpState::Err as u64)
}
