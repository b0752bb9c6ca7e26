//! Handles of objects in requests: where each command has the handle of the object it is about.

use core::mem::offset_of;

use crate::command::Command;
use crate::records::*;

/// A type of object that has handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the field")]
pub enum ObjectType {
    Pd,
    Ah,
    Mr,
    Mw,
    Cq,
    Qp,
    Srq,
    Xrcd,
}

/// The handle of an object in a request.
#[derive(Clone, Copy, Debug)]
pub struct Handle {
    /// The command.
    pub command: Command,
    /// The offset of the handle, which has four bytes, in the command's request.
    pub offset: usize,
    /// The type that the object must have.
    pub of: ObjectType,
}

macro_rules! handles {
    ($($command:ident $request:ident.$field:ident $of:ident,)*) => {
        [$(Handle {
            command: Command::$command,
            offset: offset_of!($request, $field),
            of: ObjectType::$of,
        },)*]
    };
}

/// The commands about one object, by number. A handle that no object has is `ENOENT`, one of an
/// object of another type `EINVAL`. CREATE_QP is not here: any wrong handle in it is `EINVAL`.
pub const HANDLES: [Handle; 27] = handles! {
    DeallocPd DeallocPd.pd_handle Pd,
    CreateAh CreateAh.pd_handle Pd,
    DestroyAh DestroyAh.ah_handle Ah,
    RegMr RegMr.pd_handle Pd,
    ReregMr ReregMr.mr_handle Mr,
    DeregMr DeregMr.mr_handle Mr,
    AllocMw AllocMw.pd_handle Pd,
    DeallocMw DeallocMw.mw_handle Mw,
    ResizeCq ResizeCq.cq_handle Cq,
    DestroyCq DestroyCq.cq_handle Cq,
    PollCq PollCq.cq_handle Cq,
    ReqNotifyCq ReqNotifyCq.cq_handle Cq,
    QueryQp QueryQp.qp_handle Qp,
    ModifyQp ModifyQp.qp_handle Qp,
    DestroyQp DestroyQp.qp_handle Qp,
    PostSend PostSend.qp_handle Qp,
    PostRecv PostRecv.handle Qp,
    AttachMcast Multicast.qp_handle Qp,
    DetachMcast Multicast.qp_handle Qp,
    CreateSrq CreateSrq.pd_handle Pd,
    ModifySrq ModifySrq.srq_handle Srq,
    QuerySrq QuerySrq.srq_handle Srq,
    DestroySrq DestroySrq.srq_handle Srq,
    PostSrqRecv PostRecv.handle Srq,
    CloseXrcd CloseXrcd.xrcd_handle Xrcd,
    CreateXsrq CreateXsrq.pd_handle Pd,
    OpenQp OpenQp.pd_handle Xrcd,
};
