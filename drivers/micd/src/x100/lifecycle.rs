//! The life cycle of a card: reset, firmware, image, the system that runs on it, and its end.

use alloc::format;
use alloc::string::String;

use hal::mem::drain_writes;
use scif_core::DownReason;

use super::boot::MAX_FAILURES;
use super::identity::Identity;
use super::image::Loading;
use super::registers::{
    self, ALL_ONES, APICICR7, APICICR7_HIGH, BOOT_INTERRUPT, BOOT_VECTOR, CARD_INTERRUPTS,
    DOWNLOAD, DOWNLOAD_READY, ICR_SEND, IMAGE_BYTES, POST_FAILED, POSTCODE, SDBIC1, boot_processor,
    name,
};
use super::{
    BOOT_NS, CHECK_NS, CRASHED, LinkState, READY_NS, SECOND_NS, State, X100, dma, identity, slot,
};
use crate::function::LinkStep;

impl X100 {
    /// Resets the card. It may still write to the host's memory until the check that follows.
    pub(super) fn reset(&mut self, since: u64) {
        if self.state == State::Running {
            self.boot.ended(self.now);
        }
        self.device.reset();
        self.boot.take_loading();
        self.resets.begin();
        let check = self.now.saturating_add(CHECK_NS);
        self.state = State::Resetting { since, check };
    }

    /// Whether the card no longer writes to the host's memory, one second after it was reset or
    /// found gone.
    pub(super) fn is_quiet(&mut self) -> bool {
        // The answer comes behind everything that the card has written. A card that does not
        // answer may not have been reset, so it is kept off the bus.
        if matches!(self.state, State::Gone { .. }) || self.read(POSTCODE) == ALL_ONES {
            self.device.set_bus_master(false);
            return !self.device.is_bus_master();
        }
        true
    }

    /// Checks whether the firmware is ready after a reset.
    pub(super) fn check_firmware(&mut self, since: u64) {
        self.resets.end();
        let (post, download) = (self.read(POSTCODE), self.read(DOWNLOAD));
        if download != ALL_ONES && download & DOWNLOAD_READY != 0 {
            return self.ready();
        }
        if self.now.saturating_sub(since) >= READY_NS {
            log::error!(
                "{}: the card does not get ready: after {} s {} is {} and {} is {download:#x}; \
                 reset it again with scifctl, or switch the machine off and on",
                self.device.name(),
                READY_NS / SECOND_NS,
                name(POSTCODE),
                identity::post_code(self.device.registers()),
                name(DOWNLOAD),
            );
            self.state = State::Failed;
            return;
        }
        if POST_FAILED.contains(&post) {
            let code = identity::post_code(self.device.registers());
            log::warn!(
                "{}: the reset failed, POST code {code}: again",
                self.device.name()
            );
            return self.reset(since);
        }
        let check = self.now.saturating_add(CHECK_NS);
        self.state = State::Resetting { since, check };
    }

    /// Sets the card up again after a reset, when its firmware waits for an image.
    pub(super) fn ready(&mut self) {
        self.device.set_bus_master(true);
        self.identity = Identity::read(self.device.registers());
        self.device.set_up(self.identity.is_first_stepping());
        self.state = State::Ready;
        log::info!(
            "{}: ready, stepping {}, {} MiB",
            self.device.name(),
            self.identity.stepping(),
            self.identity.memory_bytes >> 20
        );
    }

    /// Begins to load the card's system, if the firmware still waits for one.
    pub(super) fn begin_boot(&mut self) {
        let download = self.read(DOWNLOAD);
        if download == ALL_ONES {
            return self.card_is_gone(DOWNLOAD);
        }
        if download & DOWNLOAD_READY == 0 {
            let (name, register) = (self.device.name(), name(DOWNLOAD));
            log::error!("{name}: its firmware is not ready any more: {register} is {download:#x}");
            return self.fail_boot();
        }
        match self.plan(download) {
            Ok(loading) => {
                self.boot.load(loading);
                self.state = State::Loading;
            }
            Err(reason) => self.refuse_to_boot(&reason),
        }
    }

