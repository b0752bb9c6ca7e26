//! Sessions in one thread: connections that are cut after every store, and peers that tell what
//! cannot be.

use st_core::demo::{Cut, End, pair};
use st_core::queue::{Descriptor, Kind, Layout, QueueMemory};
use st_core::record::SessionState;
use st_core::reliable::{Data, Fault, Level, Options, Over, PushError, Session, Token, Wait};

const KEY: u64 = 0x5e55_10e0;
const OPTIONS: Options = Options {
    kept: 16,
    reconnect_timeout: 1000,
};

type End2 = Session<u64>;

fn layout() -> Layout {
    Layout::new(1, 8).unwrap()
}

fn message(number: u64) -> Descriptor {
    // Those of two slots too.
    let kinds = [Kind::Message, Kind::Header, Kind::HeaderWithPayload];
    Descriptor::new(kinds[number as usize % 3], &number.to_le_bytes())
}

fn number(descriptor: &Descriptor) -> u64 {
    u64::from_le_bytes(descriptor.bytes()[..8].try_into().unwrap())
}

/// A new connection of two ends that know each other.
fn join(client: &mut End2, server: &mut End2, now: u64) -> (End, End) {
    let to_server = client.connect(0, layout(), layout(), now).unwrap();
    let to_client = server.connect(0, layout(), layout(), now).unwrap();
    server.answer(to_server).unwrap();
    client.answer(to_client).unwrap();
    pair(layout(), layout())
}

fn begin() -> (End2, End2, (End, End)) {
    let mut client = Session::new(KEY, OPTIONS, 0);
    let state = client.connect(0, layout(), layout(), 0).unwrap();
    assert!(state.is_new);
    let mut server = Session::accept(state, OPTIONS, 0).unwrap();
    let answer = server.connect(0, layout(), layout(), 0).unwrap();
    server.answer(state).unwrap();
    client.answer(answer).unwrap();
    (client, server, pair(layout(), layout()))
}

fn push(session: &mut End2, value: u64) -> Token {
    session.push(message(value), Data::Nothing).unwrap()
}

/// Sends what can be sent; data is put nowhere.
fn advance(session: &mut End2, mem: &mut End) -> Result<usize, Fault<Cut>> {
    let advanced = session.advance(mem, |_, _| Ok::<(), ()>(()))?;
    Ok(advanced.sent)
}

#[test]
fn levels_are_reached_one_by_one() {
    let (mut client, mut server, (mut left, mut right)) = begin();
    let token = push(&mut client, 1);
    assert_eq!(client.status(&token), Some(Level::Local));
    let before = client.mark();
    assert_eq!(advance(&mut client, &mut left), Ok(1));
    client.delivered(before);
    assert_eq!(client.status(&token), Some(Level::Local));
    let mark = client.mark();
    client.delivered(mark);
    assert_eq!(client.status(&token), Some(Level::Delivered));
    // A receiver that waits for more asks to be woken.
    let until = Wait::Until(Some(50));
    assert_eq!(client.wait(&token, Level::Taken, 10, Some(50)), until);
    let places = u64::from(layout().places());
    assert_eq!(client.arm_taken(&mut left), Ok(places - 1));
    let (descriptor, wake) = server.receive(&mut right).unwrap().unwrap();
    assert_eq!((number(&descriptor), wake), (1, true));
    client.look(&left).unwrap();
    assert_eq!(
        client.wait(&token, Level::Taken, 60, Some(50)),
        Wait::Reached
    );
    assert_eq!(client.kept(), 0);
}

/// Two programs that answer each other and then wait until everything is taken: neither looks into
/// its queue again, so a return that is kept back would never come.
#[test]
fn what_a_program_has_taken_is_known_to_its_peer_although_it_takes_no_more() {
    let (mut client, mut server, (mut left, mut right)) = begin();
    push(&mut client, 1);
    advance(&mut client, &mut left).unwrap();
    push(&mut server, 2);
    advance(&mut server, &mut right).unwrap();
    assert!(client.receive(&mut left).unwrap().is_some());
    assert!(server.receive(&mut right).unwrap().is_some());
    client.arm_taken(&mut left).unwrap();
    server.arm_taken(&mut right).unwrap();
    assert_eq!((client.kept(), server.kept()), (0, 0));
}

#[test]
fn data_in_place_is_local_only_when_it_was_taken() {
    let (mut client, mut server, (mut left, mut right)) = begin();
    let token = client.push(message(0), Data::InPlace(7)).unwrap();
    let mut puts = Vec::new();
    let advanced = client.advance(&mut left, |_, data| {
        puts.push(*data);
        Ok::<(), ()>(())
    });
    assert_eq!((advanced.unwrap().sent, puts), (1, vec![7]));
    let mark = client.mark();
    client.delivered(mark);
    assert_eq!(client.status(&token), None);
    client.arm_taken(&mut left).unwrap();
    server.receive(&mut right).unwrap().unwrap();
    client.look(&left).unwrap();
    assert_eq!(client.status(&token), Some(Level::Taken));
}

