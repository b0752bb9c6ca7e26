//! Set-up against a model of controller and keyboard, stricter than the real ones.

use super::*;
use std::collections::VecDeque;

/// A controller with a keyboard. Strict: a byte written while it is busy, or an answer overwritten
/// before it was read, fails the test.
struct Model {
    present: bool,
    keyboard: bool,
    configuration: u8,
    keyboard_enabled: bool,
    mouse_enabled: bool,
    scanning: bool,
    /// What waits to be read, with the milliseconds until it is there.
    output: VecDeque<(u32, u8)>,
    /// Milliseconds until the last byte is taken.
    busy_ms: u32,
    expects_configuration: bool,
    /// Answers to a controller command in place of the right one; `None`: no answer.
    spoiled: Option<(u8, Option<u8>)>,
    /// How often the keyboard asks to repeat.
    deaf: usize,
    forgets_in_test: bool,
    waited_ms: u32,
}

impl Model {
    fn new() -> Self {
        Model {
            present: true,
            keyboard: true,
            // As firmware leaves it: both interrupts on, translation on.
            configuration: 0x47,
            keyboard_enabled: true,
            mouse_enabled: true,
            scanning: true,
            output: VecDeque::from([(0, 0x1C), (0, 0x9C)]),
            busy_ms: 0,
            expects_configuration: false,
            spoiled: None,
            deaf: 0,
            forgets_in_test: false,
            waited_ms: 0,
        }
    }

    fn answer(&mut self, after_ms: u32, byte: u8) {
        self.output.push_back((after_ms, byte));
    }

    fn command(&mut self, command: u8) {
        let right = match command {
            READ_CONFIGURATION => Some(self.configuration),
            WRITE_CONFIGURATION => {
                self.expects_configuration = true;
                None
            }
            DISABLE_MOUSE => {
                self.mouse_enabled = false;
                None
            }
            DISABLE_KEYBOARD => {
                self.keyboard_enabled = false;
                None
            }
            ENABLE_KEYBOARD => {
                self.keyboard_enabled = true;
                None
            }
            TEST_CONTROLLER => {
                assert!(
                    !self.keyboard_enabled,
                    "a key would be taken for the result"
                );
                if self.forgets_in_test {
                    self.configuration = 0x47;
                }
                Some(CONTROLLER_GOOD)
            }
            TEST_KEYBOARD_PORT => Some(PORT_GOOD),
            other => panic!("no such command: {other:#x}"),
        };
        match (self.spoiled, right) {
            (Some((spoiled, answer)), Some(_)) if spoiled == command => {
                answer.into_iter().for_each(|byte| self.answer(1, byte));
            }
            (_, Some(byte)) => self.answer(1, byte),
            (_, None) => {}
        }
    }

    fn data(&mut self, byte: u8) {
        if std::mem::take(&mut self.expects_configuration) {
            self.configuration = byte;
            return;
        }
        assert!(self.keyboard_enabled, "the keyboard hears nothing");
        assert_eq!(
            self.configuration & KEYBOARD_INTERRUPT,
            0,
            "the kernel would take the answer"
        );
        if !self.keyboard {
            return;
        }
        if self.deaf > 0 {
            self.deaf -= 1;
            return self.answer(1, SAY_AGAIN);
        }
        match byte {
            RESET => {
                self.scanning = true;
                self.answer(1, ACKNOWLEDGED);
                self.answer(400, SELF_TEST_PASSED);
            }
            ENABLE_SCANNING => {
                self.scanning = true;
                self.answer(1, ACKNOWLEDGED);
            }
            other => panic!("no such keyboard command: {other:#x}"),
        }
    }
}

impl Ports for Model {
    fn read(&mut self, port: u16) -> u8 {
        if !self.present {
            return NOTHING;
        }
        let ready = self.output.front().is_some_and(|(after, _)| *after == 0);
        match port {
            STATUS => u8::from(ready) | u8::from(self.busy_ms > 0) << 1,
            DATA => {
                assert!(ready, "read before there was anything");
                self.output.pop_front().unwrap().1
            }
            other => panic!("no such port: {other:#x}"),
        }
    }

