//! The agents of a port: which of them has registered for which datagrams.
//!
//! A request goes to the agent that has registered for its class, version, organisation and
//! method. An answer goes to the agent whose number is in the upper half of its transaction.

use alloc::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::mad::{Mad, class};

/// Bits of an agent's number.
const NUMBER_BITS: u32 = 24;

/// The number of an agent: the upper half of the transactions of its requests. 24 bits, never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AgentId(pub u32);

/// The owner of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// The port itself: its agent gets requests for which no program has registered.
    BuiltIn,
    /// The descriptor with this number.
    User(u64),
}

/// The registration of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registration {
    /// The queue pair: 0 or 1.
    pub qpn: u32,
    /// The class; 0: the agent only sends, and receives the answers.
    pub class: u8,
    /// Version of the class.
    pub class_version: u8,
    /// The organisation, for a vendor's class.
    pub oui: [u8; 3],
    /// The requests that it gets: bit m for method m.
    pub methods: u128,
    /// 1: the port segments and reassembles long messages for it.
    pub rmpp_version: u8,
    /// The program segments and acknowledges long messages itself.
    pub user_rmpp: bool,
}

impl Registration {
    /// Whether the port segments and reassembles long messages for it.
    pub fn has_kernel_rmpp(&self) -> bool {
        self.rmpp_version != 0 && !self.user_rmpp
    }

    /// Checks the rules that need no other agent.
    fn check(&self) -> Result<()> {
        let is_qp_known = matches!(self.qpn, 0 | 1);
        let is_rmpp_known = matches!(self.rmpp_version, 0 | 1);
        if !is_qp_known || !is_rmpp_known {
            return Err(Error::Invalid);
        }
        if self.class == 0 {
            return match self.user_rmpp {
                true => Err(Error::Invalid),
                false => Ok(()),
            };
        }
        let is_class = self.class < class::END || self.class == class::SUBNET_DIRECTED;
        let is_named = !class::is_vendor(self.class) || self.oui != [0; 3];
        let is_rmpp_possible = self.rmpp_version == 0 || class::has_rmpp(self.class);
        let belongs = class::is_subnet(self.class) == (self.qpn == 0);
        let is_version = self.class_version < class::VERSION_END;
        match is_class && is_named && is_rmpp_possible && belongs && is_version {
            true => Ok(()),
            false => Err(Error::Invalid),
        }
    }

    /// The requests that it gets.
    fn routes(&self) -> impl Iterator<Item = Route> + '_ {
        let methods = (0..128).filter(|method| self.methods >> method & 1 != 0);
        let methods = methods.filter(|_| self.class != 0);
        methods.map(|method| Route::new(self.class, self.class_version, self.oui, method))
    }
}

/// An agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agent {
    /// The owner.
    pub owner: Owner,
    /// Its registration.
    pub registration: Registration,
}

/// The fields of a request that decide which agent gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Route {
    class: u8,
    version: u8,
    oui: [u8; 3],
    method: u8,
}

impl Route {
    fn new(class: u8, version: u8, oui: [u8; 3], method: u8) -> Route {
        Route {
            class,
            version,
            // Only vendors' classes have an organisation.
            oui: if class::is_vendor(class) { oui } else { [0; 3] },
            method,
        }
    }

    fn of(mad: &Mad) -> Route {
        let header = &mad.header;
        Route::new(header.class, header.class_version, mad.oui(), header.method)
    }
}

/// The agents of a port.
#[derive(Debug, Default)]
pub struct Agents {
    agents: BTreeMap<AgentId, Agent>,
    /// Requests that programs get, and those that the port itself answers.
    routes: BTreeMap<Route, AgentId>,
    built_in: BTreeMap<Route, AgentId>,
    last: u32,
}

impl Agents {
    /// Registers an agent.
    ///
    /// # Errors
    /// `Invalid`: a value is not possible, or a method belongs to another agent. `NoMemory`: all
    /// numbers are in use.
    pub fn register(&mut self, owner: Owner, registration: Registration) -> Result<AgentId> {
        registration.check()?;
        let routes = match owner {
            Owner::BuiltIn => &mut self.built_in,
            Owner::User(_) => &mut self.routes,
        };
        if registration
            .routes()
            .any(|route| routes.contains_key(&route))
        {
            return Err(Error::Invalid);
        }
        if self.agents.len() as u32 >= (1 << NUMBER_BITS) - 1 {
            return Err(Error::NoMemory);
        }
        // A number that was given back is used again as late as possible: answers for it may still
        // be on their way.
        let id = loop {
            self.last = (self.last + 1) % (1 << NUMBER_BITS);
            let id = AgentId(self.last);
            if id.0 != 0 && !self.agents.contains_key(&id) {
                break id;
            }
        };
        for route in registration.routes() {
            routes.insert(route, id);
        }
        let agent = Agent {
            owner,
            registration,
        };
        self.agents.insert(id, agent);
        Ok(id)
    }

