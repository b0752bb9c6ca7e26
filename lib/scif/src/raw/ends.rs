//! Accepting connections, and ending endpoints.

use hal::kernel::ends_abandoned_requests;
use scif_abi::PortId;
use scif_abi::call::{AcceptRecord, Call};
use scif_abi::flags::AcceptFlags;
use syscall::error::{EBADF, EINTR, EINVAL, ENODEV, ENOTTY};
use zerocopy::IntoBytes;

use super::{Result, companion, hidden, local, number, peer, pieces, plain, with_payload};

/// The name of an endpoint's object by which a program waits until no transfer is under way.
const END: &[u8] = b"end";

/// `scif_close`: closes the descriptor. If it was the endpoint's last one, the endpoint ends, and
/// this call returns when every transfer through either end of the connection has ended. What is
/// stored in own memory afterwards is sent nowhere, and no transfer of the peer stores there.
/// Mappings of the peer's windows stay valid, and so do those that the peer has.
///
/// The call waits at most 30 s for a peer that does not answer ([`ANSWER_TIMEOUT_NS`]), and not at
/// all for a node that is lost; it succeeds in both cases. A program that cannot open another
/// descriptor does not wait.
///
/// [`ANSWER_TIMEOUT_NS`]: scif_abi::limits::ANSWER_TIMEOUT_NS
///
/// # Errors
/// `EBADF`; `ENOTTY` for a file that is no endpoint, which stays open.
pub fn close(epd: usize) -> Result<()> {
    let end = match hidden(epd, END) {
        Ok(end) => Some(end),
        // The endpoint was shut down, or the descriptor is not open.
        Err(EBADF) => None,
        Err(error) => match local(epd) {
            // There is no room for another descriptor, or no daemon to ask.
            Ok(_) | Err(ENODEV) => None,
            Err(EBADF) => return Err(EBADF),
            Err(_) if error == ENODEV => None,
            Err(_) => return Err(ENOTTY),
        },
    };
    libredox::call::close(epd).map_err(number)?;
    if let Some(end) = end {
        // Even an interrupted caller must know when its memory is its own again.
        while plain(end.raw(), Call::Shutdown) == Err(EINTR) {}
    }
    Ok(())
}

/// Ends the endpoint as closing its last descriptor would, though descriptors may be left, and
/// waits as [`close`] does. The peer learns of the end when no program of this node has the
/// connection's rings mapped any more. To end the peer's receives at once call [`finish`] before.
///
/// # Errors
/// `EBADF`.
pub fn shutdown(epd: usize) -> Result<()> {
    plain(epd, Call::Shutdown).map(|_| ())
}

/// Ends the stream of bytes to the peer; the other direction goes on. See [`Call::Finish`].
///
/// # Errors
/// `EOPNOTSUPP`: the peer's node has no message for it; `EBADF`, `ECONNRESET`, `ENOTCONN`.
pub fn finish(epd: usize) -> Result<()> {
    plain(epd, Call::Finish).map(|_| ())
}

/// Ends the stream of bytes from the peer, for this node's programs. Receives, also those that
/// wait, return the bytes that have arrived, then `ECONNRESET`. See [`Call::FinishReceiving`].
///
/// # Errors
/// `EBADF`, `ECONNRESET`, `ENOTCONN`.
pub fn finish_receiving(epd: usize) -> Result<()> {
    plain(epd, Call::FinishReceiving).map(|_| ())
}

/// `scif_accept`. Returns the new endpoint's descriptor and the peer.
///
/// # Errors
/// `EAGAIN`, `EINTR`, `EINVAL`, `EMFILE`, `ENODEV`, `ENOMEM`.
pub fn accept(epd: usize, flags: u32) -> Result<(usize, PortId)> {
    // One call does both: there is no moment in which a connection is accepted and has no owner.
    let new = match AcceptFlags::from_bits(flags) {
        Some(flags) if !flags.contains(AcceptFlags::SYNC) => companion(epd, b"accept-now")?,
        Some(_) if ends_abandoned_requests() => companion(epd, b"accept-wait")?,
        Some(_) => pieces::accept(epd)?,
        None => return refused_accept(epd, flags),
    };
    let from = peer(new.raw())?;
    Ok((new.into_raw(), from))
}

/// Asks the daemon for its error for an accept with unknown flags.
fn refused_accept<T>(epd: usize, flags: u32) -> Result<T> {
    let mut record = AcceptRecord::default();
    let request = Call::AcceptRequest { flags, record };
    with_payload(epd, request, record.as_mut_bytes())?;
    Err(EINVAL)
}
