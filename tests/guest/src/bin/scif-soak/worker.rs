//! A worker: one random session after the other, until it is killed.

use guest_tests::pattern::Random;
use runtime::time::{Duration, sleep};
use scif::PortId;

use crate::sessions;
use crate::tally::{Kind, Trouble, report};
use crate::{FIRST_PORT, SERVERS};

/// Pause after a session that could not even begin, so that a node that is away is not asked all
/// the time.
const AWAY: Duration = Duration::from_millis(50);

/// Works for ever.
pub fn run(seed: u64) -> i32 {
    let mut random = Random::new(seed);
    loop {
        let Ok(nodes) = scif::nodes() else {
            sleep(AWAY);
            continue;
        };
        let pick = random.up_to(nodes.online.len() as u64) - 1;
        let Some(node) = nodes.online.get(pick as usize) else {
            sleep(AWAY);
            continue;
        };
        let port = FIRST_PORT + random.up_to(SERVERS.into()) as u16 - 1;
        let kind = Kind::ALL[random.up_to(Kind::ALL.len() as u64) as usize - 1];
        let result = sessions::run(kind, PortId::new(*node, port), &mut random);
        report(kind, &result);
        if matches!(result, Err(Trouble::Cut)) {
            sleep(AWAY);
        }
    }
}