    fn plan(&mut self, download: u32) -> core::result::Result<Loading, String> {
        let files = self.device.files();
        let files = files.map_err(|error| format!("no uOS in {}: {error}", slot::FILES))?;
        let plan = files.plan(download, self.device.aperture().len());
        let plan = plan.map_err(|reason| format!("{reason}"))?;
        Ok(Loading::new(files, plan))
    }

    fn refuse_to_boot(&mut self, reason: &str) {
        log::error!("{}: not booted: {reason}", self.device.name());
        self.boot.set_wanted(false);
    }

    /// Writes the next piece of the card's system, and starts the system after the last piece.
    pub(super) fn go_on_loading(&mut self) {
        let Some(mut loading) = self.boot.take_loading() else {
            return;
        };
        match loading.go_on(self.device.aperture()) {
            Ok(false) => self.boot.load(loading),
            Ok(true) => self.start(loading.kernel_bytes()),
            Err(error) => {
                self.refuse_to_boot(&format!("{error}"));
                self.bring_down(DownReason::Reset);
            }
        }
    }

    /// Starts the system that was loaded.
    fn start(&mut self, kernel_bytes: u32) {
        let download = self.read(DOWNLOAD);
        if download == ALL_ONES {
            return self.card_is_gone(DOWNLOAD);
        }
        self.write(IMAGE_BYTES, kernel_bytes);
        self.write(APICICR7_HIGH, boot_processor(download));
        drain_writes();
        self.write(APICICR7, BOOT_VECTOR | ICR_SEND);
        let until = self.now.saturating_add(BOOT_NS);
        self.state = State::Booting { until };
        log::info!("{}: its system is started", self.device.name());
    }

    /// Ends the link and then resets the card.
    pub(super) fn bring_down(&mut self, reason: DownReason) {
        self.link = match self.link {
            LinkState::Connected { .. } => LinkState::ToFail { reason },
            LinkState::Attaching | LinkState::Published | LinkState::Connecting { .. } => {
                self.draining()
            }
            LinkState::Down { .. } => {
                self.reset(self.now);
                return;
            }
            other => other,
        };
    }

    /// Whether the reset can begin without waiting for copies.
    pub(super) fn is_drained(&self) -> bool {
        let mut dma = self.device.dma().borrow_mut();
        dma.is_idle() || dma.is_stuck()
    }

    pub(super) fn draining(&self) -> LinkState {
        let until = self.now.saturating_add(dma::STALL_NS);
        LinkState::Draining { until }
    }

    /// Counts a boot that failed, and resets the card.
    pub(super) fn fail_boot(&mut self) {
        self.count_failed_boot();
        self.bring_down(DownReason::Silent);
    }

    fn count_failed_boot(&mut self) {
        if self.boot.failed() {
            let name = self.device.name();
            log::error!("{name}: booted {MAX_FAILURES} times in vain: given up");
        }
    }

    /// The next step while the link is not being ended.
    pub(super) fn step_up(&mut self) -> Option<LinkStep> {
        let now = self.now;
        // Before it is too late for an answer: a host that stood still may find both.
        if self.link == LinkState::Published && self.state != State::Loading {
            self.check_device_page();
        }
        match (self.state, self.link) {
            (State::Found, _) => self.reset(now),
            (State::Resetting { since, check }, _) if check <= now => self.check_firmware(since),
            (State::Gone { check }, LinkState::Down { .. }) if check <= now => self.check_bus(),
            (State::Ready, LinkState::Down { since })
                if self.boot.is_wanted() && since.max(self.boot.not_before()) <= now =>
            {
                self.link = LinkState::Attaching;
                return Some(LinkStep::Attach);
            }
            (State::Loading, _) => self.go_on_loading(),
            (State::Booting { until }, LinkState::Published) if until <= now => {
                let seconds = BOOT_NS / SECOND_NS;
                log::error!(
                    "{}: its system has not answered for {seconds} s",
                    self.device.name()
                );
                self.fail_boot();
            }
            (State::Stopping { until }, _) if until <= now => {
                log::warn!(
                    "{}: its system does not shut down: reset",
                    self.device.name()
                );
                self.bring_down(DownReason::Reset);
            }
            _ => {}
        }
        if let LinkState::Connected { queue_pair } = self.link {
            self.check_card(queue_pair);
        }
        match self.link {
            LinkState::Connecting { queue_pair } => Some(LinkStep::Connect { queue_pair }),
            LinkState::Connected { .. } if self.liveness.take_probe(now, self.timing) => {
                Some(LinkStep::Probe)
            }
            _ => None,
        }
    }

