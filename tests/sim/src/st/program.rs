//! The work of programs with a channel: push, pull, sleep and wake, attach and detach.

use st_core::connection::Update;
use st_core::queue::{Descriptor, Kind, MAX_DESCRIPTOR, QueueError, Sent as Stored};
use st_core::record::Record;

use super::link::{Bug, Dead, NotMoved};
use super::memory::CELL;
use super::{End, Place, Sent, World};

/// A channel on which a wake-up arrived, and whether a pull and a push slept there.
pub(super) type Woken = (usize, bool, bool);

/// The data that belongs to a header.
#[derive(Default)]
struct Data {
    put: Option<(i64, usize, Vec<u8>)>,
    get: Option<(i64, usize, Vec<u8>)>,
}

impl World {
    /// Makes a program take a step at one of its ends.
    pub(super) fn work(&mut self, which: usize) -> Result<(), String> {
        let place = &mut self.places[which];
        place.access.begin();
        if place.access.has_seen_down() {
            for channel in &mut place.channels {
                channel.pull_sleeps = false;
                channel.push_sleeps = None;
            }
        }
        let number = self.rng.below(place.channels.len() as u64) as usize;
        let may_die = self.kill.is_none();
        let kind = self.rng.below(100);
        match kind {
            0..8 => {
                let side = self.rng.below(2) as usize;
                self.places[which].access.link.borrow_mut().land_some(side);
                return Ok(());
            }
            8..20 => {
                let bytes = self.places[which].access.take_stream();
                self.hear(which, &bytes)?;
                return Ok(());
            }
            20 if may_die && self.rng.one_in(6) => {
                self.close(which);
                return Ok(());
            }
            21 if may_die && self.rng.one_in(20) => {
                let how = match self.rng.one_in(2) {
                    true => End::Closed,
                    false => End::Cut,
                };
                self.kill(self.places[which].program, how);
                return Ok(());
            }
            22 if may_die && self.rng.one_in(20) => {
                // The program dies in the middle of one of its next calls.
                let stores = self.rng.below(30);
                let Place { access, .. } = &self.places[which];
                access.link.borrow_mut().kill_after(access.side, stores);
                return Ok(());
            }
            _ => {}
        }
        let channel = &mut self.places[which].channels[number];
        if !channel.is_attached {
            channel.is_attached = self.rng.one_in(4);
            return Ok(());
        }
        let (pull_sleeps, push_sleeps) = (channel.pull_sleeps, channel.push_sleeps.is_some());
        match kind {
            23 if !pull_sleeps && !push_sleeps => self.detach(which, number),
            24..30 => self.map(which, number),
            30 => self.unmap(which, number),
            31..37 => self.use_position(which, number),
            37..67 if !push_sleeps => self.push(which, number),
            67.. if !pull_sleeps => self.pull(which, number).map(|_| ()),
            _ => Ok(()),
        }
    }

    fn detach(&mut self, which: usize, number: usize) -> Result<(), String> {
        self.unmap(which, number)?;
        self.places[which].channels[number].is_attached = false;
        Ok(())
    }

    /// Handles the error of a call.
    fn failed(&mut self, which: usize, error: QueueError<Dead>) -> Result<(), String> {
        match error {
            QueueError::Broken => self.broken(which),
            QueueError::Memory(Dead) => {
                self.died(which);
                Ok(())
            }
        }
    }

    // ---- Control messages ----

    /// Sends a record in two parts.
    pub(super) fn tell(&mut self, which: usize, record: Record) {
        let bytes = record.encode();
        let (one, two) = bytes.split_at(self.rng.below(bytes.len() as u64) as usize);
        let access = &mut self.places[which].access;
        let told = access.send(one).and_then(|()| access.send(two));
        if told == Err(Dead) {
            self.died(which);
        }
    }

    fn wake(&mut self, which: usize, number: usize) {
        if self.bug != Some(Bug::NoWake) {
            let channel = number as u32;
            self.tell(which, Record::Wake { channel });
        }
    }