#[test]
fn a_push_never_waits() {
    let (mut client, _, (mut left, _)) = begin();
    for value in 0..16 {
        push(&mut client, value);
        advance(&mut client, &mut left).unwrap();
    }
    let full = client.push(message(16), Data::Nothing);
    assert_eq!(full, Err(PushError::Full));
}

#[test]
fn data_that_cannot_be_put_holds_what_is_behind_it_until_it_is_cancelled() {
    let (mut client, mut server, (mut left, mut right)) = begin();
    push(&mut client, 0);
    let bad = client.push(message(1), Data::Copied(9)).unwrap();
    push(&mut client, 2);
    for sent in [1, 0] {
        let advanced = client.advance(&mut left, |_, _| Err("gone")).unwrap();
        assert_eq!((advanced.sent, advanced.held), (sent, Some((1, "gone"))));
    }
    assert_eq!(client.cancel(bad), Ok(Data::Copied(9)));
    assert_eq!(advance(&mut client, &mut left), Ok(1));
    for expected in [0, 2] {
        let (descriptor, _) = server.receive(&mut right).unwrap().unwrap();
        assert_eq!(number(&descriptor), expected);
    }
}

#[test]
fn what_was_sent_cannot_be_cancelled_until_the_peer_says_that_it_has_not_taken_it() {
    let (mut client, mut server, (mut left, _)) = begin();
    let token = push(&mut client, 0);
    advance(&mut client, &mut left).unwrap();
    let token = client.cancel(token).unwrap_err();
    client.lost(1);
    let token = client.cancel(token).unwrap_err();
    let (mut left, mut right) = join(&mut client, &mut server, 2);
    assert_eq!(client.cancel(token), Ok(Data::Nothing));
    push(&mut client, 1);
    advance(&mut client, &mut left).unwrap();
    let (descriptor, _) = server.receive(&mut right).unwrap().unwrap();
    assert_eq!(number(&descriptor), 1);
}

/// Each transfer arrives once and in order, and what is called taken was taken, after whatever
/// store each connection ends.
#[test]
fn connections_that_are_cut_after_every_store_lose_and_double_nothing() {
    for first_cut in 0..60 {
        for second_cut in [0, 1, 5, 13, 31] {
            let (mut client, mut server, ends) = begin();
            let mut ends = Some(ends);
            let (mut pushed, mut got) = (0, 0);
            let mut tokens: Vec<Token> = Vec::new();
            let mut cuts = vec![second_cut, first_cut];
            let mut cut_next = |ends: &(End, End)| {
                if let Some(stores) = cuts.pop() {
                    // Both directions, not at the same store.
                    ends.0.cut_after(stores);
                    ends.1.cut_after(stores / 2);
                }
            };
            cut_next(ends.as_ref().unwrap());
            for round in 0_u64.. {
                if pushed < 40 && client.kept() < OPTIONS.kept {
                    tokens.push(push(&mut client, pushed));
                    pushed += 1;
                }
                if ends.is_none() {
                    let joined = join(&mut client, &mut server, round);
                    cut_next(&joined);
                    ends = Some(joined);
                }
                let (left, right) = ends.as_mut().unwrap();
                let sent = advance(&mut client, left);
                let armed = client.arm_taken(left);
                while let Some((descriptor, _)) = server.receive(right).unwrap() {
                    assert_eq!(number(&descriptor), got);
                    got += 1;
                }
                let looked = client.look(left);
                for (at, token) in tokens.iter().enumerate() {
                    let is_taken = client.status(token) == Some(Level::Taken);
                    assert!(!is_taken || (at as u64) < got, "{at} was not taken");
                }
                let returned = server.arm(right);
                if sent.is_err() || armed.is_err() || looked.is_err() || returned.is_err() {
                    client.lost(round);
                    server.lost(round);
                    ends = None;
                }
                if got == 40 && client.kept() == 0 {
                    break;
                }
                assert!(round < 500, "cuts {first_cut}, {second_cut}: {got} arrived");
            }
        }
    }
}

#[test]
fn what_has_arrived_comes_first() {
    let (mut client, mut server, (mut left, mut right)) = begin();
    for value in 0..3 {
        push(&mut client, value);
    }
    advance(&mut client, &mut left).unwrap();
    server.receive(&mut right).unwrap().unwrap();
    left.cut_after(0);
    right.cut_after(0);
    server.lost(10);
    // One more while there is no connection: it counts when the next one begins.
    let (descriptor, _) = server.receive(&mut right).unwrap().unwrap();
    assert_eq!(number(&descriptor), 1);
    let (mut left, mut right) = join(&mut client, &mut server, 20);
    assert_eq!(client.kept(), 1);
    advance(&mut client, &mut left).unwrap();
    server.lost(30);
    server.expire(1030);
    // The session is over; what arrived is still there.
    let (descriptor, _) = server.receive(&mut right).unwrap().unwrap();
    assert_eq!(number(&descriptor), 2);
    assert_eq!(server.receive(&mut right), Err(Fault::Over(Over::Expired)));
}

