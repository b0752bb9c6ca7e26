//! A card as a MIC function.

use alloc::rc::Rc;
use alloc::string::String;
use core::cell::RefCell;

use hal::aperture::Aperture;
use hal::irq::Interrupt;
use hal::{Error, Result};
use scheme_scif::{Card, CardCommand, CardState};
use scif_abi::NodeId;
use scif_abi::limits::{HOST_NODE, LinkTiming};
use scif_core::{CopyEngine, DownReason};
use syscall::error::{EAGAIN, EBUSY};

use super::doorbell::send_interrupt;
use super::liveness::PROBES;
use super::registers::SHUTDOWN_INTERRUPT;
use super::{CHECK_NS, DRAIN_NS, LinkState, SHUTDOWN_NS, State, X100, identity};
use crate::function::{LinkStep, MicFunction, Outcome};
use crate::hardware::{Bus, Doorbell, Hardware};

impl Hardware for X100 {
    fn interrupts(&self) -> &[Interrupt] {
        self.device.interrupts().files()
    }

    fn start(&mut self) -> Result<()> {
        self.device.interrupts().unmask()
    }

    fn aperture(&mut self, is_mapped: bool) -> Result<Aperture> {
        if is_mapped {
            // Programs with mappings would store into the new system.
            if self.resets.log_mapping() {
                let name = self.device.name();
                log::warn!("{name}: not booted before programs unmap what they have mapped of it");
            }
            return Err(Error::new(EAGAIN));
        }
        Ok(self.device.aperture().clone())
    }

    fn bus(&self) -> Rc<dyn Bus> {
        self.device.smpt().clone()
    }

    fn doorbell(&self) -> Rc<dyn Doorbell> {
        self.device.doorbell().clone()
    }

    fn copy_engine(&self) -> Option<Rc<RefCell<dyn CopyEngine>>> {
        Some(self.device.dma().clone())
    }

    fn gathers_stores(&self) -> bool {
        true
    }
}

impl MicFunction for X100 {
    fn node(&self) -> NodeId {
        HOST_NODE
    }

    fn peer(&self) -> NodeId {
        self.device.peer()
    }

    fn set_timing(&mut self, timing: LinkTiming) {
        if timing != self.timing {
            self.timing = timing;
            self.next_check = self.now;
            self.liveness.restart_probes(self.now, timing);
        }
    }

    fn step(&mut self, now: u64) -> Option<LinkStep> {
        self.now = now;
        if self.next_check <= now {
            // The DMA engine has to be watched, however rare the heartbeats are.
            self.next_check = now.saturating_add(self.timing.heartbeat_ns.min(CHECK_NS));
        }
        self.stall_at = self.device.dma().borrow_mut().watch(now);
        if self.device.dma().borrow().is_stuck() {
            self.bring_down(DownReason::Reset);
        }
        if self.answers() {
            self.serve_interrupts();
        }
        match self.link {
            LinkState::ToFail { reason } => {
                self.link = LinkState::Failing;
                Some(LinkStep::Fail { reason })
            }
            LinkState::Draining { until } if now >= until || self.is_drained() => {
                if !matches!(self.state, State::Gone { .. }) {
                    self.reset(now);
                }
                let until = now.saturating_add(CHECK_NS);
                self.link = LinkState::Quieting { until };
                None
            }
            LinkState::Quieting { until } if now >= until => {
                if !self.is_quiet() {
                    let until = now.saturating_add(CHECK_NS);
                    self.link = LinkState::Quieting { until };
                    return None;
                }
                self.device.dma().borrow_mut().abort();
                self.link = LinkState::Detaching;
                Some(LinkStep::Detach)
            }
            LinkState::Failing
            | LinkState::Draining { .. }
            | LinkState::Quieting { .. }
            | LinkState::Detaching => None,
            _ => self.step_up(),
        }
    }

