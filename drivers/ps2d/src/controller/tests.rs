//! Set-up against a model of controller and keyboard, stricter than the real ones.

use super::*;
use std::collections::VecDeque;

/// A byte that waits to be read.
struct Byte {
    /// Milliseconds until it can be read.
    after_ms: u32,
    is_mouse: bool,
    value: u8,
}

/// A controller with a keyboard. It is strict: a byte that is written while it is busy, or read
/// before it is there, fails the test.
struct Model {
    present: bool,
    keyboard: bool,
    configuration: u8,
    keyboard_enabled: bool,
    mouse_enabled: bool,
    /// Whether the commands that turn a device on or off do not show in the configuration.
    forgets_commands: bool,
    scanning: bool,
    output: VecDeque<Byte>,
    /// Milliseconds until the last byte that was written is accepted.
    busy_ms: u32,
    expects_configuration: bool,
    /// An answer to a controller command in place of the right one, and how often; `None`: no
    /// answer.
    spoiled: Option<(u8, Option<u8>, usize)>,
    /// Milliseconds until the controller answers.
    answers_after_ms: u32,
    /// The bytes that the mouse sends before each answer.
    mouse_talks: Option<u8>,
    /// The bytes that the keyboard had sent when it got a command.
    held: Option<u8>,
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
            forgets_commands: false,
            scanning: true,
            output: VecDeque::from([0x1C, 0x9C].map(|value| Byte {
                after_ms: 0,
                is_mouse: false,
                value,
            })),
            busy_ms: 0,
            expects_configuration: false,
            spoiled: None,
            answers_after_ms: 1,
            mouse_talks: None,
            held: None,
            deaf: 0,
            forgets_in_test: false,
            waited_ms: 0,
        }
    }

    fn answer(&mut self, after_ms: u32, value: u8) {
        if let Some(value) = self.mouse_talks {
            self.output.push_back(Byte {
                after_ms: 0,
                is_mouse: true,
                value,
            });
        }
        self.output.push_back(Byte {
            after_ms,
            is_mouse: false,
            value,
        });
    }

    fn configure(&mut self, configuration: u8) {
        self.configuration = configuration;
        self.keyboard_enabled = configuration & KEYBOARD_OFF == 0;
        self.mouse_enabled = configuration & MOUSE_OFF == 0;
    }

    /// Executes a command that turns a device on or off by its bit in the configuration.
    fn switch(&mut self, bit: u8, off: bool) {
        let before = self.configuration;
        self.configure(if off { before | bit } else { before & !bit });
        if self.forgets_commands {
            self.configuration = before;
        }
    }

    fn command(&mut self, command: u8) {
        let right = match command {
            READ_CONFIGURATION => Some(self.configuration),
            WRITE_CONFIGURATION => {
                self.expects_configuration = true;
                None
            }
            DISABLE_MOUSE => {
                self.switch(MOUSE_OFF, true);
                None
            }
            DISABLE_KEYBOARD => {
                self.switch(KEYBOARD_OFF, true);
                None
            }
            ENABLE_KEYBOARD => {
                self.switch(KEYBOARD_OFF, false);
                None
            }
            TEST_CONTROLLER => {
                assert!(
                    !self.keyboard_enabled,
                    "a key would be taken for the result"
                );
                if self.forgets_in_test {
                    self.configure(0x47);
                }
                Some(CONTROLLER_GOOD)
            }
            other => panic!("no such command: {other:#x}"),
        };
        let after = self.answers_after_ms;
        match (&mut self.spoiled, right) {
            (Some((spoiled, answer, times)), Some(_)) if *spoiled == command && *times > 0 => {
                *times -= 1;
                answer.map(|byte| self.answer(after, byte));
            }
            (_, Some(byte)) => self.answer(after, byte),
            (_, None) => {}
        }
    }

    fn data(&mut self, byte: u8) {
        if std::mem::take(&mut self.expects_configuration) {
            self.configure(byte);
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
        if let Some(byte) = self.held.take() {
            self.answer(0, byte);
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
        let ready = self.output.front().filter(|byte| byte.after_ms == 0);
        match port {
            STATUS => {
                let mouse = ready.is_some_and(|byte| byte.is_mouse);
                u8::from(ready.is_some())
                    | u8::from(self.busy_ms > 0) << 1
                    | u8::from(mouse) << STATUS_MOUSE.trailing_zeros()
            }
            DATA => {
                assert!(ready.is_some(), "read before there was anything");
                self.output.pop_front().unwrap().value
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
        if let Some(byte) = self.output.front_mut() {
            byte.after_ms = byte.after_ms.saturating_sub(1);
        }
    }
}

/// Keyboard interrupt and translation on, mouse and its interrupt off.
const SET_UP: u8 = 0x65;

fn works_after(mut model: Model, self_test: SelfTest) {
    let state = State {
        self_test,
        keyboard: Keyboard::Works,
    };
    assert_eq!(set_up(&mut model), Ok(state));
    assert!(model.keyboard_enabled && model.scanning && !model.mouse_enabled);
    assert_eq!(model.configuration & !0x08, SET_UP);
    assert!(model.output.is_empty(), "nothing stale is left");
}

fn works(model: Model) {
    works_after(model, SelfTest::Passed);
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
        configuration: 0x1C,
        ..Model::new()
    });
    works(Model {
        forgets_commands: true,
        ..Model::new()
    });
}

#[test]
fn a_slow_controller_and_bytes_that_are_no_answers() {
    works(Model {
        answers_after_ms: 400,
        ..Model::new()
    });
    works(Model {
        held: Some(0x1C),
        ..Model::new()
    });
    // A movement that looks like an answer.
    works(Model {
        mouse_talks: Some(SAY_AGAIN),
        ..Model::new()
    });
}

#[test]
fn a_failed_self_test_is_told_and_the_keyboard_used() {
    let failing = |times| Model {
        spoiled: Some((TEST_CONTROLLER, Some(0xFC), times)),
        ..Model::new()
    };
    works_after(failing(SELF_TESTS - 1), SelfTest::Passed);
    works_after(failing(SELF_TESTS), SelfTest::Failed { answer: 0xFC });
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
    for (deaf, answer, text) in [
        (0, None, "no answer"),
        (ATTEMPTS, Some(SAY_AGAIN), "answered 0xfe"),
    ] {
        let mut model = Model {
            keyboard: deaf > 0,
            deaf,
            ..Model::new()
        };
        let odd = Keyboard::Odd {
            command: RESET,
            answer,
        };
        let state = set_up(&mut model).unwrap();
        assert_eq!(state.keyboard, odd);
        assert_eq!(model.configuration, SET_UP);
        assert!(model.waited_ms < 2000, "{} ms", model.waited_ms);
        let words = std::format!("{odd}");
        assert!(words.contains("0xff") && words.contains(text), "{words}");
    }
    // A keyboard that sends bytes without ever answering.
    let mut model = Model {
        held: Some(0x1C),
        keyboard: true,
        deaf: usize::MAX,
        ..Model::new()
    };
    assert_ne!(set_up(&mut model).unwrap().keyboard, Keyboard::Works);
}

#[test]
fn bad_controllers_are_named() {
    for command in [READ_CONFIGURATION, TEST_CONTROLLER] {
        let mut model = Model {
            spoiled: Some((command, None, usize::MAX)),
            ..Model::new()
        };
        let fault = Fault::Silent { command };
        assert_eq!(set_up(&mut model), Err(fault));
        assert!(std::format!("{fault}").contains(&std::format!("{command:#x}")));
    }
    // A controller that never accepts a byte.
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

#[test]
fn what_is_always_there_is_not_waited_for_for_ever() {
    // A port that always reads as a byte of the mouse, or of the keyboard.
    struct Flood(u8);
    impl Ports for Flood {
        fn read(&mut self, port: u16) -> u8 {
            if port == STATUS { self.0 } else { 0x1C }
        }
        fn write(&mut self, _: u16, _: u8) {}
        fn wait_ms(&mut self) {}
    }
    let silent = Fault::Silent {
        command: READ_CONFIGURATION,
    };
    let mouse = STATUS_OUTPUT_FULL | STATUS_MOUSE;
    assert_eq!(set_up(&mut Flood(mouse)), Err(silent));
    assert!(set_up(&mut Flood(STATUS_OUTPUT_FULL)).is_ok());
}
