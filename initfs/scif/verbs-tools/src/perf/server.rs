//! The serving role. It serves one client after another.

use alloc::format;

use scif::{Endpoint, Listener, Port};
use verbs::Context;

use super::end::{self, End};
use super::wire::{self, Kind, Order};
use super::{Context as _, Result};

/// Serves until a client stops it.
pub fn serve(port: Port) -> Result {
    let context = end::open()?;
    let listener = Listener::bind(port).context(&format!("port {port}"))?;
    loop {
        let (endpoint, peer) = listener.accept().context("accept")?;
        let order = wire::take_order(&endpoint);
        let served = match order {
            Ok(None) => return Ok(()),
            Ok(Some(order)) => attend(&context, &endpoint, &order),
            Err(failure) => Err(failure),
        };
        if let Err(failure) = served {
            runtime::eprintln!("ib-perf: a client on {peer}: {failure}");
        }
    }
}

fn attend(context: &Context, endpoint: &Endpoint, order: &Order) -> Result {
    let mut end = End::connect(context, endpoint, order)?;
    match order.kind {
        Kind::SendLat => {
            end.receive(order.depth as usize)?;
            wire::meet(endpoint)?;
            for _ in 0..order.rounds {
                end.receives.wait_all(1)?;
                end.receive(1)?;
                // The peer has answered the message before, so its completion is there.
                end.sends.take(order.depth as usize)?;
                end.send()?;
            }
        }
        Kind::WriteLat => {
            wire::meet(endpoint)?;
            for round in 1..=order.rounds {
                end.wait_for_mark(round as u8)?;
                end.write_mark(round as u8)?;
                end.sends.take(order.depth as usize)?;
            }
        }
        Kind::SendBw => {
            end.receive(order.depth as usize)?;
            wire::meet(endpoint)?;
            let mut left = order.rounds;
            while left > 0 {
                let count = end.receives.wait(order.depth as usize)?;
                left = left.saturating_sub(count as u64);
                end.receive(count)?;
            }
        }
        // Only the client posts requests.
        Kind::ReadLat | Kind::AtomicLat | Kind::WriteBw | Kind::ReadBw | Kind::AtomicRate => {
            wire::meet(endpoint)?;
        }
    }
    wire::meet(endpoint)
}
