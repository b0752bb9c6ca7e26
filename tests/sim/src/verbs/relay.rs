//! The relay of datagrams for groups in a world of verbs. It assembles datagrams by the code of
//! the device's daemon (`ibd::group`), and passes each whole one on to all programs that have
//! joined, including the sender. Datagrams without room are dropped.

use ibd::group::Assembly;
use verbs_core::address::LanePeer;
use verbs_core::host::LaneId;

use super::World;
use super::datagrams::lid_of;
use super::net::{SYSTEM, lane};

/// Most bytes that wait for a program, besides one datagram.
const MOST_WAITING: usize = 16 * 1024;

/// The lane of a program that has joined.
struct Member {
    link: usize,
    program: usize,
    assembly: Assembly,
    /// The bytes to send to the program.
    waiting: Vec<u8>,
    /// Whether the program has not left the lane.
    is_joined: bool,
}

/// The relay; see the module.
#[derive(Default)]
pub struct Relay {
    members: Vec<Member>,
}

impl Relay {
    /// Handles the end of a lane at its program's side.
    pub fn left(&mut self, link: usize) {
        for member in self.members.iter_mut().filter(|of| of.link == link) {
            member.is_joined = false;
        }
    }

    /// Returns whether no bytes wait for a program.
    pub fn is_idle(&self) -> bool {
        self.members.iter().all(|member| member.waiting.is_empty())
    }

    /// Returns the link of a program that has joined.
    pub fn link_of(&self, program: usize) -> Option<usize> {
        let mut members = self.members.iter();
        let found = members.find(|of| of.program == program && of.is_joined);
        found.map(|member| member.link)
    }
}

impl World {
    /// Lets a program join, if it has not. Returns its lane.
    pub(super) fn join_relay(&mut self, own: usize) -> Result<Option<LaneId>, String> {
        if let Some(link) = self.relay.link_of(own) {
            return Ok(Some(lane(link, 0)));
        }
        let Some(program) = &mut self.programs[own] else {
            return Ok(None);
        };
        let link = self.net.borrow_mut().join([own, SYSTEM]);
        let joined = lane(link, 0);
        let wrong = |error| format!("a lane to the relay: {error:?}");
        let context = &mut program.context;
        context.open_datagram_lane(joined).map_err(wrong)?;
        let told = context.set_lane_peer(joined, LanePeer::Relay);
        told.map_err(wrong)?;
        // Before, datagrams for groups have stayed in the program.
        let within = self.mail_links.iter().filter(|(_, of)| *of == [own, own]);
        for (link, _) in within {
            context.forget_routes(lane(*link, 0));
        }
        self.relay.members.push(Member {
            link,
            program: own,
            assembly: Assembly::new(lid_of(own)),
            waiting: Vec::new(),
            is_joined: true,
        });
        Ok(Some(joined))
    }

    /// Takes what has arrived at the relay and passes it on.
    pub(super) fn pass_on(&mut self) -> Result<(), String> {
        let (mut datagrams, mut over) = (Vec::new(), Vec::new());
        for member in &mut self.relay.members {
            let own = lane(member.link, 1);
            let (bytes, has_ended) = self.net.borrow_mut().take(own);
            let taken = member
                .assembly
                .take(&bytes, |records| datagrams.push(records));
            let keeps_to_rules = self.settings.is_hostile || taken.is_ok();
            if !keeps_to_rules {
                return Err(format!("the relay refuses program {}", member.program));
            }
            if has_ended || taken.is_err() {
                over.push(member.link);
                self.net.borrow_mut().close(own);
            }
        }
        self.relay.members.retain(|of| !over.contains(&of.link));
        for records in datagrams {
            for member in &mut self.relay.members {
                let has_room = member.waiting.len() <= MOST_WAITING;
                if has_room && !self.rng.one_in(32) {
                    member.waiting.extend_from_slice(&records);
                }
            }
        }
        for member in &mut self.relay.members {
            let mut net = self.net.borrow_mut();
            net.give(lane(member.link, 1), &mut member.waiting);
        }
        Ok(())
    }
}