    fn done(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Attached { queue_pair } => self.attached(queue_pair),
            Outcome::Connected { is_usable } => self.connected(is_usable),
            Outcome::Probed { messages } => self.probed(messages),
            Outcome::Failed => self.failed(),
            Outcome::Detached => self.detached(),
        }
    }

    fn deadline(&self) -> u64 {
        let is_up = matches!(self.link, LinkState::Connected { .. });
        let own = match (self.state, self.link) {
            _ if is_up && self.device.dma().borrow().is_stuck() => self.now,
            (_, LinkState::ToFail { .. }) | (State::Found, _) => self.now,
            (_, LinkState::Draining { until }) => until.min(self.now.saturating_add(DRAIN_NS)),
            (_, LinkState::Quieting { until }) => until,
            (State::Resetting { check, .. }, _) => check,
            (State::Ready, LinkState::Down { since }) if self.boot.is_wanted() => {
                since.max(self.boot.not_before())
            }
            (State::Loading, _) => self.now,
            (State::Booting { until } | State::Stopping { until }, _) => until.min(self.next_check),
            (State::Gone { check }, _) => check,
            (State::Failed, _) => u64::MAX,
            _ if is_up => {
                let probe = self.liveness.probe_deadline();
                self.next_check.min(probe.unwrap_or(u64::MAX))
            }
            _ => self.next_check,
        };
        own.min(self.stall_at.unwrap_or(u64::MAX))
    }

    fn link_failed(&mut self) {
        if let LinkState::Connected { .. } = self.link {
            self.link = self.draining();
        }
    }

    fn leave(&mut self) {
        // The memory that the card writes to goes away with this driver. In the second after a
        // reset no register may be touched.
        self.device.set_bus_master(false);
        if !self.device.is_bus_master() {
            self.resets.make_needless();
        }
        if !matches!(self.state, State::Gone { .. } | State::Resetting { .. }) {
            self.reset(self.now);
        }
        self.boot.set_wanted(false);
        self.state = State::Gone { check: u64::MAX };
    }

    fn predecessor_is_quiesced(&self) -> bool {
        self.resets.was_reset()
    }

    fn card(&self) -> Option<Card> {
        let is_there = self.answers();
        Some(Card {
            node: self.device.peer(),
            place: self.device.name().into(),
            family: "x100",
            stepping: self.identity.stepping(),
            memory_bytes: self.identity.memory_bytes,
            state: match self.state {
                State::Found | State::Resetting { .. } => CardState::Resetting,
                State::Ready => CardState::Ready,
                State::Loading | State::Booting { .. } => CardState::Booting,
                State::Running => CardState::Running,
                State::Stopping { .. } => CardState::Stopping,
                State::Failed => CardState::Failed,
                State::Gone { .. } => CardState::Gone,
            },
            post_code: match self.has_post_code() {
                true => identity::post_code(self.device.registers()),
                false => String::new(),
            },
            temperature: is_there
                .then(|| identity::temperature(self.device.registers()))
                .flatten(),
        })
    }

    fn command(&mut self, now: u64, command: CardCommand) -> Result<()> {
        self.now = now;
        self.boot.forget_failures();
        match command {
            CardCommand::Boot if self.runs() => return Err(Error::new(EBUSY)),
            CardCommand::Boot => {
                self.boot.set_wanted(true);
                if matches!(self.state, State::Failed | State::Gone { .. }) {
                    self.bring_down(DownReason::Reset);
                }
            }
            CardCommand::Reset => {
                self.boot.set_wanted(false);
                // In the second after a reset no register may be touched.
                if !matches!(self.state, State::Resetting { .. }) {
                    self.bring_down(DownReason::Reset);
                }
            }
            CardCommand::Shutdown => {
                if !self.runs() {
                    return Err(Error::new(EBUSY));
                }
                self.boot.set_wanted(false);
                if self.state == State::Loading {
                    self.bring_down(DownReason::Reset);
                    return Ok(());
                }
                let until = self.now.saturating_add(SHUTDOWN_NS);
                self.state = State::Stopping { until };
                send_interrupt(self.device.registers(), SHUTDOWN_INTERRUPT);
            }
        }
        Ok(())
    }
}

/// Reactions to the outcomes of steps.
impl X100 {
    fn attached(&mut self, queue_pair: Option<u64>) {
        if self.link != LinkState::Attaching {
            return;
        }
        let again = LinkState::Down {
            since: self.now.saturating_add(CHECK_NS),
        };
        let Some(queue_pair) = queue_pair else {
            self.link = again;
            return;
        };
        self.device.publish(queue_pair);
        self.link = LinkState::Published;
        self.begin_boot();
        if self.state == State::Ready {
            // There is nothing to boot: take the queue pair back.
            self.link = self.draining();
        }
    }

    fn connected(&mut self, is_usable: bool) {
        let LinkState::Connecting { queue_pair } = self.link else {
            return;
        };
        if !is_usable {
            self.fail_boot();
            return;
        }
        self.liveness.start(self.now, self.timing);
        self.boot.succeeded(self.now);
        self.link = LinkState::Connected { queue_pair };
        if let State::Booting { .. } = self.state {
            self.state = State::Running;
        }
    }

    fn probed(&mut self, messages: u64) {
        if self.liveness.probed(messages) {
            let (name, limit) = (self.device.name(), self.timing.silence_ns / 1_000_000);
            log::error!(
                "{name}: its system is silent: {PROBES} questions in {limit} ms (silence_ms), \
                 and no answer"
            );
            self.bring_down(DownReason::Silent);
        }
    }

    fn failed(&mut self) {
        if self.link == LinkState::Failing {
            self.link = self.draining();
        }
    }

    fn detached(&mut self) {
        if self.link == LinkState::Detaching {
            self.device.smpt().forget();
            let since = self.now;
            self.link = LinkState::Down { since };
        }
    }
}
