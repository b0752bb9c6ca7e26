//! The PS/2 controller (Intel 8042, or what a PC has in its place): sets it up so that the
//! keyboard interrupts with scan codes of set 1.
//!
//! The registers are those of the IBM PS/2 Hardware Interface Technical Reference, "Keyboard and
//! Auxiliary Device Controller": data at port 0x60; at port 0x64 status when read, commands when
//! written. During set-up all interrupts of the controller are off and answers are polled for;
//! afterwards the kernel takes the bytes (scheme `serio`).

use core::fmt;

/// Port for data to and from the controller and its devices.
pub const DATA: u16 = 0x60;
/// Port for status when read, for commands when written.
pub const STATUS: u16 = 0x64;

/// Status: a byte waits in `DATA`.
pub const STATUS_OUTPUT_FULL: u8 = 1 << 0;
/// Status: the controller has not taken the last byte yet.
pub const STATUS_INPUT_FULL: u8 = 1 << 1;
/// Status: the byte in `DATA` comes from the mouse.
pub const STATUS_MOUSE: u8 = 1 << 5;
/// The value that reads of a port without a controller return.
pub const NOTHING: u8 = 0xFF;

/// Controller commands.
const READ_CONFIGURATION: u8 = 0x20;
const WRITE_CONFIGURATION: u8 = 0x60;
const DISABLE_MOUSE: u8 = 0xA7;
const TEST_CONTROLLER: u8 = 0xAA;
const DISABLE_KEYBOARD: u8 = 0xAD;
const ENABLE_KEYBOARD: u8 = 0xAE;
/// The answer to `TEST_CONTROLLER` if the test passed.
const CONTROLLER_GOOD: u8 = 0x55;

/// Configuration: the keyboard interrupts.
const KEYBOARD_INTERRUPT: u8 = 1 << 0;
/// Configuration: the mouse interrupts.
const MOUSE_INTERRUPT: u8 = 1 << 1;
/// Configuration: the keyboard's clock is off.
const KEYBOARD_OFF: u8 = 1 << 4;
/// Configuration: the mouse's clock is off.
const MOUSE_OFF: u8 = 1 << 5;
/// Configuration: the controller translates scan codes of set 2 to those of set 1.
const TRANSLATE: u8 = 1 << 6;

/// Keyboard commands and answers.
const RESET: u8 = 0xFF;
const ENABLE_SCANNING: u8 = 0xF4;
const ACKNOWLEDGED: u8 = 0xFA;
const SAY_AGAIN: u8 = 0xFE;
const SELF_TEST_PASSED: u8 = 0xAA;

/// Most bytes from before the set-up to throw away.
const STALE: usize = 64;
/// How often to send a command to a keyboard that asks for it again.
const ATTEMPTS: usize = 3;
/// Most scan codes that may arrive before the answer to a command.
const UNDER_WAY: usize = 8;
/// How often a controller must fail its self-test before the failure counts, and the pause between
/// two tests in milliseconds.
const SELF_TESTS: usize = 5;
const BETWEEN_SELF_TESTS_MS: u32 = 50;

/// Longest times for answers, in milliseconds: the controller's (firmware that emulates a PS/2
/// keyboard with a USB one needs more than a controller usually does), a keyboard's, and a
/// keyboard's after its self-test.
const CONTROLLER_MS: u32 = 500;
const KEYBOARD_MS: u32 = 200;
const SELF_TEST_MS: u32 = 1000;

/// The controller's two ports, and a way to wait.
pub trait Ports {
    /// Reads `DATA` or `STATUS`.
    fn read(&mut self, port: u16) -> u8;
    /// Writes `DATA` or `STATUS`.
    fn write(&mut self, port: u16, value: u8);
    /// Lets a millisecond pass.
    fn wait_ms(&mut self);
}

/// A fault of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Status reads as all ones, so there is no controller.
    NoController,
    /// The controller does not accept a byte, or does not answer a command.
    Silent {
        /// The command.
        command: u8,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::NoController => write!(
                f,
                "no PS/2 controller: port {STATUS:#x} reads {NOTHING:#x}. A USB keyboard needs \
                 its emulation in the firmware's settings (\"legacy USB\"); the serial port works \
                 without"
            ),
            Fault::Silent { command } => write!(
                f,
                "the PS/2 controller gave no answer to command {command:#x} at port {STATUS:#x}"
            ),
        }
    }
}

/// The result of the set-up: the state of the controller and of its keyboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The result of the controller's own test.
    pub self_test: SelfTest,
    /// The keyboard's answer to its set-up.
    pub keyboard: Keyboard,
}

/// The result of the controller's self-test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelfTest {
    /// The test passed.
    Passed,
    /// The test failed. The firmware of many PCs reports this although the keyboard works.
    Failed {
        /// The controller's answer.
        answer: u8,
    },
}

impl fmt::Display for SelfTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SelfTest::Passed => write!(f, "the PS/2 controller passed its self-test"),
            SelfTest::Failed { answer } => write!(
                f,
                "the PS/2 controller failed its self-test, command {TEST_CONTROLLER:#x}: it \
                 answered {answer:#x} at port {DATA:#x}"
            ),
        }
    }
}

/// The keyboard's answer to its set-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keyboard {
    /// The keyboard works.
    Works,
    /// It gave no answer, or this one, to a command. A keyboard that is plugged in later works all
    /// the same.
    Odd {
        /// The command.
        command: u8,
        /// Its answer.
        answer: Option<u8>,
    },
}