    /// Removes an agent.
    pub fn remove(&mut self, id: AgentId) -> Option<Agent> {
        let agent = self.agents.remove(&id)?;
        for routes in [&mut self.routes, &mut self.built_in] {
            routes.retain(|_, of| *of != id);
        }
        Some(agent)
    }

    /// The agent with this number.
    pub fn get(&self, id: AgentId) -> Option<&Agent> {
        self.agents.get(&id)
    }

    /// The agent for a request: that of a program, otherwise one of the port's own.
    pub fn for_request(&self, mad: &Mad) -> Option<AgentId> {
        let route = Route::of(mad);
        let of_program = self.routes.get(&route);
        of_program.or_else(|| self.built_in.get(&route)).copied()
    }

    /// The agent that an answer names in its transaction.
    pub fn for_response(&self, mad: &Mad) -> Option<AgentId> {
        let id = AgentId((mad.header.tid.get() >> 32) as u32);
        self.agents.contains_key(&id).then_some(id)
    }

    /// All agents.
    pub fn iter(&self) -> impl Iterator<Item = (AgentId, &Agent)> {
        self.agents.iter().map(|(id, agent)| (*id, agent))
    }
}

#[cfg(test)]
mod tests {
    use super::{AgentId, Agents, Owner, Registration};
    use crate::error::Error;
    use crate::mad::{Mad, OPENIB_OUI, method};

    const VENDOR: Registration = Registration {
        qpn: 1,
        class: 0x32,
        class_version: 1,
        oui: OPENIB_OUI,
        methods: 1 << method::GET,
        rmpp_version: 0,
        user_rmpp: false,
    };

    fn request(class: u8, version: u8, method: u8, oui: [u8; 3]) -> Mad {
        let mut mad = Mad::padded(&[1, class, version, method]);
        mad.rest[13..16].copy_from_slice(&oui);
        mad
    }

    #[test]
    fn requests_go_to_who_registered_for_them() {
        let mut agents = Agents::default();
        let first = agents.register(Owner::User(1), VENDOR).unwrap();
        let second = Registration {
            oui: [1, 2, 3],
            methods: 3 << 1 | 1 << 127,
            ..VENDOR
        };
        let second = agents.register(Owner::User(2), second).unwrap();
        let find = |version, method, oui| agents.for_request(&request(0x32, version, method, oui));
        assert_eq!(find(1, 1, OPENIB_OUI), Some(first));
        assert_eq!(find(1, 2, OPENIB_OUI), None);
        assert_eq!(find(2, 1, OPENIB_OUI), None);
        assert_eq!(find(1, 127, [1, 2, 3]), Some(second));
        assert_eq!(find(1, 1, [3, 2, 1]), None);
    }

    #[test]
    fn a_method_has_one_agent() {
        let mut agents = Agents::default();
        let first = agents.register(Owner::User(1), VENDOR).unwrap();
        let both = Registration {
            methods: 0b110,
            ..VENDOR
        };
        assert_eq!(agents.register(Owner::User(1), both), Err(Error::Invalid));
        let other = Registration {
            methods: 0b100,
            ..VENDOR
        };
        let second = agents.register(Owner::User(2), other).unwrap();
        // The refused one has left nothing, and the first one's go with it.
        assert!(agents.remove(first).is_some() && agents.remove(first).is_none());
        assert_eq!(agents.register(Owner::User(1), both), Err(Error::Invalid));
        assert!(agents.remove(second).is_some());
        assert!(agents.register(Owner::User(1), both).is_ok());
    }

    #[test]
    fn the_port_itself_comes_last() {
        let mut agents = Agents::default();
        let own = agents.register(Owner::BuiltIn, VENDOR).unwrap();
        let mad = request(0x32, 1, 1, OPENIB_OUI);
        assert_eq!(agents.for_request(&mad), Some(own));
        let program = agents.register(Owner::User(1), VENDOR).unwrap();
        assert_eq!(agents.for_request(&mad), Some(program));
        agents.remove(program);
        assert_eq!(agents.for_request(&mad), Some(own));
    }

    #[test]
    fn answers_go_to_the_agent_in_their_transaction() {
        let mut agents = Agents::default();
        let id = agents.register(Owner::User(1), VENDOR).unwrap();
        let mut mad = request(4, 1, 0x81, [0; 3]);
        mad.header.tid = (u64::from(id.0) << 32 | 7).into();
        assert_eq!(agents.for_response(&mad), Some(id));
        mad.header.tid = (u64::from(id.0 + 1) << 32 | 7).into();
        assert_eq!(agents.for_response(&mad), None);
    }

    #[test]
    fn numbers_have_24_bits_and_are_not_used_again_at_once() {
        let mut agents = Agents {
            last: (1 << 24) - 2,
            ..Agents::default()
        };
        let methods = Registration {
            methods: 0,
            ..VENDOR
        };
        let mut register = || agents.register(Owner::User(1), methods).unwrap();
        assert_eq!([register(), register()], [AgentId(0xff_ffff), AgentId(1)]);
        assert!(agents.remove(AgentId(1)).is_some());
        assert_eq!(agents.register(Owner::User(1), methods), Ok(AgentId(2)));
    }
}