#[test]
fn every_wait_ends() {
    let (mut client, _, (mut left, _)) = begin();
    let token = push(&mut client, 0);
    advance(&mut client, &mut left).unwrap();
    let wait =
        |session: &mut End2, now, deadline| session.wait(&token, Level::Taken, now, deadline);
    assert_eq!(wait(&mut client, 5, None), Wait::Until(None));
    assert_eq!(wait(&mut client, 5, Some(5)), Wait::TimedOut);
    client.lost(10);
    assert_eq!(client.expires(), Some(1010));
    assert_eq!(wait(&mut client, 11, None), Wait::Until(Some(1010)));
    assert_eq!(wait(&mut client, 11, Some(100)), Wait::Until(Some(100)));
    // A connection on which the peer says nothing counts for nothing.
    client.connect(0, layout(), layout(), 500).unwrap();
    assert_eq!(wait(&mut client, 1009, None), Wait::Until(Some(1010)));
    assert_eq!(wait(&mut client, 1010, None), Wait::Over(Over::Expired));
    assert_eq!(client.status(&token), Some(Level::Local));
    let late = client.push(message(1), Data::Nothing);
    assert_eq!(late, Err(PushError::Over(Over::Expired)));
    assert_eq!(
        client.connect(0, layout(), layout(), 1011),
        Err(Over::Expired)
    );
    assert_eq!(
        advance(&mut client, &mut left),
        Err(Fault::Over(Over::Expired))
    );
}

#[test]
fn quotes_that_cannot_be_end_the_session() {
    let state = |key, taken, is_new| SessionState { key, taken, is_new };
    for bad in [
        state(KEY + 1, 1, false),
        state(KEY, 0, false),
        state(KEY, 4, false),
        state(KEY, u64::MAX, false),
        state(KEY, 1, true),
    ] {
        let (mut client, mut server, (mut left, mut right)) = begin();
        // The peer has certainly taken the first, perhaps the second and third, and no fourth.
        for value in 0..4 {
            push(&mut client, value);
            if value < 3 {
                advance(&mut client, &mut left).unwrap();
            }
        }
        server.receive(&mut right).unwrap().unwrap();
        server.arm(&mut right).unwrap();
        assert!(server.receive(&mut right).unwrap().is_some());
        right.store_peer_long(0, 1).unwrap();
        client.look(&left).unwrap();
        client.lost(1);
        client.connect(0, layout(), layout(), 2).unwrap();
        assert_eq!(client.answer(bad), Err(Over::Broken), "{bad:?}");
        assert_eq!(client.answer(state(KEY, 1, false)), Err(Over::Broken));
        assert_eq!(client.over(), Some(Over::Broken));
    }
}

#[test]
fn an_end_that_begins_anew_does_not_know_the_session() {
    let (mut client, _, _) = begin();
    client.lost(1);
    let state = client.connect(0, layout(), layout(), 2).unwrap();
    assert!(!state.is_new);
    assert!(End2::accept(state, OPTIONS, 2).is_none());
    assert_eq!(client.refuse(), Over::Unknown);
    assert_eq!(client.over(), Some(Over::Unknown));
}

/// A quote that is read after the connection is known to be lost changes nothing; one on a
/// connection that is open already ends the session.
#[test]
fn a_quote_counts_once_for_a_connection() {
    let (mut client, mut server, _) = begin();
    push(&mut client, 0);
    let quote = server.connect(0, layout(), layout(), 1).unwrap();
    client.connect(0, layout(), layout(), 1).unwrap();
    client.lost(2);
    assert_eq!(client.answer(quote), Ok(()));
    assert!(!client.is_open());
    client.connect(0, layout(), layout(), 3).unwrap();
    assert_eq!(client.answer(quote), Ok(()));
    assert!(client.is_open());
    assert_eq!(client.answer(quote), Err(Over::Broken));
}

/// The first connection is cut before the server's answer arrives: the client still says that the
/// session is new, and the server, who knows it, goes on with it.
#[test]
fn a_session_begins_once_however_often_it_is_asked_for() {
    let mut client: End2 = Session::new(KEY, OPTIONS, 0);
    let state = client.connect(0, layout(), layout(), 0).unwrap();
    let mut server = End2::accept(state, OPTIONS, 0).unwrap();
    server.connect(0, layout(), layout(), 0).unwrap();
    server.answer(state).unwrap();
    // It may send before the client knows that the session has begun.
    let (_, mut right) = pair(layout(), layout());
    push(&mut server, 0);
    advance(&mut server, &mut right).unwrap();
    let (mut left, mut right) = join(&mut client, &mut server, 1);
    advance(&mut server, &mut right).unwrap();
    let (descriptor, _) = client.receive(&mut left).unwrap().unwrap();
    assert_eq!(number(&descriptor), 0);
    assert_eq!(client.receive(&mut left), Ok(None));
}
