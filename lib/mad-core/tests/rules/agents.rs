//! Requests of `ioctl`.

use mad_core::demo::{World, sender, server};
use verbs_abi::mad::{RegisterAgent, RegisterAgent2, USER_RMPP, request};
use zerocopy::{FromBytes, IntoBytes};

use crate::{Row, row, said};

/// REGISTER_AGENT2 on a new descriptor.
fn second(world: &mut World, asked: RegisterAgent2) -> String {
    let at = world.open(1);
    said(world.register(at, asked))
}

/// REGISTER_AGENT on a new descriptor.
fn first(world: &mut World, asked: RegisterAgent) -> String {
    let at = world.open(1);
    let mut payload = asked.as_bytes().to_vec();
    said(world.control(at, request::REGISTER_AGENT, &mut payload))
}

fn old(qpn: u8, class: u8, version: u8) -> RegisterAgent {
    RegisterAgent {
        qpn,
        mgmt_class: class,
        mgmt_class_version: version,
        ..RegisterAgent::default()
    }
}

/// Two agents of two nodes' programs, or of one.
fn both(world: &mut World, asked: [RegisterAgent2; 2]) -> String {
    let (one, other) = (world.open(1), world.open(1));
    assert_eq!(world.register(one, asked[0]), Ok(0));
    said(world.register(other, asked[1]))
}

/// An agent for requests with method 127.
const HIGHEST_METHOD: RegisterAgent2 = RegisterAgent2 {
    id: 0,
    qpn: 1,
    mgmt_class: 0x32,
    mgmt_class_version: 1,
    res: 0,
    flags: 0,
    method_mask: [0, 1 << 63],
    oui: 0x001405,
    rmpp_version: 0,
    reserved: [0; 3],
};