impl fmt::Display for Keyboard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Keyboard::Works => write!(f, "it works"),
            Keyboard::Odd {
                command,
                answer: Some(answer),
            } => write!(f, "to command {command:#x} it answered {answer:#x}"),
            Keyboard::Odd {
                command,
                answer: None,
            } => write!(f, "to command {command:#x} there was no answer"),
        }
    }
}

/// Sets up controller and keyboard. From then on the keyboard interrupts.
///
/// # Errors
/// The fault of the controller, in which case no keyboard can be used.
pub fn set_up(ports: &mut impl Ports) -> Result<State, Fault> {
    if ports.read(STATUS) == NOTHING {
        return Err(Fault::NoController);
    }
    command(ports, DISABLE_KEYBOARD)?;
    command(ports, DISABLE_MOUSE)?;
    flush(ports);

    // Sets both off-bits, because not every controller shows in its configuration that its devices
    // were just turned off. The mouse stays off: nothing reads its bytes, and one of them would
    // block those of the keyboard.
    let off = KEYBOARD_OFF | MOUSE_OFF;
    let interrupts = KEYBOARD_INTERRUPT | MOUSE_INTERRUPT;
    let quiet = (ask(ports, READ_CONFIGURATION)? | off) & !interrupts;
    configure(ports, quiet)?;
    let self_test = test(ports)?;
    // Some controllers lose their configuration in the test.
    configure(ports, quiet)?;

    command(ports, ENABLE_KEYBOARD)?;
    let keyboard = wake_keyboard(ports);
    flush(ports);
    let on = (quiet | KEYBOARD_INTERRUPT | TRANSLATE) & !KEYBOARD_OFF;
    configure(ports, on)?;
    Ok(State {
        self_test,
        keyboard,
    })
}

/// Has the controller test itself. Some controllers need several attempts.
fn test(ports: &mut impl Ports) -> Result<SelfTest, Fault> {
    let mut answer = 0;
    for _ in 0..SELF_TESTS {
        answer = ask(ports, TEST_CONTROLLER)?;
        if answer == CONTROLLER_GOOD {
            return Ok(SelfTest::Passed);
        }
        (0..BETWEEN_SELF_TESTS_MS).for_each(|_| ports.wait_ms());
    }
    Ok(SelfTest::Failed { answer })
}

/// Resets the keyboard and enables its scan codes.
fn wake_keyboard(ports: &mut impl Ports) -> Keyboard {
    let odd = |command, answer| Keyboard::Odd { command, answer };
    match tell(ports, RESET) {
        Some(ACKNOWLEDGED) => match answer(ports, SELF_TEST_MS) {
            Some(SELF_TEST_PASSED) => {}
            other => return odd(RESET, other),
        },
        other => return odd(RESET, other),
    }
    match tell(ports, ENABLE_SCANNING) {
        Some(ACKNOWLEDGED) => Keyboard::Works,
        other => odd(ENABLE_SCANNING, other),
    }
}

/// Sends the keyboard a command and returns its answer.
fn tell(ports: &mut impl Ports, command: u8) -> Option<u8> {
    let mut said = None;
    for _ in 0..ATTEMPTS {
        if !takes(ports) {
            return None;
        }
        ports.write(DATA, command);
        // Codes of a key that is pressed just now come before the answer.
        for _ in 0..=UNDER_WAY {
            said = answer(ports, KEYBOARD_MS);
            if matches!(said, None | Some(ACKNOWLEDGED | SAY_AGAIN)) {
                break;
            }
        }
        if said != Some(SAY_AGAIN) {
            break;
        }
    }
    said
}

/// Throws away bytes from before the set-up.
fn flush(ports: &mut impl Ports) {
    for _ in 0..STALE {
        if ports.read(STATUS) & STATUS_OUTPUT_FULL == 0 {
            return;
        }
        ports.read(DATA);
    }
}

/// Waits until the controller accepts a byte. Returns whether it does.
fn takes(ports: &mut impl Ports) -> bool {
    for _ in 0..CONTROLLER_MS {
        if ports.read(STATUS) & STATUS_INPUT_FULL == 0 {
            return true;
        }
        ports.wait_ms();
    }
    false
}

/// Waits for a byte that is not from the mouse.
fn answer(ports: &mut impl Ports, limit_ms: u32) -> Option<u8> {
    for _ in 0..limit_ms {
        let status = ports.read(STATUS);
        if status & STATUS_OUTPUT_FULL == 0 {
            ports.wait_ms();
            continue;
        }
        let byte = ports.read(DATA);
        if status & STATUS_MOUSE == 0 {
            return Some(byte);
        }
    }
    None
}

fn command(ports: &mut impl Ports, command: u8) -> Result<(), Fault> {
    if !takes(ports) {
        return Err(Fault::Silent { command });
    }
    ports.write(STATUS, command);
    Ok(())
}

fn ask(ports: &mut impl Ports, name: u8) -> Result<u8, Fault> {
    command(ports, name)?;
    answer(ports, CONTROLLER_MS).ok_or(Fault::Silent { command: name })
}

fn configure(ports: &mut impl Ports, configuration: u8) -> Result<(), Fault> {
    command(ports, WRITE_CONFIGURATION)?;
    if !takes(ports) {
        return Err(Fault::Silent {
            command: WRITE_CONFIGURATION,
        });
    }
    ports.write(DATA, configuration);
    Ok(())
}

#[cfg(test)]
mod tests;