    /// Checks whether the card has published its queue pair.
    pub(super) fn check_device_page(&mut self) {
        let Ok(answer) = self.device.answer() else {
            return;
        };
        let number = usize::from(answer.doorbell);
        match answer.queue_pair {
            0 => {}
            // It would start the bootstrap. Interrupt 1 is a doorbell like others for a system that
            // does not take it for a request to shut down.
            _ if number == BOOT_INTERRUPT => {
                log::error!(
                    "{}: its system wants doorbell {number}, which is taken",
                    self.device.name()
                );
                self.fail_boot();
            }
            _ if number >= 2 * CARD_INTERRUPTS => {
                log::error!(
                    "{}: its system wants doorbell {number} of 16",
                    self.device.name()
                );
                self.fail_boot();
            }
            queue_pair => {
                self.device.doorbell().set_number(Some(number));
                self.link = LinkState::Connecting { queue_pair };
            }
        }
    }

    /// Checks whether the connected card still has a live system.
    pub(super) fn check_card(&mut self, queue_pair: u64) {
        let answer = self.device.answer().map(|answer| answer.queue_pair);
        if answer != Ok(queue_pair) {
            log::warn!(
                "{}: its system has withdrawn its queue pair",
                self.device.name()
            );
            return self.bring_down(DownReason::Reset);
        }
        self.liveness.beat(self.now, self.device.heartbeat());
        if self.liveness.is_silent(self.now, self.timing) {
            self.bring_down(DownReason::Silent);
        }
    }

    /// Handles the card's report that its system has ended.
    pub(super) fn system_ended(&mut self, value: u32) {
        let name = self.device.name();
        match self.state {
            State::Stopping { .. } => log::info!("{name}: its system has shut down ({value:#x})"),
            State::Booting { .. } | State::Running => {
                let what = if value == CRASHED { "crashed" } else { "ended" };
                let register = registers::name(SDBIC1);
                log::error!("{name}: its system has {what}: {register} was {value:#x}");
                if self.state != State::Running {
                    self.count_failed_boot();
                }
            }
            _ => return,
        }
        self.bring_down(DownReason::Reset);
    }

    /// Handles a card that is gone: its registers read all ones. Its system may still be running.
    pub(super) fn card_is_gone(&mut self, register: usize) {
        log::error!(
            "{}: {} reads all ones: the card is not on the bus any more",
            self.device.name(),
            name(register)
        );
        if self.state == State::Running {
            self.boot.ended(self.now);
        }
        self.device.abandon();
        let check = self.now.saturating_add(CHECK_NS);
        self.state = State::Gone { check };
        self.link = match self.link {
            LinkState::Connected { .. } => LinkState::ToFail {
                reason: DownReason::Cut,
            },
            LinkState::Attaching | LinkState::Published | LinkState::Connecting { .. } => {
                self.draining()
            }
            other => other,
        };
    }

    /// Checks whether a card that was gone is back. It may have been reset by itself.
    pub(super) fn check_bus(&mut self) {
        if self.read(POSTCODE) != ALL_ONES {
            log::warn!("{}: the card is back on the bus", self.device.name());
            return self.reset(self.now);
        }
        let check = self.now.saturating_add(CHECK_NS);
        self.state = State::Gone { check };
    }

    /// Whether the card's system is being started, or runs.
    pub(super) fn runs(&self) -> bool {
        matches!(
            self.state,
            State::Loading | State::Booting { .. } | State::Running
        )
    }

    /// Whether the card's POST code can be read.
    pub(super) fn has_post_code(&self) -> bool {
        self.resets.has_ended() && !matches!(self.state, State::Gone { .. })
    }

    /// Whether the card's registers can be read and its interrupts served.
    pub(super) fn answers(&self) -> bool {
        !matches!(
            self.state,
            State::Found | State::Resetting { .. } | State::Gone { .. } | State::Failed
        )
    }
}
