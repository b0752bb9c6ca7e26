//! Messages to daemons, in the form in which they read them.

use ::syscall::schemev2::{Opcode, Sqe};

use crate::{object::deferred::Message, scheme::Caller};

/// A request with `args` as its first arguments; the rest is zero.
pub fn sqe(opcode: Opcode, args: &[u64], caller: Caller) -> Sqe {
    let mut sqe = Sqe {
        opcode: opcode as u8,
        caller: caller.pid as u64,
        ..Sqe::default()
    };
    for (place, arg) in sqe.args.iter_mut().zip(args) {
        *place = *arg;
    }
    sqe
}

/// A message as the daemon reads it.
pub fn sqe_of(message: &Message) -> Sqe {
    let nobody = Caller::default();
    match *message {
        Message::Close { number, .. } => sqe(Opcode::CloseMsg, &[number as u64], nobody),
        Message::Detach { number, pid, .. } => {
            sqe(Opcode::Detach, &[number as u64], Caller { pid, ..nobody })
        }
        Message::Request(sqe) => sqe,
    }
}

/// [`sqe`] with the caller's user and group in the last argument.
pub fn signed_sqe(opcode: Opcode, args: &[u64], caller: Caller) -> Sqe {
    let mut sqe = sqe(opcode, args, caller);
    if let Some(last) = sqe.args.last_mut() {
        *last = u64::from(caller.uid) | u64::from(caller.gid) << 32;
    }
    sqe
}
