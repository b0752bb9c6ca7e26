//! The driver's loop: time, events, and sending messages.

use scif_abi::message::Message;

use crate::base::context::Context;
use crate::base::event::Event;
use crate::base::memory::Memory;
use crate::base::timers::Timer;
use crate::connection::credit::Enough;
use crate::engine::Engine;
use crate::rma::copy_engine::CopyEngine;

impl Engine {
    /// Sets the time (nanoseconds of any monotonic clock) and handles the time-outs that are due.
    /// The driver calls this at the start of every iteration of its loop.
    pub fn tick(&mut self, mem: &mut dyn Memory, now: u64) {
        self.cx.now = self.cx.now.max(now);
        self.drop_void_answers(mem);
        // Each timer expires once. One that is due again at once, such as for the messages of a
        // peer that sends as fast as they are read, waits for the next iteration.
        for timer in self.cx.timers.due(self.cx.now) {
            if self.cx.timers.expire(timer, self.cx.now) {
                self.on_timer(mem, timer);
            }
        }
        // Full rings may have room at any time, so they are polled in every iteration.
        self.nodes.retry_full_rings(mem, &self.cx);
        (self.connections).resume_credit_waiters(mem, &mut self.cx, Enough::HalfRing);
        self.lose_failed_nodes();
        self.nodes.set_timers(&mut self.cx);
    }

    fn on_timer(&mut self, mem: &mut dyn Memory, timer: Timer) {
        match timer {
            Timer::Handshake(id) => self.on_handshake_timeout(mem, id),
            Timer::RequestExpiry => self.endpoints.expire_requests(&mut self.cx),
            Timer::Response => self.on_response_timeout(mem),
            Timer::Link(node) => self.on_link_timer(mem, node),
            Timer::RingRetry(id) => self.connections.on_ring_retry(&mut self.cx, id),
            Timer::Quiesce => self.check_quiescing(mem),
            Timer::CreditUpdate => self.connections.send_credit_updates(mem),
            Timer::CreditGrowth => {
                (self.connections).resume_credit_waiters(mem, &mut self.cx, Enough::AnyByte);
            }
        }
    }

    /// Does about `budget` bytes of queued work. Processes take turns, and so do the connections
    /// of each. Call it once in every iteration of the loop, before `next_event`, and whenever the
    /// copy engine has completed something. `true`: there is more to do right away, so do not
    /// sleep.
    pub fn pump(
        &mut self,
        mem: &mut dyn Memory,
        copier: &mut dyn CopyEngine,
        budget: usize,
    ) -> bool {
        let (windows, calls) = (&mut self.windows, &mut self.calls);
        (self.transfers).pump(mem, &mut self.cx, windows, calls, copier, budget);
        self.send_kept_exits(mem);
        self.has_work()
    }

    /// Whether [`pump`](Self::pump) would find queued work. Calls queue work, and so do messages
    /// that `doorbell` and `next_event` handle. Work that waits for the copy engine does not
    /// count: its completions need a pump anyway.
    pub fn has_work(&self) -> bool {
        self.transfers.has_work()
    }

    /// Whether the copy engine has accepted descriptors that complete later. As long as it has,
    /// call [`pump`](Self::pump) whenever it may have completed one.
    pub fn awaits_copies(&self) -> bool {
        self.transfers.awaits_copies()
    }

    /// When `tick` must be called at the latest (same clock); `None`: no time-out is running.
    pub fn next_deadline(&self) -> Option<u64> {
        self.cx.timers.next()
    }

    /// The next event for the driver. After any other calls, call it until it returns `None`: it
    /// also sends messages and notifications and handles messages within the node. Sending them
    /// here, at the end, merges notifications.
    pub fn next_event(&mut self, mem: &mut dyn Memory) -> Option<Event> {
        if let Some(event) = self.pop_event(mem) {
            return Some(event);
        }
        self.flush(mem);
        self.pop_event(mem)
    }

    fn pop_event(&mut self, mem: &mut dyn Memory) -> Option<Event> {
        while let Some(event) = self.cx.events.pop() {
            let is_current = match event {
                Event::Changed(id) => self.endpoints.get(id).is_ok(),
                Event::Ring(node) => self.nodes.take_doorbell(mem, &mut self.cx, node),
                Event::Departed(_)
                | Event::NodeUp(_)
                | Event::NodeDown(_)
                | Event::LinkFailed(_)
                | Event::Unpin(_) => true,
            };
            if is_current {
                return Some(event);
            }
        }
        None
    }

    /// Sends messages and notifications, handles messages within the node, and gives up links that
    /// have failed meanwhile.
    fn flush(&mut self, mem: &mut dyn Memory) {
        loop {
            self.windows.send_pending_replies(&mut self.cx);
            self.handle_loopback(mem);
            self.nodes.transmit(mem, &mut self.cx);
            let send = |mem: &mut dyn Memory, cx: &mut Context, node, message: &Message| {
                self.nodes.send_notification(mem, cx, node, message)
            };
            (self.connections).send_notifications(mem, &mut self.cx, send);
            if self.cx.loopback.is_empty() && !self.windows.has_pending_replies() {
                break;
            }
        }
        self.connections.publish_states(mem);
        self.show_transfers(mem);
        self.send_kept_exits(mem);
        self.lose_failed_nodes();
        self.nodes.end_round(&mut self.cx);
    }

    /// Shows clients whose transfers have begun or ended. A call that starts a transfer is answered
    /// behind this, so the caller knows of it.
    fn show_transfers(&mut self, mem: &mut dyn Memory) {
        while let Some(id) = self.transfers.take_changed() {
            let are_under_way = self.transfers.are_under_way(id);
            self.connections.show_transfers(mem, id, are_under_way);
        }
    }
}