    fn write(&mut self, port: u16, value: u8) {
        assert!(self.present && self.busy_ms == 0, "written while busy");
        self.busy_ms = 2;
        match port {
            STATUS => self.command(value),
            DATA => self.data(value),
            other => panic!("no such port: {other:#x}"),
        }
    }

    fn wait_ms(&mut self) {
        self.waited_ms += 1;
        self.busy_ms = self.busy_ms.saturating_sub(1);
        if let Some((after, _)) = self.output.front_mut() {
            *after = after.saturating_sub(1);
        }
    }
}

fn works(mut model: Model) {
    assert_eq!(set_up(&mut model), Ok(Keyboard::Works));
    assert!(model.keyboard_enabled && model.scanning && !model.mouse_enabled);
    assert_eq!(
        model.configuration, 0x45,
        "keyboard interrupt and translation on, mouse interrupt off"
    );
    assert!(model.output.is_empty(), "nothing stale is left");
}

#[test]
fn a_usual_keyboard_is_set_up() {
    works(Model::new());
}

#[test]
fn a_controller_that_forgets_and_a_keyboard_that_asks_again() {
    works(Model {
        forgets_in_test: true,
        deaf: ATTEMPTS - 1,
        ..Model::new()
    });
    // Firmware that used neither interrupts nor translation, with the clock off.
    works(Model {
        configuration: 0x14,
        ..Model::new()
    });
}

#[test]
fn without_a_controller_nothing_is_written() {
    let mut model = Model {
        present: false,
        ..Model::new()
    };
    assert_eq!(set_up(&mut model), Err(Fault::NoController));
    let text = std::format!("{}", Fault::NoController);
    assert!(text.contains("0x64") && text.contains("0xff"), "{text}");
}

#[test]
fn a_missing_keyboard_is_told_and_may_come_later() {
    for (deaf, answer) in [(0, None), (ATTEMPTS, Some(SAY_AGAIN))] {
        let mut model = Model {
            keyboard: deaf > 0,
            deaf,
            ..Model::new()
        };
        let odd = Keyboard::Odd {
            command: RESET,
            answer,
        };
        assert_eq!(set_up(&mut model), Ok(odd));
        assert_eq!(model.configuration, 0x45);
        assert!(model.waited_ms < 2000, "{} ms", model.waited_ms);
    }
}

#[test]
fn bad_controllers_are_named() {
    for (command, answer, fault) in [
        (
            READ_CONFIGURATION,
            None,
            Fault::Silent {
                command: READ_CONFIGURATION,
            },
        ),
        (
            TEST_CONTROLLER,
            Some(0xFC),
            Fault::Test {
                command: TEST_CONTROLLER,
                answer: 0xFC,
            },
        ),
        (
            TEST_KEYBOARD_PORT,
            Some(3),
            Fault::Test {
                command: TEST_KEYBOARD_PORT,
                answer: 3,
            },
        ),
    ] {
        let mut model = Model {
            spoiled: Some((command, answer)),
            ..Model::new()
        };
        assert_eq!(set_up(&mut model), Err(fault));
        assert!(std::format!("{fault}").contains(&std::format!("{command:#x}")));
    }
    // One that never takes a byte.
    struct Stuck;
    impl Ports for Stuck {
        fn read(&mut self, _: u16) -> u8 {
            STATUS_INPUT_FULL
        }
        fn write(&mut self, _: u16, _: u8) {
            panic!("written while busy");
        }
        fn wait_ms(&mut self) {}
    }
    let fault = Fault::Silent {
        command: DISABLE_KEYBOARD,
    };
    assert_eq!(set_up(&mut Stuck), Err(fault));
}
