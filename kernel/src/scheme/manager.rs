//! The scheme of scheme sockets: the capability to create schemes, and one socket for each
//! daemon's scheme, whose number is the id of that scheme.

use alloc::{string::String, sync::Arc, vec::Vec};

use ::syscall::{
    CallFlags, EventFlags, SchemeSocketCall,
    error::{EACCES, EAGAIN, EBADF, EINVAL, Error, Result},
};

use super::{
    Caller, FIRST_USER, MAX_SCHEMES, OpenResult, Scheme, SchemeId, USER_SCHEMES, user::UserScheme,
    user_scheme,
};
use crate::{
    mm::UserBuf,
    object::{Description, DescriptionState, InternalFlags},
    sched,
};

/// Number of the scheme creation capability.
pub const CAPABILITY: usize = 0;

const CREATE: &[u8] = b"create-scheme";

/// Bytes of `NewFdParams`.
const PARAMS_SIZE: usize = 32;

pub struct Manager;

fn socket(number: usize) -> Result<Arc<UserScheme>> {
    user_scheme(SchemeId(number)).ok_or(Error::new(EBADF))
}

/// Makes a scheme that the current context serves.
fn create() -> Result<OpenResult> {
    let space = sched::current_space()?;
    let mut schemes = USER_SCHEMES.lock();
    let start = schemes.next;
    let mut id = start;
    while schemes.list.contains_key(&SchemeId(id)) {
        id = if id + 1 < MAX_SCHEMES {
            id + 1
        } else {
            FIRST_USER
        };
        if id == start {
            return Err(Error::new(EAGAIN));
        }
    }
    schemes.next = if id + 1 < MAX_SCHEMES {
        id + 1
    } else {
        FIRST_USER
    };
    let scheme = Arc::new(UserScheme::new(SchemeId(id), &sched::current()));
    schemes.list.insert(SchemeId(id), scheme);
    drop(schemes);
    space.set_daemon();
    OpenResult::plain(id)
}

/// Makes a description of an object of the daemon's own scheme, from `NewFdParams`.
fn create_file(scheme: &UserScheme, params: UserBuf) -> Result<OpenResult> {
    let mut bytes = [0_u8; PARAMS_SIZE];
    params.read_exact(&mut bytes)?;
    let word = |index: usize| {
        let bytes = bytes
            .get(index * 8..)
            .and_then(|rest| rest.first_chunk::<8>());
        bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    };
    let internal = InternalFlags::from_extra(word(3) as u8)?;
    let state = DescriptionState {
        offset: word(0),
        flags: word(2) as u32,
        internal,
    };
    Ok(OpenResult::External(Arc::new(Description::new(
        scheme.id(),
        word(1) as usize,
        state,
    ))))
}

/// The socket call, and its request's tag.
fn socket_call(metadata: &[u64]) -> Result<(SchemeSocketCall, usize)> {
    let &[verb, tag] = metadata else {
        return Err(Error::new(EINVAL));
    };
    let verb = SchemeSocketCall::try_from_raw(verb as usize).ok_or(Error::new(EINVAL))?;
    Ok((verb, tag as usize))
}

impl Scheme for Manager {
    fn dup(&self, number: usize, name: UserBuf, caller: Caller) -> Result<OpenResult> {
        if number != CAPABILITY {
            return create_file(&*socket(number)?, name);
        }
        let mut bytes = [0_u8; CREATE.len()];
        if name.read(&mut bytes)? < CREATE.len() || bytes != *CREATE {
            return Err(Error::new(EINVAL));
        }
        if caller.uid != 0 {
            return Err(Error::new(EACCES));
        }
        create()
    }

    fn read_at(&self, number: usize, buf: UserBuf, _offset: u64, flags: u32) -> Result<usize> {
        socket(number)?.read_requests(buf, flags)
    }

    fn write(&self, number: usize, buf: UserBuf, _flags: u32) -> Result<usize> {
        socket(number)?.write_answers(buf)
    }

    fn send_files(
        &self,
        number: usize,
        files: Vec<Arc<Description>>,
        _flags: CallFlags,
        metadata: &[u64],
    ) -> Result<usize> {
        let scheme = socket(number)?;
        match socket_call(metadata)? {
            (SchemeSocketCall::MoveFd, tag) => scheme.move_files(tag, files),
            (SchemeSocketCall::ObtainFd, _) => Err(Error::new(EINVAL)),
        }
    }

    fn receive_files(
        &self,
        number: usize,
        payload: UserBuf,
        _flags: CallFlags,
        metadata: &[u64],
    ) -> Result<usize> {
        let scheme = socket(number)?;
        match socket_call(metadata)? {
            (SchemeSocketCall::ObtainFd, tag) => scheme.obtain_files(tag, payload),
            (SchemeSocketCall::MoveFd, _) => Err(Error::new(EINVAL)),
        }
    }

    fn path(&self, _number: usize) -> Result<String> {
        Ok(String::from("/scheme"))
    }

    fn fevent(&self, number: usize, flags: EventFlags) -> Result<EventFlags> {
        Ok(socket(number)?.ready() & flags)
    }

    fn fsync(&self, number: usize) -> Result<()> {
        socket(number).map(drop)
    }

    fn close(&self, number: usize) {
        if let Some(scheme) = user_scheme(SchemeId(number)) {
            scheme.shut_down();
        }
    }
}
