guard-test