pub const ROWS: &[Row] = &[
    row(
        "queue pairs 0 and 1 of each node: every port has both, so that nothing is EPROTONOSUPPORT",
        "ok ok, ok ok, ok ok",
        |world| {
            let mut both = |node| {
                let files = [world.open(node), world.open(node)];
                let asked = [sender(0, 1, 1, 0), sender(1, 4, 1, 0)];
                let said = [0, 1].map(|at| said(world.register(files[at], asked[at])));
                said.join(" ")
            };
            [0, 1, 2].map(&mut both).join(", ")
        },
    ),
    row("queue pair 0 for class 1", "ok", |world| {
        second(world, sender(0, 1, 1, 0))
    }),
    row("queue pair 0 for class 0x81", "ok", |world| {
        second(world, sender(0, 0x81, 1, 0))
    }),
    row("queue pair 1 for class 1", "EINVAL", |world| {
        second(world, sender(1, 1, 1, 0))
    }),
    row("queue pair 1 for class 0x81", "EINVAL", |world| {
        second(world, sender(1, 0x81, 1, 0))
    }),
    row("queue pair 0 for class 3", "EINVAL", |world| {
        second(world, sender(0, 3, 2, 0))
    }),
    row("queue pair 2", "EINVAL", |world| {
        second(world, sender(2, 4, 1, 0))
    }),
    row("queue pair 256 + 1", "EINVAL", |world| {
        second(world, sender(257, 4, 1, 0))
    }),
    row("class 0: an agent that only sends", "ok", |world| {
        second(world, sender(1, 0, 0, 0))
    }),
    row("class 0 on queue pair 0", "ok", |world| {
        second(world, sender(0, 0, 0, 0))
    }),
    row("class 79, a vendor's with an organisation", "ok", |world| {
        second(world, server(79))
    }),
    row("class 80", "EINVAL", |world| {
        second(world, sender(1, 80, 1, 0))
    }),
    row("class 0x80", "EINVAL", |world| {
        second(world, sender(1, 0x80, 1, 0))
    }),
    row("version 0x82", "ok", |world| {
        second(world, sender(1, 4, 0x82, 0))
    }),
    row("version 0x83", "EINVAL", |world| {
        second(world, sender(1, 4, 0x83, 0))
    }),
    row("class 0x30 without an organisation", "EINVAL", |world| {
        second(world, sender(1, 0x30, 1, 0))
    }),
    row("an organisation of more than 24 bits", "EINVAL", |world| {
        second(
            world,
            RegisterAgent2 {
                oui: 1 << 24,
                ..server(0x30)
            },
        )
    }),
    row(
        "RMPP version 1 of the classes 3, 6, 0x10, 0x12, 0x30",
        "ok ok ok ok ok",
        |world| {
            let classes = [3, 6, 0x10, 0x12].map(|class| second(world, sender(1, class, 1, 1)));
            let vendor = second(world, server(0x30));
            classes
                .into_iter()
                .chain([vendor])
                .collect::<Vec<_>>()
                .join(" ")
        },
    ),
    row(
        "RMPP version 1 of the classes 4, 5, 7, 0x11",
        "EINVAL EINVAL EINVAL EINVAL",
        |world| {
            [4, 5, 7, 0x11]
                .map(|class| second(world, sender(1, class, 1, 1)))
                .join(" ")
        },
    ),
    row("RMPP version 2", "EINVAL", |world| {
        second(world, sender(1, 3, 2, 2))
    }),
    row("USER_RMPP with a class", "ok", |world| {
        second(
            world,
            RegisterAgent2 {
                flags: USER_RMPP,
                rmpp_version: 0,
                ..server(0x4f)
            },
        )
    }),
    row("USER_RMPP without a class", "EINVAL", |world| {
        second(
            world,
            RegisterAgent2 {
                flags: USER_RMPP,
                ..sender(1, 0, 0, 0)
            },
        )
    }),
    row(
        "an unknown flag; what `flags` is then",
        "EINVAL, 1",
        |world| {
            let at = world.open(1);
            let asked = RegisterAgent2 {
                flags: 6,
                ..server(0x30)
            };
            let mut payload = asked.as_bytes().to_vec();
            let said = said(world.control(at, request::REGISTER_AGENT2, &mut payload));
            let flags = RegisterAgent2::read_from_bytes(&payload).map(|of| of.flags);
            format!("{said}, {}", flags.unwrap_or_default())
        },
    ),
    row(
        "a method that belongs to another agent",
        "EINVAL",
        |world| both(world, [server(0x32), server(0x32)]),
    ),
    row("the same method of another organisation", "ok", |world| {
        both(
            world,
            [
                server(0x32),
                RegisterAgent2 {
                    oui: 7,
                    ..server(0x32)
                },
            ],
        )
    }),
    row("the same method of another version", "ok", |world| {
        both(
            world,
            [
                server(0x32),
                RegisterAgent2 {
                    mgmt_class_version: 2,
                    ..server(0x32)
                },
            ],
        )
    }),
    row("another method of the same class", "ok", |world| {
        both(
            world,
            [
                server(0x32),
                RegisterAgent2 {
                    method_mask: [1 << 2, 0],
                    ..server(0x32)
                },
            ],
        )
    }),
    row("method 127, the last one", "ok", |world| {
        second(world, HIGHEST_METHOD)
    }),
    row("method 127 when another agent has it", "EINVAL", |world| {
        both(world, [HIGHEST_METHOD, HIGHEST_METHOD])
    }),
    row(
        "the method of an agent that was unregistered",
        "ok",
        |world| {
            let at = world.program(1, server(0x32));
            let mut id = 0_u32.to_ne_bytes();
            assert_eq!(
                world.control(at, request::UNREGISTER_AGENT, &mut id),
                Ok(())
            );
            second(world, server(0x32))
        },
    ),
    row(
        "the method of an agent whose file was closed",
        "ok",
        |world| {
            let at = world.program(1, server(0x32));
            world.nodes[1].close(at.1);
            second(world, server(0x32))
        },
    ),
    row(
        "32 agents of a file; one more",
        "0 to 31; ENOMEM",
        |world| {
            let at = world.open(1);
            for number in 0..32 {
                assert_eq!(world.register(at, sender(1, 0, 0, 0)), Ok(number));
            }
            format!("0 to 31; {}", said(world.register(at, sender(1, 0, 0, 0))))
        },
    ),
    row(
        "the number of an agent that was unregistered is given again",
        "1",
        |world| {
            let at = world.open(1);
            for _ in 0..3 {
                assert!(world.register(at, sender(1, 0, 0, 0)).is_ok());
            }
            let mut id = 1_u32.to_ne_bytes();
            assert_eq!(
                world.control(at, request::UNREGISTER_AGENT, &mut id),
                Ok(())
            );
            world
                .register(at, sender(1, 0, 0, 0))
                .map_or_else(|_| "-".into(), |id| id.to_string())
        },
    ),
    row(
        "UNREGISTER_AGENT of numbers 0 and 0x1234 without agents",
        "EINVAL EINVAL",
        |world| {
            let at = world.open(1);
            let mut say =
                |id: u32| said(world.control(at, request::UNREGISTER_AGENT, &mut id.to_ne_bytes()));
            format!("{} {}", say(0), say(0x1234))
        },
    ),
    row("REGISTER_AGENT for class 4", "ok", |world| {
        first(world, old(1, 4, 1))
    }),
    row(
        "REGISTER_AGENT for class 1 on queue pair 1",
        "EINVAL",
        |world| first(world, old(1, 1, 1)),
    ),
    row("REGISTER_AGENT with method 33 twice", "EINVAL", |world| {
        let asked = RegisterAgent {
            method_mask: [0, 2, 0, 0],
            ..old(1, 4, 1)
        };
        assert_eq!(first(world, asked), "ok");
        first(world, asked)
    }),
    row("a structure that is a byte short", "EINVAL", |world| {
        let at = world.open(1);
        let mut payload = server(0x30).as_bytes()[..39].to_vec();
        said(world.control(at, request::REGISTER_AGENT2, &mut payload))
    }),
    row("an unknown request", "ENOTTY", |world| {
        let at = world.open(1);
        said(world.control(at, 0x1b05, &mut []))
    }),
    row(
        "bytes of the header: at first, after ENABLE_PKEY, after REGISTER_AGENT2",
        "56 64 64",
        |world| {
            let files = [world.open(1), world.open(1), world.open(1)];
            assert_eq!(
                world.control(files[1], request::ENABLE_PKEY, &mut []),
                Ok(())
            );
            assert_eq!(world.register(files[2], server(0x30)), Ok(0));
            let bytes = files.map(|at| {
                let of = world.nodes[1].descriptor(at.1);
                of.map_or(0, |of| of.header_bytes()).to_string()
            });
            bytes.join(" ")
        },
    ),
    row(
        "ENABLE_PKEY twice, then behind an agent",
        "ok ok EINVAL",
        |world| {
            let at = world.open(1);
            let enable = |world: &mut World| said(world.control(at, request::ENABLE_PKEY, &mut []));
            let [one, two] = [enable(world), enable(world)];
            assert_eq!(world.register(at, server(0x30)), Ok(0));
            format!("{one} {two} {}", enable(world))
        },
    ),
];
