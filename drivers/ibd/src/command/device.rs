//! The commands about the context itself, the device and its port.

use syscall::error::{EINVAL, Result};
use verbs_abi::records::{GetContextAnswer, QueryDeviceEx, QueryDeviceExtension, QueryPort};

use super::Call;
use crate::error::fail;
use crate::identity::{self, COMPLETION_VECTORS, PORT};

/// Stands for a descriptor, since the daemon cannot make one in the program.
const NO_DESCRIPTOR: u32 = u32::MAX;

/// The program gets the descriptor of asynchronous events by `dup`. A second GET_CONTEXT is
/// `EINVAL`.
pub fn get_context(call: &mut Call<'_>) -> Result<()> {
    call.context.is_begun = true;
    call.answer(&GetContextAnswer {
        async_fd: NO_DESCRIPTOR,
        num_comp_vectors: COMPLETION_VECTORS,
    });
    Ok(())
}

pub fn query_device(call: &mut Call<'_>) -> Result<()> {
    call.answer(&identity::device(call.shared.node));
    Ok(())
}

/// `EINVAL`: fields that must be 0 are not.
pub fn query_device_ex(call: &mut Call<'_>) -> Result<()> {
    let request: QueryDeviceEx = call.request()?;
    call.refuse_more::<QueryDeviceEx>()?;
    if request.comp_mask != 0 || request.reserved != 0 {
        return fail(EINVAL);
    }
    let device = identity::device(call.shared.node);
    call.answer(&device);
    let whole = size_of_val(&device) + size_of::<QueryDeviceExtension>();
    call.answer(&QueryDeviceExtension {
        response_length: whole.min(call.frame.room()) as u32,
        device_cap_flags_ex: device.device_cap_flags.into(),
        ..QueryDeviceExtension::default()
    });
    Ok(())
}

/// `EINVAL`: there is no such port.
pub fn query_port(call: &mut Call<'_>) -> Result<()> {
    let request: QueryPort = call.request()?;
    if request.port_num != PORT {
        return fail(EINVAL);
    }
    call.answer(&identity::port(call.shared.node, call.shared.port));
    Ok(())
}
