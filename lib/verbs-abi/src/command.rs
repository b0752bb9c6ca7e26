//! The numbers of commands.

/// A command of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
#[expect(
    missing_docs,
    reason = "the names are the documentation: those of Linux's header"
)]
pub enum Command {
    GetContext = 0,
    QueryDevice = 1,
    QueryPort = 2,
    AllocPd = 3,
    DeallocPd = 4,
    CreateAh = 5,
    ModifyAh = 6,
    QueryAh = 7,
    DestroyAh = 8,
    RegMr = 9,
    RegSmr = 10,
    ReregMr = 11,
    QueryMr = 12,
    DeregMr = 13,
    AllocMw = 14,
    BindMw = 15,
    DeallocMw = 16,
    CreateCompChannel = 17,
    CreateCq = 18,
    ResizeCq = 19,
    DestroyCq = 20,
    PollCq = 21,
    PeekCq = 22,
    ReqNotifyCq = 23,
    CreateQp = 24,
    QueryQp = 25,
    ModifyQp = 26,
    DestroyQp = 27,
    PostSend = 28,
    PostRecv = 29,
    AttachMcast = 30,
    DetachMcast = 31,
    CreateSrq = 32,
    ModifySrq = 33,
    QuerySrq = 34,
    DestroySrq = 35,
    PostSrqRecv = 36,
    OpenXrcd = 37,
    CloseXrcd = 38,
    CreateXsrq = 39,
    OpenQp = 40,
}

impl Command {
    /// All commands in the order of their numbers, which has no gap.
    pub const ALL: [Command; 41] = {
        use Command::*;
        [
            GetContext,
            QueryDevice,
            QueryPort,
            AllocPd,
            DeallocPd,
            CreateAh,
            ModifyAh,
            QueryAh,
            DestroyAh,
            RegMr,
            RegSmr,
            ReregMr,
            QueryMr,
            DeregMr,
            AllocMw,
            BindMw,
            DeallocMw,
            CreateCompChannel,
            CreateCq,
            ResizeCq,
            DestroyCq,
            PollCq,
            PeekCq,
            ReqNotifyCq,
            CreateQp,
            QueryQp,
            ModifyQp,
            DestroyQp,
            PostSend,
            PostRecv,
            AttachMcast,
            DetachMcast,
            CreateSrq,
            ModifySrq,
            QuerySrq,
            DestroySrq,
            PostSrqRecv,
            OpenXrcd,
            CloseXrcd,
            CreateXsrq,
            OpenQp,
        ]
    };

    /// The command with this number; `None`: there is none, or it exists only in the extended
    /// form, as those for flows, work queues and tables of receive sides do.
    pub fn from_number(number: u32) -> Option<Command> {
        Command::ALL.get(number as usize).copied()
    }

    /// Its number.
    pub const fn number(self) -> u32 {
        self as u32
    }
}

#[cfg(test)]
mod tests {
    use super::Command;

    #[test]
    fn numbers_name_commands() {
        for (number, command) in (0..).zip(Command::ALL) {
            assert_eq!(command.number(), number, "{command:?}");
            assert_eq!(Command::from_number(number), Some(command));
        }
        for number in [41, 50, 57, 255, u32::MAX] {
            assert_eq!(Command::from_number(number), None);
        }
        // Numbers that programs have as constants.
        let known = [
            (Command::RegMr, 9),
            (Command::CreateCompChannel, 17),
            (Command::CreateQp, 24),
            (Command::CreateSrq, 32),
            (Command::OpenQp, 40),
        ];
        assert!(
            known
                .iter()
                .all(|(command, number)| command.number() == *number)
        );
    }
}