    /// Takes bytes of the stream. Returns the wake-ups.
    pub(super) fn hear(&mut self, which: usize, bytes: &[u8]) -> Result<Vec<Woken>, String> {
        let mut all = Vec::new();
        let heard = self.places[which]
            .connection
            .receive(bytes, |news| all.push(news));
        let is_strict = self.is_strict(which);
        let mut woken = Vec::new();
        for news in all {
            if let Update::Wake(channel) = news {
                let number = channel as usize;
                let channel = &mut self.places[which].channels[number];
                let slept = (channel.pull_sleeps, channel.push_sleeps.is_some());
                channel.pull_sleeps = false;
                channel.push_sleeps = None;
                self.report.wakes += u64::from(slept.0) + u64::from(slept.1);
                woken.push((number, slept.0, slept.1));
                continue;
            }
            let told = self.places[which ^ 1].told.pop_front();
            if is_strict && told != Some(news) {
                return Err(format!(
                    "end {which} has heard {news:?} instead of {told:?}"
                ));
            }
        }
        if heard.is_err() {
            self.broken(which)?;
        }
        Ok(woken)
    }

    // ---- Push ----

    /// Pushes a header of any kind, perhaps with data, or sleeps if there is no room.
    pub(super) fn push(&mut self, which: usize, number: usize) -> Result<(), String> {
        let kinds = [Kind::Message, Kind::Header, Kind::HeaderWithPayload];
        let kind = kinds[self.rng.below(3) as usize];
        let Place {
            access, channels, ..
        } = &mut self.places[which];
        access.begin();
        if access.is_down() {
            return Ok(());
        }
        let sender = &mut channels[number].sender;
        let room = match sender.room(access) {
            Ok(room) => room,
            Err(error) => return self.failed(which, error),
        };
        if room < kind.slots() {
            return self.sleep_for_room(which, number, kind.slots());
        }
        let is_late = self.bug == Some(Bug::HeaderFirst);
        let Some(data) = self.prepare(which, number, is_late)? else {
            return Ok(());
        };
        if self.places[which].ended.is_some() {
            return Ok(());
        }
        let late_put = data.put.clone().filter(|_| is_late);
        self.send(which, number, kind, data)?;
        if let Some((region, at, bytes)) = late_put {
            let access = &mut self.places[which].access;
            // A planted bug, so the result does not matter.
            let _ = access.put(region + at as i64, &bytes, false);
        }
        Ok(())
    }

    /// Prepares the data of a push and puts it at once unless `is_late`. Returns `None` if it
    /// could not be put.
    fn prepare(
        &mut self,
        which: usize,
        number: usize,
        is_late: bool,
    ) -> Result<Option<Data>, String> {
        let mut data = Data::default();
        match self.rng.below(3) {
            0 => {
                let Some((offset, region, at)) = self.free_cell(which, number) else {
                    return Ok(Some(data));
                };
                let bytes = self.random_bytes(CELL);
                if !is_late {
                    let by_daemon = self.rng.one_in(3);
                    let access = &mut self.places[which].access;
                    match access.put(offset, &bytes, by_daemon) {
                        Ok(()) => {}
                        Err(NotMoved::Dead) => {
                            self.died(which);
                            return Ok(None);
                        }
                        Err(NotMoved::Gone) => {
                            self.check_gone(which, number)?;
                            return Ok(None);
                        }
                    }
                }
                data.put = Some((region, at, bytes));
            }
            1 => {
                let Some((region, at)) = self.own_cell(which, number) else {
                    return Ok(Some(data));
                };
                let bytes = self.random_bytes(CELL);
                self.places[which].access.change_own(region, at, &bytes);
                data.get = Some((region, at, bytes));
            }
            _ => {}
        }
        Ok(Some(data))
    }

    fn send(&mut self, which: usize, number: usize, kind: Kind, data: Data) -> Result<(), String> {
        let descriptor = Descriptor::new(kind, &self.random_bytes(MAX_DESCRIPTOR));
        let Place {
            access, channels, ..
        } = &mut self.places[which];
        let channel = &mut channels[number];
        channel.sent.push_back(Sent {
            descriptor,
            is_whole: false,
            put: data.put,
            get: data.get,
        });
        match channel.sender.send(access, &descriptor) {
            Ok(Some(Stored { wake })) => {
                if let Some(sent) = channel.sent.back_mut() {
                    sent.is_whole = true;
                }
                if wake {
                    self.wake(which, number);
                }
                Ok(())
            }
            Ok(None) if self.is_strict(which) => {
                Err("there was room, and now there is none".into())
            }
            Ok(None) => Ok(()),
            Err(error) => self.failed(which, error),
        }
    }

