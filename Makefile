# Every target is the command of that name of `cargo xtask`, the one tool behind this file.
# Settings follow the target: make run NODES=3 SCRIPT=hello.sh

COMMANDS := run demo console start test bench image build sdk app doc setup tidy counts check-redox sim fuzz sanitize soak node-kills conformance behaviour fabric clean

.PHONY: help prepare $(COMMANDS)

help: prepare
	@cargo xtask help

prepare:
	@sh xtask/prepare.sh $(MAKECMDGOALS)

$(COMMANDS): prepare
	@cargo xtask $@ $(MAKEOVERRIDES)