    fn sleep_for_room(&mut self, which: usize, number: usize, slots: u64) -> Result<(), String> {
        if self.is_ending || self.rng.one_in(2) {
            return Ok(());
        }
        let Place {
            access, channels, ..
        } = &mut self.places[which];
        let channel = &mut channels[number];
        match channel.sender.arm(access) {
            Ok(room) if room < slots => {
                channel.push_sleeps = Some(slots);
                self.report.sleeps += 1;
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(error) => self.failed(which, error),
        }
    }

    // ---- Pull ----

    /// Pulls a header and gets its data, or sleeps if there is none. Returns whether there was a
    /// header.
    pub(super) fn pull(&mut self, which: usize, number: usize) -> Result<bool, String> {
        let looks_first = self.bug == Some(Bug::LookFirst);
        let Place {
            access, channels, ..
        } = &mut self.places[which];
        access.begin();
        let mut is_down = !looks_first && access.is_down();
        let received = channels[number].receiver.receive(access);
        if looks_first {
            is_down = access.is_down();
        }
        match received {
            Ok(Some(received)) => {
                self.arrived(which, number, &received.descriptor)?;
                if received.wake {
                    self.wake(which, number);
                }
                Ok(true)
            }
            Ok(None) if is_down => self.lost(which, number).map(|()| false),
            Ok(None) => self.sleep_for_header(which, number).map(|()| false),
            Err(error) => self.failed(which, error).map(|()| false),
        }
    }

    /// Checks a header that has arrived.
    fn arrived(&mut self, which: usize, number: usize, found: &Descriptor) -> Result<(), String> {
        self.report.pulled += 1;
        if !self.is_strict(which) {
            return Ok(());
        }
        let sender = &mut self.places[which ^ 1];
        let Some(sent) = sender.channels[number].sent.pop_front() else {
            return Err(format!("end {which} has a header that was not sent"));
        };
        if sent.descriptor != *found {
            return Err(format!("end {which} has another header than was sent next"));
        }
        if !sent.is_whole && sender.ended.is_none() {
            return Err("a header has arrived that was not sent to its end".into());
        }
        let access = &mut self.places[which].access;
        if let Some((region, at, bytes)) = sent.put
            && let Some(there) = access.own(region, at, bytes.len())
        {
            self.report.with_data += 1;
            if there != bytes {
                return Err(format!("end {which} has a header, and not its data"));
            }
        }
        let Some((region, at, bytes)) = sent.get else {
            return Ok(());
        };
        let access = &mut self.places[which].access;
        match access.get(region + at as i64, bytes.len()) {
            Ok(there) if there == bytes => self.report.with_data += 1,
            Ok(_) => return Err(format!("end {which} gets other data than was there")),
            Err(_) => {}
        }
        Ok(())
    }

    /// Handles a pull that has found the connection down and no header.
    fn lost(&mut self, which: usize, number: usize) -> Result<(), String> {
        let peer = &self.places[which ^ 1];
        let missing = peer.channels[number].sent.iter();
        let missing = missing.filter(|sent| sent.is_whole).count();
        if self.is_strict(which) && peer.ended == Some(End::Closed) && missing > 0 {
            return Err(format!(
                "end {which} sees the connection down, {missing} headers did not arrive before"
            ));
        }
        if peer.ended.is_none() {
            return Err(format!(
                "end {which} sees the connection down, which it is not"
            ));
        }
        let place = &mut self.places[which];
        place.channels[number].is_over = true;
        place.channels[number].pull_sleeps = false;
        self.report.lost += 1;
        if place.channels.iter().all(|channel| channel.is_over) {
            self.close(which);
        }
        Ok(())
    }

    fn sleep_for_header(&mut self, which: usize, number: usize) -> Result<(), String> {
        if self.is_ending || self.rng.one_in(2) {
            return Ok(());
        }
        let Place {
            access, channels, ..
        } = &mut self.places[which];
        let channel = &mut channels[number];
        match channel.receiver.arm(access) {
            Ok(armed) => {
                if !armed.is_ready {
                    channel.pull_sleeps = true;
                    self.report.sleeps += 1;
                }
                if armed.wake {
                    self.wake(which, number);
                }
                Ok(())
            }
            Err(error) => self.failed(which, error),
        }
    }

    pub(super) fn random_bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.rng.number() as u8).collect()
    }
}
